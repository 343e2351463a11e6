"""The verdict on a model from its records: the worst case per sample over all attacks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from maxmahal.errors import ArgumentError
from maxmahal.records.statistics import Comparison, Rate
from maxmahal.records.types import Evaluation, StageRecords

CLEAN = "clean"
"""The name of the stage without an attack."""
NO_GRADIENTS = "It needs gradients, and none reaches the images through this model."
"""Why a stage that follows the model's gradients is skipped, if there are none."""
NOTHING_LEFT = 0.03  # robust accuracy: with so little left, a missing attack could not find much more
LITTLE, MOST = 0.1, 0.5  # robust accuracy below which a model is not robust, and from which most samples are
OVERRATED = 0.1  # an attack this far above the worst case has failed on this model
Trust = Literal["held", "mended", "unresolved", "unchecked", "unfinished"]


@dataclass(frozen=True)
class StageVerdict:
    """One column of the table."""

    stage: StageRecords
    accuracy: Rate | None
    """Over all samples: under this attack alone if it ran on all of them, otherwise under it and all before it."""
    cumulative: bool
    """Which of the two ``accuracy`` is."""
    broke: int
    """Samples that this attack broke and no earlier one."""


@dataclass(frozen=True)
class Verdict:
    """Accuracies of an evaluation, and how reliable they are."""

    clean: Rate
    robust: Rate
    """Correct under every counting attack, restart and target."""
    success: Rate | None
    """The attacks' success rate over the samples that were correct without an attack; None if none was."""
    stages: tuple[StageVerdict, ...]
    trust: Trust
    sentence: str
    """The result with its interval and how reliable it is, and a sentence for each likely mistake of the user."""
    headline: str
    """The result in one sentence, with what one attack alone would have claimed."""

    def __repr__(self) -> str:
        return f"Verdict({self.sentence})"

    @property
    def claim(self) -> StageVerdict | None:
        """The attack of the suite that leaves most samples correct on its own; None before one has finished.

        A cumulative accuracy is never above that of the attacks before it.
        """
        claims = {
            each.accuracy.value: each
            for each in reversed(self.stages)
            if _counts(each.stage) and each.stage.finished and each.stage.origin == "suite"
            if each.accuracy and each.accuracy.total == self.clean.total
        }
        return claims[max(claims)] if claims else None

    @property
    def attacked(self) -> bool:
        """Whether any counting attack has finished: before that, ``robust`` says almost nothing."""
        return any(_counts(each.stage) and each.stage.finished for each in self.stages)


def right_shares(evaluation: Evaluation) -> Float[np.ndarray, " n"]:
    """For each sample, the smallest ``right_share`` under any counting attack so far; clean errors count."""
    clean = _clean(evaluation).columns
    worst = clean.right_share.copy()
    for stage in evaluation.stages:
        if stage.counts and len(stage.columns):
            rows = np.searchsorted(clean.sample, stage.columns.sample)
            worst[rows] = np.minimum(worst[rows], stage.columns.right_share)
    return worst


def stands(evaluation: Evaluation) -> Bool[np.ndarray, " n"]:
    """Which samples are robust: no counting attack has broken them."""
    return right_shares(evaluation) >= 0.5


def first_broken(evaluation: Evaluation) -> Int[np.ndarray, " n"]:
    """For each sample, the place of the first stage that broke it: 0 if it is wrong without an attack, -1 if robust."""
    clean = _clean(evaluation).columns
    first = np.where(clean.right_share < 0.5, 0, -1)
    for place, stage in enumerate(evaluation.stages):
        if stage.counts:
            fell = np.searchsorted(clean.sample, stage.columns.sample[stage.columns.right_share < 0.5])
            first[fell[first[fell] < 0]] = place
    return first


def give_verdict(evaluation: Evaluation) -> Verdict:
    """The accuracy under each attack, the worst case, and how reliable it is."""
    clean = _clean(evaluation)
    total = len(clean.columns)
    robust = Rate(float(right_shares(evaluation).sum()), total)
    right = clean.columns.right_before
    broken = int((right & ~stands(evaluation)).sum())
    trust = _trust(evaluation)
    verdict = Verdict(
        clean=Rate(float(clean.columns.right_share.sum()), total),
        robust=robust,
        success=Rate(float(broken), int(right.sum())) if right.any() else None,
        stages=tuple(_stage_verdicts(evaluation)),
        trust=trust,
        sentence=" ".join([_sentence(evaluation, robust, trust), *evaluation.notes]),
        headline="",
    )
    return replace(verdict, headline=_headline(evaluation, verdict))


