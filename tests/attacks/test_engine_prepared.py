"""A prepared model searches and the model itself decides, however much the two disagree."""

from collections.abc import Iterator

import pytest
import torch
from small_models import Curved, Linear, Pretender, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import Engine, Linf, Result, carlini_wagner, margin, pgd
from maxmahal.attacks.engine import Case, run
from maxmahal.attacks.method import State, Trial
from maxmahal.attacks.oracle import Look, Oracle, Samples, full_float32, is_coarse, judge
from maxmahal.errors import ArgumentError

COUNT = 16
IMAGES, IDS = uniform(1, COUNT, 1, 4, 4), torch.arange(COUNT)
MODEL = Curved().eval()
LABELS = predictions(MODEL, IMAGES)
LABELS[[2, 7]] = (LABELS[[2, 7]] + 1) % 4


def attack(model: nn.Module, **changes: object) -> Result:
    arguments: dict[str, object] = {"threat": Linf(0.05), "steps": 6, "step_size": 0.025, "seed": 0, "sample_ids": IDS}
    return pgd(model, IMAGES, LABELS, objective=margin(), **(arguments | changes))


def threshold(at: float) -> nn.Module:
    """Of one pixel: class 0 below ``at``, class 1 above."""
    return Linear(torch.tensor([[-1.0], [1.0]]), torch.tensor([at, -at])).eval()


PIXEL, ZERO = torch.full((1, 1, 1, 1), 0.2), torch.tensor([0])


def climb(model: nn.Module, **changes: object) -> Result:
    """Steps of 0.1 upwards from 0.2, where the pixel may go as far as 0.69."""
    options = {"objective": margin(), "threat": Linf(0.49), "steps": 5, "step_size": 0.1, "random_start": False}
    return pgd(model, PIXEL, ZERO, seed=0, **(options | changes))


@pytest.mark.parametrize("early_exit", [True, False])
def test_a_refuted_claim_goes_on_and_can_still_be_true_later(early_exit: bool) -> None:
    """The search is fooled from 0.35 on, the model only from 0.55 on."""
    attacked = climb(Pretender(threshold(0.55), threshold(0.35)), engine=Engine(early_exit=early_exit))
    assert attacked.fooled.tolist() == [True]
    assert attacked.images.item() == pytest.approx(0.6 if early_exit else 0.69, abs=1e-6)


@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("early_exit", [True, False])
def test_a_claim_that_is_never_confirmed_does_not_count(keep: str, early_exit: bool) -> None:
    attacked = climb(Pretender(threshold(0.9), threshold(0.35)), keep=keep, engine=Engine(early_exit=early_exit))
    assert attacked.fooled.tolist() == [False]
    assert attacked.predictions.tolist() == [0]
    assert attacked.passes.backward == 5


def test_claims_of_many_steps_are_confirmed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    verdict = Oracle.verdict

    def counted(self: Oracle, images: Tensor, samples: Samples) -> Look:
        asked.append(len(images))
        return verdict(self, images, samples)

    monkeypatch.setattr(Oracle, "verdict", counted)
    found = attack(Pretender(MODEL, MODEL))
    assert found.spent is not None
    assert len(found.spent.iterations[found.fooled].unique()) > 2, "they break at several steps"
    wrong, broken = 2, int(found.fooled.sum()) - 2
    assert asked[:3] == [wrong, COUNT - wrong - broken, broken], "clean errors, last iterates, then all claims"
    assert len(asked) <= 4


class Valley(nn.Module):
    """Of one pixel: class 1 within ``width`` of ``bottom``, class 0 elsewhere; its margin falls towards the bottom."""

    def __init__(self, bottom: float, width: float) -> None:
        super().__init__()
        self.bottom, self.width = bottom, width
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        outside = (images.flatten(1) - self.bottom).abs() - self.width
        return torch.cat([outside, torch.zeros_like(outside)], dim=1)


@pytest.mark.parametrize("early_exit", [True, False])
def test_a_success_that_the_search_overlooks_is_found_by_the_last_word(early_exit: bool) -> None:
    """The search is never fooled and ends at 0.5; the best it saw, 0.4, fools the model."""
    attacked = climb(Pretender(Valley(0.4, 0.05), Valley(0.42, -0.01)), engine=Engine(early_exit=early_exit))
    assert attacked.images.item() == pytest.approx(0.4)
    assert attacked.fooled.tolist() == [True]
    assert attacked.predictions.tolist() == [1]


def test_a_clean_image_is_judged_by_the_model_too() -> None:
    wrong_to_the_search = climb(Pretender(threshold(0.9), threshold(0.1)))
    assert wrong_to_the_search.fooled.tolist() == [False]
    assert wrong_to_the_search.passes.backward == 5  # it was attacked all the same
    wrong_to_both = climb(Pretender(threshold(0.1), threshold(0.1)))
    assert wrong_to_both.fooled.tolist() == [True]
    assert wrong_to_both.passes.backward == 0


