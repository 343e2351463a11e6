"""What the attacks did to some images: the clean one, the perturbation, the one that fooled the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from maxmahal.records.types import Evaluation, Picture
from maxmahal.report.pixels import amplify, data_uri
from maxmahal.report.render import Section, render
from maxmahal.report.subjects import Subject
from maxmahal.report.wording import short

_BYTES = 1_200_000  # of pictures in all, so that the page stays one that can be mailed
_EACH = 6


@dataclass(frozen=True)
class Exhibit:
    """Three images and what the model says about them."""

    picture: Picture
    title: str
    label: str
    before: str
    after: str
    factor: str
    clean: str
    perturbation: str
    adversarial: str

    @property
    def size(self) -> int:
        """Of its images in the page."""
        return len(self.clean) + len(self.perturbation) + len(self.adversarial)


def gallery_section(subjects: Sequence[Subject]) -> Section | None:
    """None where no record kept its images."""
    shown = [subject for subject in subjects if subject.evaluation.pictures]
    if not shown:
        return None
    walls = []
    for subject in shown:
        pictures = subject.evaluation.pictures
        chosen = choose(pictures)[:_EACH]
        exhibits = _within(_BYTES // len(shown), [_exhibit(subject.evaluation, each) for each in chosen])
        walls.append((subject, exhibits, len(pictures)))
    return Section("gallery", "What the attacks did", "Gallery", render("sections/gallery.html.j2", walls=walls))


def choose(pictures: Sequence[Picture]) -> list[Picture]:
    """One picture a sample, each of another attack than the one before as long as there are several."""
    by_sample: dict[int, list[Picture]] = {}
    for picture in pictures:
        by_sample.setdefault(picture.sample, []).append(picture)
    return [several[turn % len(several)] for turn, several in enumerate(by_sample.values())]


def _within(budget: int, exhibits: list[Exhibit]) -> list[Exhibit]:
    """As many of the first ones as fit, one at least."""
    kept, spent = exhibits[:1], sum(each.size for each in exhibits[:1])
    for each in exhibits[1:]:
        spent += each.size
        if spent > budget:
            break
        kept.append(each)
    return kept


def _exhibit(evaluation: Evaluation, picture: Picture) -> Exhibit:
    shown, factor = amplify(picture.adversarial.astype("float64") - picture.clean.astype("float64"))
    titles = {stage.name: stage.title for stage in evaluation.stages}
    return Exhibit(
        picture,
        titles.get(picture.stage, picture.stage),
        class_name(evaluation, picture.label),
        class_name(evaluation, picture.clean_prediction),
        class_name(evaluation, picture.prediction),
        f"×{short(factor)}",
        data_uri(picture.clean),
        data_uri(shown),
        data_uri(picture.adversarial),
    )


def class_name(evaluation: Evaluation, label: int) -> str:
    """The class's name, or its number where the data set has no name for it."""
    names = evaluation.class_names
    return names[label] if 0 <= label < len(names) else f"class {label}"