def compare(first: Evaluation, second: Evaluation) -> Comparison:
    """Two models under one suite on the same images: the samples on which only one is robust."""
    if first.data_fingerprint != second.data_fingerprint or first.samples != second.samples:
        raise ArgumentError(
            f"{first.name} and {second.name} were evaluated on different images, so they cannot be paired; "
            "evaluate both with the same data and limit."
        )
    attackers = [(each.suite, each.suite_version, each.norm, each.radius) for each in (first, second)]
    if attackers[0] != attackers[1]:
        raise ArgumentError(
            f"{first.name} and {second.name} were attacked differently ({attackers[0][0]} at {first.norm} "
            f"{first.epsilon}, {attackers[1][0]} at {second.norm} {second.epsilon}), so they cannot be paired."
        )
    ours, theirs = stands(first), stands(second)
    for evaluation, robust in ((first, ours), (second, theirs)):
        if len(robust) < evaluation.samples:
            raise ArgumentError(
                f"{evaluation.name} is not evaluated on all images yet; run the same command again to finish it."
            )
    return Comparison.of(ours, theirs)


@dataclass(frozen=True)
class SeedSpread:
    """The same training with several seeds: how much the robust accuracy varies between them."""

    names: tuple[str, ...]
    mean: float
    deviation: float
    """The sample standard deviation over training seeds."""


def seed_spreads(evaluations: Sequence[Evaluation]) -> list[SeedSpread]:
    """One for each group of models that differ in nothing but ``train.seed``."""
    groups: dict[str, dict[int, Evaluation]] = {}
    for each in evaluations:
        settings = each.model.get("settings") or {}
        if "train" in settings:
            train = {key: value for key, value in settings["train"].items() if key != "seed"}
            whole = {key: value for key, value in settings.items() if key not in ("about", "table", "train")}
            suite = (each.suite, each.suite_version, each.norm, each.epsilon, each.seed)
            key = repr((whole, train, each.data_fingerprint, suite))
            # Two checkpoints of one run share its seed: only the first counts.
            groups.setdefault(key, {}).setdefault(settings["train"]["seed"], each)
    spreads = []
    for group in groups.values():
        if len({each.model_fingerprint for each in group.values()}) > 1:
            values = np.array([float(right_shares(each).mean()) for each in group.values()])
            names = tuple(each.name for each in group.values())
            spreads.append(SeedSpread(names, float(values.mean()), float(values.std(ddof=1))))
    return spreads


def _clean(evaluation: Evaluation) -> StageRecords:
    """The clean images, which are missing if an evaluation was stopped at once."""
    for stage in evaluation.stages:
        if stage.name == CLEAN and len(stage.columns):
            return stage
    raise ArgumentError(f"The evaluation of {evaluation.name} has no finished chunk yet; run it again to continue.")


def _stage_verdicts(evaluation: Evaluation) -> list[StageVerdict]:
    clean = _clean(evaluation).columns
    robust, first = clean.right_share.copy(), first_broken(evaluation)
    verdicts = []
    for place, stage in enumerate(evaluation.stages):
        after = robust.copy()
        rows = np.searchsorted(clean.sample, stage.columns.sample)
        after[rows] = np.minimum(after[rows], stage.columns.right_share)
        cumulative = stage.scope == "survivors"
        if stage.skipped or not len(stage.columns):
            accuracy = Rate(float(robust.sum()), len(clean)) if cumulative and stage.finished else None
        elif cumulative:
            accuracy = Rate(float(after.sum()), len(clean))
        else:
            accuracy = Rate(float(stage.columns.right_share.sum()), len(stage.columns))
        if stage.counts:
            robust = after
        broke = int((first == place).sum()) if stage.name != CLEAN else 0
        verdicts.append(StageVerdict(stage, accuracy, cumulative, broke))
    return verdicts


def _trust(evaluation: Evaluation) -> Trust:
    if not evaluation.finished:
        return "unfinished"
    if not was_attacked(evaluation):
        return "unresolved"
    if not evaluation.findings:
        return "unchecked"
    if not any(finding.flagged for finding in evaluation.findings):
        return "held"
    nothing_left = float(right_shares(evaluation).mean()) <= NOTHING_LEFT
    return "mended" if nothing_left or not unanswered(evaluation) else "unresolved"