@pytest.mark.parametrize("batch_size", [None, 3])
@pytest.mark.parametrize("targets", [None, "second-best", "all-others"])
def test_every_verdict_is_the_models_own(batch_size: int | None, targets: str | None) -> None:
    other = Curved(seed=0).eval()
    other.second.data += 0.3 * Curved(seed=50).second.data
    prepared = Pretender(MODEL, other)
    attacked = attack(prepared, engine=Engine(batch_size=batch_size), targets=targets)
    assert torch.equal(attacked.predictions, predictions(MODEL, attacked.images))
    assert torch.equal(attacked.fooled, attacked.predictions != LABELS)
    assert (attacked.predictions != predictions(other, attacked.images)).any()
    assert torch.equal(attacked.fooled, attack(prepared, engine=Engine(early_exit=False), targets=targets).fooled)


def test_a_search_that_agrees_changes_nothing_but_the_count() -> None:
    plain, prepared = attack(MODEL), attack(Pretender(MODEL, MODEL))
    assert torch.equal(plain.images, prepared.images)
    assert torch.equal(plain.predictions, prepared.predictions)
    assert plain.passes.queries == prepared.passes.queries
    assert plain.passes.backward == prepared.passes.backward
    # Every success is looked at twice, and every survivor once more.
    assert plain.passes.forward < prepared.passes.forward <= plain.passes.forward + 2 * COUNT


def test_nan_from_the_search_is_a_question_to_the_model() -> None:
    """The search knows nothing beyond 0.35; the model is fooled from 0.35 on, or never."""

    def lost(images: Tensor) -> Tensor:
        logits = threshold(0.9)(images)
        return torch.where(images.flatten(1) > 0.35, torch.nan, logits)

    for model, fooled in ((threshold(0.35), True), (threshold(0.9), False)):
        with pytest.warns(UserWarning, match="NaN or infinite.* for 1 of 1 samples"):
            assert climb(Pretender(model, lost)).fooled.tolist() == [fooled]
    with pytest.raises(ArgumentError, match="The model returned NaN or infinite logits for 1 of 1 images"):
        climb(Pretender(_Undecided().eval(), threshold(0.35)))


class _Undecided(nn.Module):
    def forward(self, images: Tensor) -> Tensor:
        return threshold(0.9)(images) * torch.where(images.flatten(1) > 0.35, torch.nan, 1.0)


def test_the_original_must_be_in_eval_mode() -> None:
    with pytest.raises(ArgumentError, match="train mode"):
        climb(Pretender(threshold(0.5).train(), threshold(0.5)))


class _Ladder:
    """A minimum-norm attack of one pixel: rungs of 0.1, nearest first, the distance as the score."""

    steps = 4

    def begin(self, samples: Samples, attempt: int) -> State:
        return {"taken": torch.zeros_like(samples.labels)}

    def step(self, samples: Samples, state: State, oracle: Oracle) -> Trial:
        state["taken"] = state["taken"] + 1
        moved = samples.images + 0.1 * state["taken"][:, None, None, None]
        look = oracle.look(moved, samples)
        return Trial(moved, look.predictions, (moved - samples.images).flatten(), state["taken"] >= self.steps)

    def final(self, state: State) -> None:
        return None


def nearest(model: nn.Module) -> tuple[float, bool]:
    found = run(_Ladder(), model, Case(PIXEL, ZERO, seed=0), objective=margin(), keep="nearest")
    return round(found.distances.item(), 6), bool(found.fooled)


def test_the_nearest_success_is_one_that_the_model_confirms() -> None:
    assert nearest(threshold(0.35)) == (0.2, True)
    assert nearest(Pretender(threshold(0.55), threshold(0.35))) == (0.4, True)
    assert nearest(Pretender(threshold(0.95), threshold(0.35))) == (float("inf"), False)
    assert nearest(Pretender(threshold(0.1), threshold(0.1))) == (0.0, True)
    # The search finds nothing and takes the clean image for right; the model has the last word.
    assert nearest(Pretender(threshold(0.1), threshold(0.95))) == (0.0, True)


