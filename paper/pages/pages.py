"""The results page, the claims page and the README's block, as Markdown from summaries alone."""

from collections.abc import Sequence

from maxmahal.records.types import AND
from maxmahal.report.wording import listed
from paper.pages.both import JOINED
from paper.pages.claims import claims
from paper.pages.hierarchical import hm_brief
from paper.pages.hundred import losses_brief
from paper.pages.leads import COUNTED
from paper.pages.missing import missing_list
from paper.pages.sections import figure_lines, hundred_section, other_sections, ten_section
from paper.pages.shelf import ENOUGH, NOT_RUN, Shelf
from paper.pages.tables import hundred_summary, white_box_summary
from paper.pages.trainings import cost_table, tuning_table

_FOLDER = "paper/results/"  # from the front page
_MADE = "Written by `paper/publish.py` from the summaries beside this page; no number is typed by hand."
_NOTES = (
    "Accuracies in %, on the test sets. *paper / ours* in one cell; attacks of the paper's protocol run as its code "
    "ran them: epsilons in 256ths, steps of 2/256, the last iterate; PGD goes away from the model's own prediction, "
    "SPSA and C&W from the true label, and targeted ones towards one of the wrong classes. That is no measure of "
    "robustness. `strict` and AutoAttack are: the worst case per "
    "sample at Linf 8/255 on true labels. "
    "≤ in our numbers stands for none of the samples, with the bound that their number proves; the paper prints ≤ 1 "
    "for what is below 1 %. Clean accuracies are of all test images where these are known, by the training's own count "
    "where a model was attacked on a few of them or not at all."
)


def results_page(shelf: Shelf, figures: Sequence[str]) -> str:
    """Every table beside the paper's, data set by data set, the cost, and what is missing."""
    parts = [
        "# Results on CIFAR-10 and CIFAR-100",
        _MADE,
        _NOTES,
        _environment(shelf),
        "What the paper claims, judged from these numbers: [claims.md](claims.md).",
        *ten_section(shelf, figures),
        *hundred_section(shelf),
        *other_sections(shelf),
        "## Training",
        cost_table(shelf),
        *figure_lines(figures, "training.svg", "Test error during training, CIFAR-10"),
        *figure_lines(figures, "training-cifar100.svg", "Test error during training, CIFAR-100"),
        *figure_lines(figures, "training-cifar100-at.svg", "Test error during adversarial training, CIFAR-100"),
    ]
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
        "Table 3 is in whole percents, as of 100 images, and its rule goes by intervals. A rule that lacks a part of "
        "what it asks for never says more than *holds in part*, and *undecided* is what the numbers leave open either "
        "way.",
        JOINED,
        COUNTED,
        'Two numbers of the paper with "or" between them, such as 92.9 or 93.6 for the clean accuracy of SCE, are of '
        "two of its tables that disagree about the same model.",
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
        return "No model has been evaluated for this table yet."
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
            *_hundred_lines(shelf),
            "[Every table](paper/results/README.md). The paper's claims, [judged by rule](paper/results/claims.md):",
            "",
            *lines,
        ]
    )


def _hundred_lines(shelf: Shelf) -> list[str]:
    """CIFAR-100 on the front page, as far as it was measured."""
    table = hundred_summary(shelf)
    notes = [hm_brief(shelf, _FOLDER), losses_brief(shelf, _FOLDER)]
    return [line for part in ("CIFAR-100:", table, *notes) if part for line in (part, "")] if table else []


def _environment(shelf: Shelf) -> str:
    places = [(each.name, str(each.environment.get("device", ""))) for each in shelf.evaluations]
    devices = sorted({device for _, place in places for device in place.split(AND)} - {""})
    moved = list(dict.fromkeys(f"`{name}`" for name, place in places if AND in place))
    versions = sorted({str(each.environment.get("versions", {}).get("torch", "")) for each in shelf.evaluations} - {""})
    days = sorted(str(each.environment.get("started", ""))[:10] for each in shelf.evaluations)
    if not devices:
        return "Nothing has been evaluated yet."
    when = days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    return f"Measured on {listed(devices)}, torch {listed(versions) if versions else NOT_RUN}, {when}{_moved(moved)}."


def _moved(names: list[str]) -> str:
    return f"; begun on one device and ended on another: {listed(names)}" if names else ""
