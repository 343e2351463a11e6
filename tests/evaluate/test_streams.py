"""Evaluations of images that stay on disk, and of models of two and of a thousand classes."""

import io
import tarfile
from pathlib import Path

import pytest
import torch
from PIL import Image
from small_evaluations_helpers import Curved, curved, identity, labelled_by, small_suite, stage
from torch import Tensor, nn

from maxmahal.data import ImageData
from maxmahal.data.stream import StreamedData
from maxmahal.evaluate import evaluate_model
from maxmahal.evaluate.suite import load_suite

SUITE = small_suite(stage("apgd", "apgd", steps=3), stage("square", "square", queries=6))


def write_tar(path: Path, data: ImageData) -> None:
    with tarfile.open(path, "w") as tar:
        for number, (image, label) in enumerate(zip(data.images, data.labels.tolist(), strict=True)):
            stream = io.BytesIO()
            Image.fromarray(image[0].numpy()).save(stream, format="PNG")
            for ending, content in (("png", stream.getvalue()), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{number:03d}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


def test_a_stream_is_evaluated_chunk_by_chunk_as_images_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = curved()
    data = labelled_by(model)
    write_tar(tmp_path / "images.tar", data)
    read: list[int] = []
    whole = StreamedData.to

    def to(self: StreamedData, device: torch.device | str) -> ImageData:
        read.append(len(self))
        return whole(self, device)

    monkeypatch.setattr(StreamedData, "to", to)
    monkeypatch.setattr("maxmahal.evaluate.evaluated_model.SHOWN", 5)
    found = evaluate_model(model, tmp_path / "images.tar", suite=SUITE, out=tmp_path / "stream")
    expected = evaluate_model(model, data, suite=SUITE, out=tmp_path / "memory")
    assert identity(found) == identity(expected)
    assert found.data == "images.tar"
    assert sum(read) > 3 * len(data), "each stage reads its images again"


def test_the_labels_of_tars_may_lack_the_last_classes(tmp_path: Path) -> None:
    model = curved()
    data = labelled_by(model)
    few = data.select((data.labels < 2).nonzero().squeeze(1))
    write_tar(tmp_path / "images.tar", few)
    assert evaluate_model(model, tmp_path / "images.tar", suite=SUITE).class_names == ("0", "1", "2", "3")


class Spread(nn.Module):
    """A thousand classes, whose logits differ by class."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(16, 1000)
        with torch.no_grad():
            self.body.weight.copy_(torch.randn(1000, 16, generator=torch.Generator().manual_seed(0)))

    def forward(self, images: Tensor) -> Tensor:
        return self.body(images.flatten(1))  # type: ignore[no-any-return]


def aimed_at(model: nn.Module, tmp_path: Path, classes: int) -> dict[str, str]:
    """The titles of strict's stages that aim at classes, or why they did not run; few steps each."""
    images = torch.randint(0, 256, (6, 1, 4, 4), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    labels = model(images / 255).argmax(dim=1)
    data = ImageData.from_arrays("own", images, labels, [str(number) for number in range(classes)])
    strict = load_suite("strict", epsilon="1/255")
    stages = [each for each in strict.stages if each.name.endswith("-targets")]
    assert len(stages) == 2
    found = evaluate_model(model, data, suite=small_suite(*stages), out=tmp_path)
    return {each.name: each.skipped or each.title for each in found.stages[1:]}


def test_strict_aims_at_the_nine_most_likely_of_a_thousand_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maxmahal.attacks import engine

    chosen: list[tuple[Tensor, Tensor, Tensor | None]] = []
    resolve = engine.resolve_targets

    def record(targets: object, logits: Tensor, labels: Tensor, *others: object) -> Tensor | None:
        chosen.append((logits, labels, resolve(targets, logits, labels, *others)))  # type: ignore[arg-type]
        return chosen[-1][2]

    monkeypatch.setattr(engine, "resolve_targets", record)
    assert aimed_at(Spread().eval(), tmp_path, 1000) == {
        "apgd-margin-targets": "APGD-100, margin to each of 9 classes",
        "apgd-dlr-targets": "APGD-100, DLR to each of 9 classes",
    }
    aimed = [each for each in chosen if each[2] is not None]
    assert aimed
    for logits, labels, targets in aimed:
        others = logits.scatter(1, labels[:, None], -torch.inf)
        assert torch.equal(targets, others.topk(9).indices)


def test_strict_aims_at_the_other_of_two_classes(tmp_path: Path) -> None:
    assert aimed_at(Curved(classes=2).eval(), tmp_path, 2) == {
        "apgd-margin-targets": "APGD-100, margin to the other class",
        "apgd-dlr-targets": "It compares four classes, and this model has 2.",
    }
