"""Sentences of the page about trees: what words mean, how all arms were trained and attacked, what a number is not."""

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from maxmahal.data import CIFAR100_SUPERCLASSES
from maxmahal.data.registry import SOURCES
from maxmahal.report.wording import counted, listed
from paper import reproduce
from paper.pages.judging import POINT
from paper.pages.models import network_title
from paper.pages.paired import ENOUGH_SEEDS, EQUAL
from paper.pages.trees_beside import Beside, favours, later_shares, looseness
from paper.pages.trees_rules import SCAN_SEED, TRAINED, choose, seeds_told
from paper.pages.trees_scan import UNPAIRED
from paper.pages.trees_study import (
    AT_MMC,
    AT_ORTHOGONAL,
    EMC,
    GIVEN_NAMES,
    LEARNED,
    MMC,
    NEAR,
    PLAIN,
    RANDOM,
    RATIOS,
    ROTATED,
    SMALL,
    TREE_STUDIES,
    TREES,
    seeded,
)
from paper.pages.variants.results import EARLY, FOLDER, Results
from paper.pages.variants.rules import ALONE

SEVERITY = (
    "- **Superclass**: the accuracy that forgives mistakes within the true superclass. **Mistakes within**: the share "
    "of the mistakes that stay within it, which follows from the clean and the superclass accuracy. All arms are "
    "judged by the data set's own tree, whichever they were trained with.\n"
    "- **Attacked**: the same of what the suite made of every image, those included that were wrong before. Close "
    "siblings look mild by construction: an attack that flees the true class ends at the nearest center, which is then "
    "a sibling's, and an image that is wrong is not attacked again.\n"
    "- **No attack looked for a far mistake**, so it is no proof that none can be forced, and superclass accuracies "
    "under attack are upper bounds too."
)
GEOMETRY = (
    "*Nearest two*: the distance between the two centers that lie closest; *nearest across*: the same for classes of "
    "different superclasses of the data set."
)
CONVERGENCE = (
    "The mean over the seeds that get there, and in brackets the difference to MMC-10 with its interval. Epochs are "
    "whole: where all seeds differ by the same number that is chance, and no interval is given."
)
_SAME_RATIO = (
    "The seeds above compare ratios that validation chose, which differ from tree to tree. Here both have one ratio, "
    "one training each; intervals are over images, paired image by image as both models saw the same ones, and what "
    "another seed would change is not in them."
)
_NOT_PAIRED = (
    f" {UNPAIRED} marks those that are not paired but made as if each model had seen other images: the mistakes of two "
    "models are different images, and not every summary tells what became of each image."
)
_ONE_SEED = (
    "Until then an interval is over the test images alone wherever a number is of one training: what another seed "
    "would change is not in it, so no arm is said to be better than another."
)
_SCHEDULES = {"linear": "falling linearly to 0", "cosine": "falling to 0 as a cosine", "step": "falling in steps"}
_TRAINING = (
    *("model.backbone", "train.epochs", "train.batch_size", "train.lr", "train.schedule", "train.warmup"),
    *("train.weight_decay", "data.validation", "method.name"),
)
_SEEN = 0.5  # a rank correlation from which one may speak of a trend


def intro(results: Path) -> str:
    """What the page is made from, as far as it is there."""
    files = [f"`{FOLDER}/{study.name}.json`" for study in TREE_STUDIES if _file(results, study.name).exists()]
    return (
        f"Written by `paper/publish.py` from {listed(files)} and the summaries in `evaluations` and `runs`; no number "
        "is typed by hand. Schedules are short, to compare centers with one another and not with other people's models."
    )