def was_attacked(evaluation: Evaluation) -> bool:
    """Whether any counting attack could run."""
    return any(_counts(stage) for stage in evaluation.stages)


def _counts(stage: StageRecords) -> bool:
    return stage.counts and not stage.skipped and stage.name != CLEAN


def unanswered(evaluation: Evaluation) -> list[str]:
    """The remedies that warnings call for and that did not run; for a check without a remedy, its own name."""
    ran = {str(stage.settings.get("remedy", "")) for stage in evaluation.stages if stage.finished and not stage.skipped}
    flagged = [finding for finding in evaluation.findings if finding.flagged]
    wanted = [remedy for finding in flagged for remedy in (finding.adds or (finding.check,))]
    return [remedy for remedy in dict.fromkeys(wanted) if remedy not in ran]


def _headline(evaluation: Evaluation, verdict: Verdict) -> str:
    if not verdict.attacked:
        return verdict.sentence
    share = verdict.robust.value
    said = f"{100 * share:.1f} % of the samples stay correct under every attack"
    if evaluation.comparison:
        said += " of the paper's protocol, which does not measure robustness"
    else:
        bound = "" if verdict.trust in ("held", "mended") or not share else "at most "
        level = "Not robust" if share < LITTLE else "Partly robust" if share < MOST else "Robust on most samples"
        said = f"{level}: {bound}{said}"
    claim = verdict.claim
    if claim and claim.accuracy and claim.accuracy.value - share > OVERRATED:
        said += f", although {claim.stage.title} alone leaves {100 * claim.accuracy.value:.1f} %"
    return f"{said}." if evaluation.finished else f"{said} (not finished)."


def _sentence(evaluation: Evaluation, robust: Rate, trust: Trust) -> str:
    threat = f"{evaluation.norm} {evaluation.epsilon}"
    accuracy = f"Accuracy {robust.with_interval}" if evaluation.comparison else f"Robust accuracy {robust}"
    said = f"{accuracy} at {threat}, the worst case per sample over every attack of {evaluation.suite}"
    if any(not stage.counts and stage.threat not in ("", threat) for stage in evaluation.stages):
        said += f" at {evaluation.epsilon}"  # other stages have other epsilons, and do not count
    if any(stage.counts and stage.skipped for stage in evaluation.stages):
        said += " that applies to it"
    if any(stage.counts and stage.skipped == NO_GRADIENTS for stage in evaluation.stages):
        why = "it is a function" if evaluation.model.get("kind") == "function" else "none reaches the images"
        said += f" (those that need gradients did not run, because {why})"
    if evaluation.model.get("stochastic"):
        said += f", as a mean over {evaluation.model['draws']} draws of a stochastic model"
    if not evaluation.finished and not any(_counts(stage) and stage.finished for stage in evaluation.stages):
        return (
            f"No attack of {evaluation.suite} has finished yet, so nothing is known of its robustness at {threat}; "
            "the same command continues."
        )
    if evaluation.finished and not any(stage.counts for stage in evaluation.stages if stage.name != CLEAN):
        return f"No attack of {evaluation.suite} counts towards a worst case, so it does not measure robustness."
    if evaluation.finished and not was_attacked(evaluation):
        return (
            f"No attack of {evaluation.suite} could run on this model, so nothing is known of its robustness; "
            "choose a suite with attacks that need no gradients, such as strict."
        )
    if evaluation.comparison:
        said += ": the paper's protocol, for comparison with its tables; it does not measure robustness"
        return f"{said}." if evaluation.finished else f"{said}; the evaluation is not finished."
    if trust == "mended" and unanswered(evaluation):
        return (
            f"{said}; there were signs of false robustness, but almost no sample is left that could be falsely robust."
        )
    endings = {
        "held": ", and no sign of false robustness.",
        "mended": ", including the attacks that were added for signs of false robustness.",
        "unresolved": (
            "; signs of false robustness remain, and no attack was added for them "
            f"({', '.join(unanswered(evaluation))}), so take it as an upper bound."
        ),
        "unchecked": "; diagnostics were not run, so take it as an upper bound.",
        "unfinished": " so far: the evaluation is not finished.",
    }
    return said + endings[trust]