@pytest.mark.parametrize("label", [0, 1])
def test_inside_autocast_the_verdict_is_float32s(label: int) -> None:
    """bfloat16 has 8 bits: 0.4996 and 0.5 are one number to it, and then class 0 wins."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False)).eval()
    model[1].weight.data = torch.tensor([[0.4996], [0.5]])
    options = {"objective": margin(), "threat": Linf(0.01), "steps": 1, "step_size": 0.01, "seed": 0}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(PIXEL).argmax().item() == 0
        attacked = pgd(model, PIXEL, torch.tensor([label]), **options)
    assert predictions(model, PIXEL).tolist() == attacked.predictions.tolist() == [1]
    assert attacked.fooled.tolist() == [label == 0]


TF32_PARTS = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)


@pytest.fixture(params=[["ieee", "tf32", "tf32"], ["tf32", "ieee", "ieee"], ["ieee", "ieee", "ieee"]])
def switches(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """How a caller has set TF32; the switches exist without a GPU too."""
    before = tf32_settings()
    set_tf32(request.param)
    yield request.param
    set_tf32(before)


def set_tf32(precisions: list[str]) -> None:
    for part, precision in zip(TF32_PARTS, precisions, strict=True):
        part.fp32_precision = precision


def tf32_settings() -> list[str]:
    return [part.fp32_precision for part in TF32_PARTS]


@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda', but CUDA is not available")
def test_on_a_gpu_tf32_is_off_for_the_verdict_and_as_it_was_afterwards(switches: list[str]) -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert is_coarse(cuda) == ("tf32" in switches)
    assert not is_coarse(cpu)
    with full_float32(cpu):
        assert tf32_settings() == switches
    with full_float32(cuda):
        assert tf32_settings() == ["ieee", "ieee", "ieee"]
        assert not is_coarse(cuda)
    assert tf32_settings() == switches
    with full_float32(cuda, "tf32"):
        assert tf32_settings() == ["tf32", "tf32", "tf32"]
    assert tf32_settings() == switches


@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda', but CUDA is not available")
@pytest.mark.parametrize("rounding", ["ieee", "tf32"])
@pytest.mark.parametrize("allowed", [True, False])
def test_a_model_may_switch_cudnn_off_on_a_gpu(rounding: str, allowed: bool) -> None:
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32, tf32_settings()
    try:
        cudnn.allow_tf32 = allowed
        settings = tf32_settings()
        with full_float32(torch.device("cuda"), rounding):
            assert cudnn.allow_tf32 == (rounding == "tf32")
            with cudnn.flags(enabled=False):
                pass
        assert (cudnn.allow_tf32, tf32_settings()) == (allowed, settings)
    finally:
        cudnn.allow_tf32 = before[0]
        set_tf32(before[1])


@pytest.fixture(params=["medium", "high"])
def coarse_cpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """A caller lets products of matrices round; whether they do depends on the CPU."""
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("this torch has no such switch")
    torch.set_float32_matmul_precision(request.param)
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.usefixtures("coarse_cpu")
def test_on_a_cpu_the_verdict_is_float32s_and_the_switch_as_it_was_afterwards() -> None:
    cpu, part = torch.device("cpu"), torch.backends.mkldnn.matmul
    before = part.fp32_precision
    assert before != "none"
    assert is_coarse(cpu)
    for rounding in ("ieee", "tf32"):
        with full_float32(cpu, rounding):
            assert part.fp32_precision == "ieee"
            assert not is_coarse(cpu)
    assert part.fp32_precision == before
    images = uniform(1, 64, 1, 8, 8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64)).eval()
    logits = judge(model, images).logits
    torch.set_float32_matmul_precision("highest")
    torch.testing.assert_close(logits, model(images).detach())


@pytest.mark.usefixtures("coarse_cpu")
def test_a_torch_without_switches_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("matmul", "conv", "rnn"):
        monkeypatch.delattr(type(torch.backends.mkldnn), name)
    with full_float32(torch.device("cpu")):
        assert not is_coarse(torch.device("cpu"))


class Counted(nn.Module):
    """Counts how often it is asked."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.calls = model, 0
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        return self.model(images)


@pytest.mark.parametrize("targets", [None, "random-other"])
def test_the_nearest_image_is_the_same_whether_claims_are_confirmed_at_once_or_together(targets: str | None) -> None:
    """The search's boundary lies elsewhere than the model's, so that some claims are refuted and some are not."""
    shifted = lambda images: MODEL(0.97 * images)  # noqa: E731
    model = Counted(MODEL)
    found, asked = [], []
    for batch_size in (COUNT, 50 * COUNT):  # a claim at least fills the first at every step
        before = model.calls
        options = {"constants": "binary", "steps": 60, "search_steps": 3, "targets": targets, "sample_ids": IDS}
        found.append(
            carlini_wagner(Pretender(model, shifted), IMAGES, LABELS, engine=Engine(batch_size=batch_size), **options)
        )
        asked.append(model.calls - before)
    assert asked[1] < asked[0] / 4
    at_once, together = found
    assert at_once.distances.isfinite().any()
    assert torch.equal(at_once.distances, together.distances)
    assert torch.equal(at_once.images, together.images)
    assert torch.equal(at_once.predictions, together.predictions)