def centers() -> str:
    """The arms, for somebody who has not read the paper's appendix."""
    groups, size = _tree()
    return "\n".join(
        [
            "- **MMC-10**: features of a class are pulled to its center, which is fixed before training; all centers "
            "have length 10 and are equally far apart.",
            "- **EMC**: the same, but centers may move from there; α is the variance that is allowed to them.",
            f"- **Hierarchical centers**: {groups} superclasses of {size} classes. A center is its superclass's, of "
            "length C1, plus an offset within the superclass, of length C2, with C1² + C2² = 10². The *ratio* is "
            "C2/C1: the smaller, the closer lie siblings, the classes of one superclass.",
            f"- **The paper's ratios**: it has C2 ≪ C1 and gives no number; here that is ratios up to {SMALL:g}.",
            "- **Three forms** of them: in *orthogonal subspaces* every superclass has coordinates of its own for its "
            "offsets; in *shared coordinates*, the paper's plain form, all use the same ones, so centers of "
            "different superclasses may come close; *shared and rotated* turns the offsets of every superclass at "
            "random first.",
            "- **Two other trees**, in orthogonal subspaces: one *learned* from a model's mistakes, and a *random* one "
            "with the given sizes, which tells the tree from its geometry.",
            f"- **Where the ratios end**: at √({groups * (size - 1)}/{groups - 1}) = {even_ratio():.2f} centers in "
            "orthogonal subspaces are all equally far apart, of the given tree and of a random one: MMC-10 again. "
            f"That the scan ends at {RATIOS[-1]} for shared coordinates and for the learned tree has no such reason.",
        ]
    )


def rule(results: Results) -> str:
    """How arms are compared, what an interval is over, and what a seed changes."""
    images = results.about.get("samples")
    told = f"the same {images:,} test images" if images else "the same test images"
    return "\n".join(
        [
            f"- **Compared** are arms seed by seed on {told}: the mean difference in points with a 95 % t interval "
            "over the seeds. What other images would change is in none of them, and of "
            f"{ENOUGH_SEEDS} some are by chance narrower than that alone.",
            f"- **A difference** counts, and is **bold**, if the interval leaves out zero, the mean is at least "
            f"{POINT:g} point, and there are {ENOUGH_SEEDS}; {ALONE} marks those that do not outlast the number of "
            f"comparisons. Two are equal if the interval stays within ±{EQUAL:g} points.",
            f"- **A seed** draws the centers anew in *{ROTATED.title}* and of the *{RANDOM.title}*, and leaves them as "
            f"they are in the other forms; the *{LEARNED.title}* is one tree.",
        ]
    )


def even_ratio() -> float:
    """Where siblings in orthogonal subspaces lie as far apart as others: 2·C2²·m/(m-1) = 2·C1²·g/(g-1) + 2·C2²."""
    groups, size = _tree()
    return math.sqrt(groups * (size - 1) / (groups - 1))


def training(results: Results, beside: Beside, waiting: Sequence[str] = ()) -> str:
    """Network, epochs, batch, learning rate and schedule, from the settings of the runs; a sentence for each kind.

    Arms that are ``waiting`` for attacks have them from their trainings.
    """
    found = {run.arm: {**results.shared, **run.settings} for run in reversed(results.runs)}
    found |= {arm: beside.settings(arm) for arm in waiting if arm not in found}
    kinds: dict[tuple[Any, ...], list[str]] = {}
    for arm, settings in found.items():
        if all(key in settings for key in _TRAINING):
            kinds.setdefault(tuple(settings[key] for key in _TRAINING), []).append(arm)
    said = []
    for kind, arms in kinds.items():
        told = [arm.title for arm in results.study.arms if arm.name in arms]
        said.append(
            f"{'; '.join(told) if len(kinds) > 1 else 'All arms'}: {_kind(dict(zip(_TRAINING, kind, strict=True)))}."
        )
    return "\n".join(f"- {each}" for each in said) if len(said) > 1 else "".join(said)


def attacks(results: Results) -> str:
    """Which suite, which ball, which images."""
    about = results.about
    count = about["samples"]
    every = count >= sum(SOURCES["cifar100"].class_counts["test"])
    images = f"all {count:,} test images" if every else f"the first {count:,} test images"
    early = any(contrast.metric == "early" for contrast in results.study.contrasts)
    more = f"; *first epochs*: the mean test accuracy after the first {EARLY}, on all test images" if early else ""
    return (
        f"Worst case, an upper bound: what every attack of the suite `{about['suite']}` (version "
        f"{about['suite_version']}) left at {about['norm']} {about['epsilon']}. Measured on {images}{more}."
    )


def bounds(results: Results, beside: Beside) -> str:
    """Why the worst case by the short suite is a bound, and whom the bound favours."""
    told = f" ({'; '.join(beside.attacks)})" if beside.attacks else ""
    said = (
        f"The suite `{TREES.suite}` is short{told}: one start each, no diagnostics, and every attack sees only the "
        "images that those before it left. It has not converged, so its worst cases are upper bounds.",
        looseness(results, beside),
        _bias(results, beside),
        f"The check is the suite `{NEAR.suite}` in the same ball. *Later attacks broke*: the share of what the first "
        "attack left.",
    )
    return "\n".join(f"- {each}" for each in said if each)


