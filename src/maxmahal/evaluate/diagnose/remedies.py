"""Which attacks to add for which warning, as stages in the form of a suite's TOML."""

from collections.abc import Sequence

from maxmahal.records import Finding

StageOptions = dict[str, object]


def _stage(name: str, title: str, attack: str, **options: object) -> StageOptions:
    return {"name": f"remedy-{name}", "title": title, "attack": attack, "scope": "survivors", **options}


# Cheap ones first, because each runs on the samples that are still correct. All use margins, which do not saturate.
REMEDIES: dict[str, tuple[StageOptions, ...]] = {
    "transfer": (_stage("transfer", "MIM-10 crafted on another model", "transfer", objective="margin", steps=10),),
    "scale-free": (
        _stage("scale-free", "APGD-100, margin, 5 starts", "apgd", objective="margin", steps=100, restarts=5),
        _stage(
            "scale-free-targets", "APGD-50, margin to 9 classes", "apgd", objective="margin", steps=50, targets="top-9"
        ),
    ),
    "straight-through": (
        # PGD as well as APGD: with flat steps the best value seldom improves, and APGD halves its steps too soon.
        _stage(
            "straight-through-pgd",
            "PGD-100, margin, straight-through, 3 starts",
            "pgd",
            search="straight-through",
            objective="margin",
            steps=100,
            restarts=3,
        ),
        _stage(
            "straight-through-apgd",
            "APGD-100, margin, straight-through, 3 starts",
            "apgd",
            search="straight-through",
            objective="margin",
            steps=100,
            restarts=3,
        ),
    ),
    "steps": (_stage("steps", "APGD-500, margin", "apgd", objective="margin", steps=500),),
    "restarts": (
        _stage("restarts", "APGD-100, margin, 10 starts", "apgd", objective="margin", steps=100, restarts=10),
    ),
    # The last iterate, because the best of many noisy values is best by chance.
    "eot": (
        _stage(
            "eot-margin",
            "PGD-100, margin, 20 draws a look",
            "pgd",
            eot=20,
            objective="margin",
            steps=100,
            keep="last",
        ),
        _stage(
            "eot-cross-entropy",
            "PGD-100, cross-entropy, 20 draws a look",
            "pgd",
            eot=20,
            objective="cross-entropy",
            steps=100,
            keep="last",
        ),
        _stage(
            "eot-targets",
            "PGD-50, margin to each of 9 classes, 10 draws a look",
            "pgd",
            eot=10,
            objective="margin",
            steps=50,
            targets="top-9",
            keep="last",
        ),
        _stage("eot-square", "Square, 300 queries, 10 draws a query", "square", eot=10, queries=300),
    ),
    "black-box": (
        _stage("square", "Square, 5000 queries, another seed", "square", queries=5000),
        # Points far apart, to see across flat steps.
        _stage(
            "spsa",
            "SPSA-40, 128 queries a step, margin",
            "spsa",
            objective="margin",
            steps=40,
            evaluations=128,
            delta=0.05,
            learning_rate=0.02,
        ),
    ),
}


def plan_remedies(findings: Sequence[Finding]) -> list[StageOptions]:
    """The stages that the warnings call for, each once, cheap ones first; ``remedy`` names the reason."""
    flagged = [finding for finding in findings if finding.flagged]
    wanted = {name for finding in flagged for name in finding.adds}
    tables: list[StageOptions] = []
    for remedy, stages in REMEDIES.items():
        if remedy == "transfer" and remedy in wanted:
            tables += [_from_source(stage, name) for stage in stages for name in _sources(flagged)]
        elif remedy in wanted:
            tables += [{**stage, "remedy": remedy} for stage in stages]
    return tables


def _sources(findings: Sequence[Finding]) -> list[str]:
    """The models whose adversarial images transferred."""
    return sorted({name for finding in findings for name in finding.numbers.get("sources", [])})


def _from_source(stage: StageOptions, source: str) -> StageOptions:
    own = {"name": f"{stage['name']}-{source}", "title": f"MIM-10 crafted on {source}", "source": source}
    return {**stage, **own, "remedy": "transfer"}
