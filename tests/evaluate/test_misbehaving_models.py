"""A model that fails, or whose answers mean nothing, gets one sentence: no traceback, no exit, no verdict."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_evaluations_helpers import Curved, labelled_by
from torch import Tensor, nn

from maxmahal.errors import ArgumentError
from maxmahal.evaluate import evaluate_model
from maxmahal.losses import MMC
from maxmahal.models import Classifier

pytestmark = pytest.mark.usefixtures("unchecked")
SUITE = """
version = 1
about = "small"
epsilon = "0.1"
diagnose = {diagnose}
mend = true

[[stage]]
name = "pgd"
attack = "pgd"
steps = 2

[[stage]]
name = "noise"
attack = "noise"
scope = "all"
counts = false
"""


class Changed(nn.Module):
    """A network with something done to its logits; every call is counted."""

    def __init__(self, change: Callable[[Tensor, int], object]) -> None:
        super().__init__()
        self.network, self.change, self.calls = Curved(), change, 0
        self.eval()

    def forward(self, images: Tensor) -> object:
        self.calls += 1
        return self.change(self.network(images), self.calls)


def sentence_for(model: object, folder: Path, *, diagnose: bool = False) -> str:
    suite = folder / "small.toml"
    suite.write_text(SUITE.format(diagnose=str(diagnose).lower()))
    with pytest.raises(ArgumentError) as caught:
        evaluate_model(model, out=folder / "out", suite=suite, data=labelled_by(Curved(), 12))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 400
    return sentence


CHANGES: dict[str, tuple[Callable[[Tensor], object], str]] = {
    "integers": (lambda logits: logits.long(), "must return floating-point logits; got torch.int64"),
    "nan": (lambda logits: logits * torch.nan, "returned NaN or infinite logits for 12 of 12 images"),
    "infinite": (lambda logits: logits * torch.inf, "returned NaN or infinite logits for 12 of 12 images"),
    "flat": (lambda logits: logits.flatten(), "must return logits of shape (12, classes) for a batch of 12"),
    "a tuple": (lambda logits: (logits, logits), "got a tuple"),
    "less their mean": (lambda logits: logits - logits.mean(dim=0), "depend on the other images of the batch"),
    "a share of the batch": (lambda logits: logits.softmax(dim=0), "depend on the other images of the batch"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_answers_that_mean_nothing_are_refused_before_anything_is_recorded(change: str, tmp_path: Path) -> None:
    function, words = CHANGES[change]
    sentence = sentence_for(Changed(lambda logits, _: function(logits)), tmp_path)
    assert sentence.startswith("a model passed from Python")
    assert words in sentence
    assert not (tmp_path / "out").exists()
    model = Curved().eval()
    assert words in sentence_for(lambda images: function(model(images)), tmp_path)


def test_a_batch_norm_in_train_mode_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    norm = nn.BatchNorm2d(1)
    model = nn.Sequential(norm, Curved())
    model.training = False
    assert "uses the statistics of the batch" in sentence_for(model, tmp_path)
    assert norm.num_batches_tracked == 0


@pytest.mark.parametrize("error", [LookupError("nothing here"), SystemExit(0)], ids=repr)
def test_a_model_may_fail_at_any_call(error: BaseException, tmp_path: Path) -> None:
    """With every call of the diagnostics and of the attacks among them."""
    counted = Changed(lambda logits, _: logits)
    (tmp_path / "small.toml").write_text(SUITE.format(diagnose="true"))
    evaluate_model(counted, out=tmp_path / "whole", suite=tmp_path / "small.toml", data=labelled_by(Curved(), 12))

    def fail(logits: Tensor, calls: int) -> Tensor:
        if calls >= place:
            raise error
        return logits

    assert counted.calls > 100
    for place in [1, 2, 3, 5, *range(8, counted.calls, counted.calls // 12)]:
        folder = tmp_path / str(place)
        folder.mkdir()
        assert f"({type(error).__name__}: {error}" in sentence_for(Changed(fail), folder, diagnose=True)


def test_the_users_own_interrupt_passes_through(tmp_path: Path) -> None:
    def stop(images: Tensor) -> Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_model(stop, out=tmp_path, suite="quick", data=labelled_by(Curved(), 4))


def test_a_classifier_that_fits_few_images_at_a_time_is_evaluated(tmp_path: Path) -> None:
    class Large(nn.Module):
        def __init__(self, room: int) -> None:
            super().__init__()
            self.network, self.room = Curved(), room

        def forward(self, images: Tensor) -> Tensor:
            if len(images) > self.room:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            return self.network(images)

    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.format(diagnose="true"))
    models = [Classifier(Large(room), MMC(torch.eye(4))).eval() for room in (12, 3)]
    data = labelled_by(models[0], 12)
    found = [evaluate_model(each, out=tmp_path / f"{each.backbone.room}", suite=suite, data=data) for each in models]
    assert found[0].finished
    assert found[0].verdict.sentence == found[1].verdict.sentence
    assert len(found[0].points) == len(found[1].points) > 0


def test_an_attack_that_overwrites_its_images_stays_in_the_ball(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "overwriting.py").write_text(
        "def attack(model, images, labels):\n    return images.copy_(1 - images)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    suite = tmp_path / "small.toml"
    suite.write_text(SUITE.format(diagnose="false").replace('"pgd"\nsteps = 2', '"overwriting:attack"'))
    model = Curved().eval()
    found = evaluate_model(model, out=tmp_path / "out", suite=suite, data=labelled_by(model, 60))
    columns = found.stage("pgd").columns
    assert columns.broken.any()
    assert columns.distortion[columns.broken].tolist() == pytest.approx([0.1] * int(columns.broken.sum()), abs=1e-3)