def _bias(results: Results, beside: Beside) -> str:
    """Which way the comparison with MMC errs, by the arms that have seeds enough."""
    given = seeded(results, GIVEN_NAMES)
    side, shares = favours(results, given, beside)
    if not side:
        return ""
    seeds = counted("seed", *(len(each) for arm in (MMC, *given) if (each := later_shares(results, arm, beside))))
    return f"Over {seeds} they break {shares}: compared so, the bounds favour {side}."


def one_seed(results: Results, grid: str, beside: Beside) -> str:
    """That there are no verdicts yet, and how far the trainings are."""
    titles = {arm.name: arm.title for arm in results.study.arms}
    chosen = [choose(results, family, beside).best for family in (*PLAIN, AT_ORTHOGONAL)]
    asked = [arm for arm in (MMC, AT_MMC, *chosen) if arm in titles]
    waiting = [titles[arm] for arm in asked if seeds_told(results, arm, beside) == TRAINED]
    more = f" {TRAINED.capitalize()}: {'; '.join(waiting)}." if waiting else ""
    return f"**{ENOUGH_SEEDS.capitalize()}: not run.** {reproduce(grid)} makes them.{more} {_ONE_SEED}"


def same_ratio(table: str) -> str:
    """What the intervals of the table about trees at one ratio are."""
    return _SAME_RATIO + (_NOT_PAIRED if UNPAIRED in table else "")


def learned(results: Results, beside: Beside) -> list[str]:
    """Why the learned tree's validation accuracy flatters it; nothing where it was not trained."""
    if not choose(results, LEARNED, beside).scores:
        return []
    return [
        "The learned tree was made from a model's mistakes on the same held-out images that then choose its ratio, so "
        "its validation accuracy is not comparable with the given tree's. Test images had no part in either."
    ]


def fit(results: Results, beside: Beside) -> str:
    """What the training loss is, and whether models that fit worse stand better."""
    said = (
        "*Training loss*: the mean over the last epoch of ½‖z − μ‖², z being the features and μ the center; EMC's has "
        "a term more."
    )
    runs = [run for run in results.runs if run.seed == SCAN_SEED and run.arm not in EMC.names]
    pairs = [(beside.training_loss(run.name, run.fingerprint), run.robust.value) for run in runs]
    known = [(loss, left) for loss, left in pairs if loss is not None]
    if len(known) < len(PLAIN):
        return said
    found = rank_correlation([loss for loss, _ in known], [left for _, left in known])
    if found < _SEEN:
        return said
    return (
        f"{said} Over {len(known)} arms without EMC the worst case rises with it (rank correlation {found:.2f}). The "
        "ratio moves both, so this proves no cause; still, a better worst case may come from a worse fit and not from "
        "better centers."
    )


def rank_correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Spearman's: Pearson's of the ranks, equal values at the mean of theirs."""
    return float(np.corrcoef(_ranks(ours), _ranks(theirs))[0, 1])


def _ranks(values: Sequence[float]) -> Float[np.ndarray, " n"]:
    every = np.asarray(values, dtype=float)
    below, equal = ((every[:, None] > every).sum(axis=1), (every[:, None] == every).sum(axis=1))
    return np.asarray(below + (equal - 1) / 2)


def _kind(settings: dict[str, Any]) -> str:
    network, schedule = settings["model.backbone"], settings["train.schedule"]
    warmup = f", rising over the first {100 * settings['train.warmup']:g} %" if settings["train.warmup"] else ""
    how = "" if settings["method.name"] == "standard" else f"{settings['method.name']} training, "
    return (
        f"{network_title(network)}, {how}{settings['train.epochs']} epochs in batches of "
        f"{settings['train.batch_size']}, learning rate {settings['train.lr']:g}{warmup} and "
        f"{_SCHEDULES.get(schedule, schedule)}, weight decay {settings['train.weight_decay']:g}, "
        f"{settings['data.validation']:,} training images held out for validation"
    )


def _tree() -> tuple[int, int]:
    """How many superclasses, and of how many classes each."""
    sizes = Counter(CIFAR100_SUPERCLASSES)
    return len(sizes), max(sizes.values())


def _file(results: Path, study: str) -> Path:
    return results / FOLDER / f"{study}.json"
