"""The results page, the claims page and the README's block, as Markdown from summaries alone."""

from collections.abc import Sequence

from maxmahal.report.published.adversarial import compared_models, paired_table, spreads, why_unfair
from maxmahal.report.published.claims import claims
from maxmahal.report.published.models import BEYOND, TABLE_1, TABLE_2, TABLE_5
from maxmahal.report.published.shelf import ENOUGH, NOT_RUN, SIZES, Shelf
from maxmahal.report.published.tables import (
    budgets_table,
    cost_table,
    depth_table,
    missing_list,
    spsa_table,
    threats_table,
    tuning_table,
    white_box_summary,
    white_box_table,
)
from maxmahal.report.wording import listed

_MADE = "Written by `tools/results.py` from the summaries beside this page; no number is typed by hand."
_NOTES = (
    "Accuracies in %, on the CIFAR-10 test set. *paper / ours* in one cell; attacks of the paper's protocol run as its "
    "code ran them (epsilons in 256ths, steps of 2/256, the last iterate, the model's own prediction), which is no "
    "measure of robustness. `strict` and AutoAttack are: the worst case per sample at Linf 8/255 on true labels. "
    "≤ stands for none of the samples, with the bound that their number proves."
)


def results_page(shelf: Shelf, figures: Sequence[str]) -> str:
    """Every table beside the paper's, the experiment of the two budgets, the cost, and what is missing."""
    others = [name for name in dict.fromkeys([*BEYOND, *_rest(shelf)]) if _known(shelf, name)]
    unfair = why_unfair(shelf.serious()) or "AT (SCE) of the long budget is a fair baseline."
    sce, mmc = spreads(shelf).values()
    parts = [
        "# Results on CIFAR-10",
        _MADE,
        _NOTES,
        _environment(shelf),
        "What the paper claims, judged from these numbers: [claims.md](claims.md).",
        "## Table 1: white-box attacks",
        white_box_table(shelf),
        "## Table 2: C&W, SPSA, noise, rotation",
        "C&W: mean L2 distance of the images it turned from right to wrong; more is better.",
        threats_table(shelf),
        "## Table 3: SPSA with larger batches, on MMC-10",
        f"SPSA by `{SIZES}` is on the first 100 images, as many as in the paper; PGD-10 on those of Table 1.",
        spsa_table(shelf),
        "## Table 5: depth",
        depth_table(shelf),
        "## Adversarial training at two budgets",
        unfair,
        budgets_table(shelf, compared_models(shelf)),
        paired_table(shelf),
        f"Short budget under AutoAttack, mean ± deviation over training seeds: AT (SCE) {sce}, AT (MMC-10) {mmc}.",
        *_figure(figures, "budgets.svg", "Robust accuracy of AT (SCE) and AT (MMC-10) at two budgets"),
    ]
    if others:
        parts += ["## Models outside of the paper's tables", budgets_table(shelf, others)]
    moved = [name for name in figures if name.startswith("transfer-")]
    if moved:
        parts += ["## Figure 4: transfer", *(f"![Transfer between models](figures/{name})" for name in moved)]
    parts += ["## Training", cost_table(shelf)]
    parts += _figure(figures, "training.svg", "Test error against training time")
    if tuned := tuning_table(shelf):
        parts += ["## Tuning", "Scores on held-out training images, the best epoch of each trial.", tuned]
    parts += ["## What was not run", missing_list(shelf)]
    return "\n\n".join(parts) + "\n"


def claims_page(shelf: Shelf) -> str:
    """Each claim: what the paper says and prints, what we measured, the verdict and what would change it."""
    judged = [(claim, claim.judge(shelf.serious())) for claim in claims()]
    parts = [
        "# The paper's claims, judged",
        f"{_MADE} Each verdict is computed by the rule that stands with it; "
        f"evaluations of fewer than {ENOUGH:,} images count as not run here, but for the batches of SPSA: the paper's "
        "Table 3 itself has 100 images, so its rule goes by intervals. A rule that lacks a part of what it asks for "
        "never says more than *holds in part*.",
        "\n".join(["| claim | verdict |", "|---|---|", *(f"| {c.title} | **{j.verdict}** |" for c, j in judged)]),
    ]
    for claim, judgement in judged:
        parts += [
            f"## {claim.title}",
            f"**The paper** ({claim.where}): {claim.says}",
            f"**Verdict: {judgement.verdict}.** {judgement.reason}",
            judgement.evidence,
            f"*Rule:* {claim.rule}",
            f"*What would change the verdict:* {claim.change}",
        ]
    return "\n\n".join(parts) + "\n"


def readme_block(shelf: Shelf) -> str:
    """A short table and the verdicts, for the front page."""
    if not shelf.evaluations:
        return "No CIFAR-10 model has been evaluated for this table yet."
    verdicts: dict[str, list[str]] = {}
    for claim in claims():
        verdicts.setdefault(claim.judge(shelf.serious()).verdict, []).append(claim.title)
    lines = [f"- **{verdict}**: {'; '.join(titles)}" for verdict, titles in sorted(verdicts.items())]
    return "\n".join(
        [
            "CIFAR-10, accuracies in %, *paper / ours*; `strict` and AutoAttack at Linf 8/255 are ours alone:",
            "",
            white_box_summary(shelf),
            "",
            "[Every table](results/README.md). The paper's claims, [judged by rule](results/claims.md):",
            "",
            *lines,
        ]
    )


def _environment(shelf: Shelf) -> str:
    devices = sorted({str(each.environment.get("device", "")) for each in shelf.evaluations} - {""})
    versions = sorted({str(each.environment.get("versions", {}).get("torch", "")) for each in shelf.evaluations} - {""})
    days = sorted(str(each.environment.get("started", ""))[:10] for each in shelf.evaluations)
    if not devices:
        return "Nothing has been evaluated yet."
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    return f"Measured on {listed(devices)}, torch {listed(versions) if versions else NOT_RUN}, {when}."


def _figure(figures: Sequence[str], name: str, words: str) -> list[str]:
    return [f"![{words}](figures/{name})"] if name in figures else []


def _known(shelf: Shelf, name: str) -> bool:
    return any(each.name == name for each in shelf.evaluations)


def _rest(shelf: Shelf) -> list[str]:
    """Whatever was evaluated and stands in none of the tables above."""
    shown = {*TABLE_1, *TABLE_2, *TABLE_5, *compared_models(shelf)}
    return [name for each in shelf.evaluations if (name := each.name) not in shown]
