"""The evaluations as the page shows them: each with its verdict, a name of its own, and a colour that stays its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.errors import ArgumentError
from maxmahal.records.naming import tell_apart
from maxmahal.records.types import Evaluation, StageRecords
from maxmahal.records.verdict import CLEAN, Verdict, give_verdict

COLOURS = 8  # that a reader with any colour vision tells apart; see assets/style.css


@dataclass(frozen=True)
class Subject:
    """One evaluation on the page."""

    evaluation: Evaluation
    verdict: Verdict | None
    """None as long as not even the clean images of one chunk are through."""
    label: str
    """The model's name, with what tells it apart where another evaluation has the same."""
    slot: int
    """Which of the page's colours is this model's, in every chart."""

    @property
    def threat(self) -> str:
        """Such as "Linf 8/255"."""
        return f"{self.evaluation.norm} {self.evaluation.epsilon}"


@dataclass(frozen=True)
class Group:
    """Evaluations whose numbers may stand in one table: one suite, one data set, one threat."""

    title: str
    key: str
    subjects: tuple[Subject, ...]


def make_subjects(evaluations: Sequence[Evaluation]) -> list[Subject]:
    """In the order given."""
    if not evaluations:
        raise ArgumentError("There is no evaluation to report on; evaluate a model first.")
    labels = tell_apart(evaluations)
    return [
        Subject(each, give_verdict(each) if _has_begun(each) else None, label, index % COLOURS)
        for index, (each, label) in enumerate(zip(evaluations, labels, strict=True))
    ]


def make_groups(subjects: Sequence[Subject]) -> list[Group]:
    """In the order of their first members."""
    found: dict[tuple[str, int, str, str], list[Subject]] = {}
    for subject in subjects:
        each = subject.evaluation
        found.setdefault((each.suite, each.suite_version, each.data, subject.threat), []).append(subject)
    return [
        Group(f"{data}, {threat}, suite {suite} (version {version})", f"group-{number}", tuple(members))
        for number, ((suite, version, data, threat), members) in enumerate(found.items(), start=1)
    ]


def counted(evaluation: Evaluation) -> tuple[StageRecords, ...]:
    """The stages that ran at all."""
    return tuple(stage for stage in evaluation.stages if not stage.skipped and len(stage.columns))


def _has_begun(evaluation: Evaluation) -> bool:
    return any(stage.name == CLEAN and len(stage.columns) for stage in evaluation.stages)
