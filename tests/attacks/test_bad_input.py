"""Every mistake a caller can make is answered in one sentence, and most of them before the model is asked anything."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_models import normal
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Outputs, Result, cross_entropy, margin, mim, own_loss, pgd
from maxmahal.errors import ArgumentError

IMAGES, LABELS = torch.full((3, 1, 2, 2), 0.5), torch.tensor([0, 1, 2])


class Asked(nn.Module):
    """A linear model of three classes that counts its calls, with something done to its answer."""

    def __init__(self, answer: Callable[[Tensor, Tensor], Any] = lambda logits, images: logits) -> None:
        super().__init__()
        self.weight = nn.Parameter(normal(0, 3, 4))
        self.answer, self.calls = answer, 0
        self.eval()

    def forward(self, images: Tensor) -> Any:
        self.calls += 1
        return self.answer((images.flatten(1) - 0.5) @ self.weight.T + 2 * torch.eye(3)[: len(images)], images)


def attack(with_: Callable[..., Result] = pgd, **changes: Any) -> Result:
    arguments: dict[str, Any] = {
        "model": Asked(),
        "images": IMAGES,
        "labels": LABELS,
        "objective": margin(),
        "threat": Linf(0.1),
        "steps": 2,
        "step_size": 0.05,
        "seed": 0,
        "sample_ids": torch.arange(3),
    }
    return with_(**(arguments | changes))


def sentence_for(**changes: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        attack(**changes)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))
    return sentence


CALL = "Call what makes it, as in objective=margin()"
BEFORE_ANY_WORK = {
    "bytes": ({"images": IMAGES * 255}, "images must lie in [0, 1]; got 127.5..127.5. Divide bytes by 255, and let"),
    "normalised": ({"images": IMAGES - 1}, "images must lie in [0, 1]; got -0.5..-0.5."),
    "bounds": ({"threat": Linf(0.1, (0.6, 0.9))}, "images must lie in [0.6, 0.9]; got 0.5..0.5. Check the threat's"),
    "nan": ({"images": IMAGES * torch.nan}, "images must be numbers; some of these pixels are NaN."),
    "uint8": (
        {"images": torch.zeros(3, 1, 2, 2, dtype=torch.uint8)},
        "images must be a float32 tensor of shape (n, channels, height, width); got torch.uint8 of shape (3, 1, 2, 2). "
        "Divide bytes by 255: images / 255.",
    ),
    "half": ({"images": IMAGES.half()}, "got torch.float16 of shape (3, 1, 2, 2)."),
    "flat": ({"images": IMAGES.flatten(1)}, "got torch.float32 of shape (3, 4)."),
    "numpy": ({"images": IMAGES.numpy()}, "(n, channels, height, width); got ndarray."),
    "list": ({"images": [1, 2], "threat": L2(0.1)}, "(n, channels, height, width); got list."),
    "none": ({"images": IMAGES[:0], "labels": LABELS[:0], "sample_ids": LABELS[:0]}, "at least one image; got none."),
    "double": ({"images": IMAGES.double()}, "images are float64 and the model's weights float32; convert the images"),
    "few labels": ({"labels": LABELS[:2]}, "labels must hold one value for each of the 3 images; got 2."),
    "column": (
        {"labels": LABELS[:, None]},
        "hold one value for each of the 3 images; got the shape (3, 1).",
    ),
    "int32": ({"labels": LABELS.int()}, "labels must be torch.int64; got torch.int32. Convert them with .long()."),
    "float labels": ({"labels": LABELS.float()}, "labels must be torch.int64; got torch.float32."),
    "label list": ({"labels": [0, 1, 2]}, "labels must be a torch.int64 tensor; got a list."),
    "few ids": ({"sample_ids": torch.arange(2)}, "sample_ids must hold one value for each of the 3 images; got 2."),
    "labels away": ({"labels": LABELS.to("meta")}, "images are on cpu and labels on meta; move one to the other."),
    "model away": (
        {"model": Asked().to("meta")},
        "The model is on meta and the images on cpu; move one to",
    ),
    "train": ({"model": Asked().train()}, "The model is in train mode, where batch norm mixes samples"),
    "no model": (
        {"model": "resnet18"},
        "an nn.Module or a function from images to logits; got 'resnet18'.",
    ),
    "no steps": ({"steps": 0}, "steps must be a whole number of at least 1; got 0."),
    "negative steps": ({"steps": -1}, "steps must be a whole number of at least 1; got -1."),
    "half steps": ({"steps": 2.5}, "steps must be a whole number of at least 1; got 2.5."),
    "zero step": ({"step_size": 0.0}, "step_size must be positive; got 0.0."),
    "negative step": ({"step_size": -0.1}, "step_size must be positive; got -0.1."),
    "nan step": ({"step_size": float("nan")}, "step_size must be positive; got nan."),
    "endless step": ({"step_size": float("inf")}, "step_size must be positive; got inf."),
    "text step": ({"step_size": "2/0"}, "step_size must be a number or a fraction such as 8/255; got '2/0'."),
    "keep": ({"keep": "bset"}, "keep = 'bset' is unknown; did you mean 'best'?"),
    "source": ({"label_source": "truth"}, "label_source = 'truth' is unknown; did you mean 'true'?"),
    "threat": ({"threat": [0.03]}, "threat must be an epsilon such as '8/255', or a threat such as Linf('8/255') or"),
    "threat of 8": ({"threat": 8}, "epsilon must lie in (0, 1] because images do; got 8. Did you mean 8/255?"),
    "threat in words": ({"threat": "8"}, "epsilon must lie in (0, 1] because images do; got 8. Did you mean 8/255?"),
    "seed": ({"seed": 3.0}, "seed must be a whole number; got 3.0. Convert it with int()."),
    "factory": ({"objective": margin}, "objective must be a function of outputs, labels and targets; got margin. Call"),
    "head": ({"objective": own_loss}, f"got own_loss. {CALL}; did you mean 'own_loss(head)'?"),
    "name": ({"objective": "margin"}, "objective must be a function of outputs, labels and targets; got 'margin'."),
    "suite's name": ({"objective": "cross-entropy"}, f"got 'cross-entropy'. {CALL}; did you mean 'cross_entropy()'?"),
    "short name": ({"objective": "ce"}, f"got 'ce'. {CALL}; choose one of: class_logit(), cross_entropy(), dlr(), mar"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("with_", [pgd, mim])
@pytest.mark.parametrize("mistake", BEFORE_ANY_WORK)
def test_mistakes_that_show_before_any_work(mistake: str, with_: Callable[..., Result]) -> None:
    changes, words = BEFORE_ANY_WORK[mistake]
    model = changes.get("model", Asked())
    assert words in sentence_for(with_=with_, **({"model": model} | changes))
    assert getattr(model, "calls", 0) == 0


AFTER_ONE_LOOK = {
    "label": ({"labels": LABELS + 1}, "labels must lie in 0..2 because the model has 3 classes; got 1..3."),
    "negative": ({"labels": LABELS - 1}, "labels must lie in 0..2 because the model has 3 classes; got -1..1."),
    "own target": ({"targets": torch.tensor([1, 1, 1])}, "sample 1 of the batch has its own label, 1, as a target."),
    "few targets": ({"targets": torch.tensor([1])}, "for each of the 3 samples; got the shape (1,)."),
    "far target": ({"targets": torch.tensor([1, 7, 1])}, "targets must lie in 0..2 because the model has 3 classes"),
    "target away": ({"targets": (LABELS + 1).to("meta")}, "targets must be on the logits' device, cpu; got meta."),
    "target name": ({"targets": "random-others"}, "targets = 'random-others' is unknown; did you mean 'random-other'?"),
    "nan": (
        {"model": Asked(lambda logits, images: logits / torch.tensor([[1.0], [0.0], [1.0]]) * 0)},
        "The model returned NaN or infinite logits for 1 of 3 images, so no verdict on them means anything; look",
    ),
    "tuple": (
        {"model": Asked(lambda logits, images: (logits, images))},
        "The model must return logits of shape (3, classes) for a batch of 3; got a tuple. Wrap it in a module that "
        "returns the logits alone.",
    ),
    "flat": (
        {"model": Asked(lambda logits, images: logits[:, 0])},
        "The model returns one logit per image; return two",
    ),
    "map": ({"model": Asked(lambda logits, images: logits[:, :, None, None])}, "got the shape (3, 3, 1, 1)."),
    "fewer": ({"model": Asked(lambda logits, images: logits[:2])}, "for a batch of 3; got the shape (2, 3)."),
    "function": ({"model": lambda images: np.zeros((3, 3))}, "for a batch of 3; got a ndarray."),
    "one class": ({"model": Asked(lambda logits, images: logits[:, :1])}, "tell at least two classes apart to be att"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("with_", [pgd, mim])
@pytest.mark.parametrize("mistake", AFTER_ONE_LOOK)
def test_mistakes_that_show_once_the_model_has_answered(mistake: str, with_: Callable[..., Result]) -> None:
    changes, words = AFTER_ONE_LOOK[mistake]
    assert words in sentence_for(with_=with_, **changes)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("mistake", ["tuple", "map", "function"])
def test_a_bad_answer_is_refused_in_small_batches_too(mistake: str) -> None:
    changes, _ = AFTER_ONE_LOOK[mistake]
    assert "for a batch of 1; got" in sentence_for(engine=Engine(batch_size=1), **changes)


def test_epsilons_that_were_meant_in_255ths() -> None:
    with pytest.raises(ArgumentError, match=r"epsilon must lie in \(0, 1\] .*; got 8\. Did you mean 8/255\?"):
        attack(threat=Linf(8.0))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["batch_size", "eot_samples"])
@pytest.mark.parametrize("value", [0, -3, 1.5, True])
def test_an_engine_needs_whole_numbers(name: str, value: object) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be a whole number of at least 1; got {value}"):
        Engine(**{name: value})


@pytest.mark.usefixtures("unchecked")
def test_pgd_alone_has_restarts_and_mim_alone_a_decay() -> None:
    assert sentence_for(restarts=0) == "restarts must be a whole number of at least 1; got 0."
    for decay in (-0.1, float("nan"), float("inf")):
        assert sentence_for(with_=mim, decay=decay) == f"decay must be finite and not negative; got {decay}."


def lost_beyond(images: Tensor) -> Tensor:
    """NaN for the second image, once it has moved."""
    moved = (images != 0.5).flatten(1).any(dim=1, keepdim=True)
    second = torch.arange(len(images))[:, None] == 1
    return torch.where(moved & second, torch.nan, 1.0)


@pytest.mark.parametrize("with_", [pgd, mim])
@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("early_exit", [True, False])
def test_a_model_that_returns_nan_on_moved_images_is_neither_right_nor_fooled(
    with_: Callable[..., Result], keep: str, early_exit: bool
) -> None:
    model = Asked(lambda logits, images: logits * lost_beyond(images))
    sentence = sentence_for(with_=with_, model=model, keep=keep, engine=Engine(early_exit=early_exit))
    assert sentence.startswith("The model returned NaN or infinite logits for 1 of 3 images")


@pytest.mark.usefixtures("unchecked")
def test_an_objective_that_averages_is_refused() -> None:
    for mean in (lambda *asked: margin()(*asked).mean(), lambda *asked: margin()(*asked).mean().item()):
        sentence = sentence_for(objective=mean)
        assert "The objective must return one value for each image of a batch of 3; got " in sentence
        assert sentence.endswith("Leave out the mean or sum.")


class Quantised(nn.Module):
    def __init__(self, keeps_the_graph: bool) -> None:
        super().__init__()
        self.asked, self.keeps_the_graph = Asked(), keeps_the_graph
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        logits = self.asked((255 * images.detach()).round() / 255)
        return logits if self.keeps_the_graph else logits.detach()


@pytest.mark.parametrize("keeps_the_graph", [True, False])
def test_a_model_that_hides_its_gradient_is_told_apart_from_a_robust_one(keeps_the_graph: bool) -> None:
    sentence = sentence_for(model=Quantised(keeps_the_graph))
    assert sentence.startswith("No gradient reaches the images")
    assert sentence.endswith("Wrap it in straight_through, or use spsa or square.")


def test_inference_mode_is_no_place_for_gradients() -> None:
    with torch.inference_mode():
        assert "torch.inference_mode() forbids; call it outside." in sentence_for()
        images, labels = IMAGES.clone(), LABELS.clone()
    assert attack(images=images, labels=labels).images.shape == IMAGES.shape  # what was made there may be attacked


def test_a_ball_in_which_all_images_look_alike_is_worth_a_warning() -> None:
    words = (
        r"Linf\(0\.6\) lets an attacker turn these images into almost anything \(from 0\.5 on they can all look alike\)"
    )
    with pytest.warns(UserWarning, match=words + r": a low accuracy says nothing about the model\.") as caught:
        attack(threat=Linf(0.6))
    assert len(caught) == 1
    with pytest.warns(UserWarning, match=r"L2\(0\.5\) lets .* \(from 0\.5 on they"):
        attack(threat=L2(0.5))  # four pixels: 0.25·√4
    attack(threat=Linf(0.49))
    attack(threat=L2(0.49))
    attack(threat=Linf(0.6, bounds=(0.0, 2.0)))


def test_probabilities_are_worth_a_warning() -> None:
    words = "The model seems to return probabilities: after a softmax gradients vanish and attacks look weaker"
    with pytest.warns(UserWarning, match=words) as caught:
        attack(model=Asked(lambda logits, images: logits.softmax(dim=1)), objective=cross_entropy())
    assert len(caught) == 1
    attack(model=Asked(lambda logits, images: logits.softmax(dim=1) + 0.01))


SCRIPT = """
import torch
from maxmahal.attacks import Linf, fgsm, margin

def attack(model):
    model.eval()
    fgsm(model, torch.full((1, 1, 2, 2), 0.5), torch.tensor([0]), objective=margin(), threat=Linf(0.6))  # the line

attack(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3), torch.nn.Softmax(dim=1)))
"""


def test_warnings_point_at_the_callers_line(tmp_path: Path) -> None:
    """In a process of its own, because checked annotations put frames of theirs in between."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert done.stderr.count(f"{script}:7: MaxmahalWarning") == done.stderr.count("MaxmahalWarning") == 2, done.stderr


def test_features_are_not_needed_where_nobody_asks_for_them() -> None:
    def by_hand(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        assert outputs.features is None
        return margin()(outputs, labels, targets)

    assert attack(objective=by_hand).images.shape == IMAGES.shape
