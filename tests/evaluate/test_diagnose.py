"""Every masked model is flagged by the checks that ought to, and ordinary ones by none."""

import pytest
import torch
from masked_models import EPSILON, digits, masked, probe_of, trained
from torch import nn

from maxmahal.attacks import L2, Linf
from maxmahal.evaluate.diagnose.checks import CHECKS
from maxmahal.evaluate.diagnose.probe import PROBE_SIZE, Probe, choose_probe
from maxmahal.evaluate.plan import REMEDIES

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attacks of a few steps, for tests that do not ask who wins."""
    budgets = {
        "checks": {"OBJECTIVE_STEPS": 5, "EPSILON_STEPS": 3, "STEPS": (2, 4, 8), "RESTART_STEPS": 4},
        "binarization": {"STEPS": 5, "INNER": 40, "RANDOM_POINTS": 20},
    }
    budgets["checks"] |= {"QUERIES": 20, "EPSILON_QUERIES": 20}
    for module, constants in budgets.items():
        for name, value in constants.items():
            monkeypatch.setattr(f"maxmahal.evaluate.diagnose.{module}.{name}", value)


# By mask: the checks that must see it. Others may.
SEEN_BY = {
    "scaled": {"zero-gradients", "objective-gap"},
    "quantised": {"zero-gradients", "gradient-direction", "binarization", "black-box-wins", "epsilon-growth"},
    "quantised inline": {"zero-gradients", "gradient-direction", "binarization", "black-box-wins", "epsilon-growth"},
    "numpy": {"zero-gradients", "binarization", "black-box-wins"},
    "saw-tooth": {"gradient-direction", "binarization", "black-box-wins"},
    "noise": {"randomness"},
}


@pytest.mark.parametrize("kind", ["sce", "adversarial"])
@pytest.mark.parametrize("name", CHECKS)
def test_ordinary_models_raise_no_flag(kind: str, name: str) -> None:
    finding = CHECKS[name](probe_of(trained(kind)))
    assert not finding.flagged, finding.sentence
    assert finding.check == name
    assert finding.remedy == ""
    assert finding.adds == ()
    assert finding.sentence.endswith(".")
    assert " as it should" in finding.sentence or " as they should" in finding.sentence


@pytest.mark.parametrize(("mask", "name"), [(mask, name) for mask in SEEN_BY for name in sorted(SEEN_BY[mask])])
def test_masks_are_seen(mask: str, name: str) -> None:
    model = masked(trained("sce"))[mask]
    finding = CHECKS[name](probe_of(model, stochastic=mask == "noise"))
    assert finding.flagged, finding.sentence
    assert finding.remedy.endswith(".")
    assert finding.adds
    assert set(finding.adds) <= set(REMEDIES)


@pytest.mark.parametrize("name", ["zero-gradients", "objective-gap"])
def test_mmc_without_adversarial_training_is_seen(name: str) -> None:
    finding = CHECKS[name](probe_of(trained("mmc")))
    assert finding.flagged, finding.sentence
    assert finding.adds == ("scale-free",)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_a_pure_function_of_the_probe(name: str) -> None:
    probe = probe_of(masked(trained("sce"))["noise"], count=20, stochastic=True)
    torch.manual_seed(1)
    first = CHECKS[name](probe)
    drawn = torch.rand(())
    torch.manual_seed(2)
    again = CHECKS[name](probe)
    assert first == again
    torch.manual_seed(1)
    assert torch.rand(()) == drawn, "the check drew from the caller's stream"


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", CHECKS)
def test_the_batch_size_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = probe_of(trained("sce"), count=30)
    whole = CHECKS[name](probe)
    for module in ("attacks.engine", "attacks.oracle", "evaluate.diagnose.checks"):
        monkeypatch.setattr(f"maxmahal.{module}.default_batch_size", lambda images: 7)
    parts = CHECKS[name](probe_of(trained("sce"), count=30))
    assert parts.flagged == whole.flagged
    for key, value in whole.numbers.items():
        assert parts.numbers[key] == pytest.approx(value, abs=0.04)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", CHECKS)
def test_checks_leave_the_model_as_it_was(name: str) -> None:
    model = nn.Sequential(nn.Identity(), trained("sce")).eval()  # whose features only a hook can see
    before = {key: value.clone() for key, value in model.state_dict().items()}
    CHECKS[name](probe_of(model, count=20))
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("name", CHECKS)
def test_the_euclidean_ball_is_understood(name: str) -> None:
    finding = CHECKS[name](probe_of(trained("adversarial"), count=40, threat=L2(0.5)))
    assert not finding.flagged, finding.sentence


@pytest.mark.parametrize("name", CHECKS)
def test_functions_are_taken(name: str) -> None:
    model = trained("sce")

    def predict(images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return model(images)

    finding = CHECKS[name](probe_of(predict, count=10))
    assert finding.flagged == (name in ("zero-gradients", "black-box-wins")), finding.sentence


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", CHECKS)
def test_a_model_that_is_never_right_is_taken(name: str) -> None:
    wrong = nn.Sequential(trained("sce"), _Turned()).eval()
    images, labels = digits("test")
    with torch.no_grad():
        rows = (wrong(images).argmax(dim=1) != labels).nonzero().squeeze(1)[:20]
    assert CHECKS[name](_only(wrong, rows)).sentence


def test_the_probe_is_a_fixed_random_set() -> None:
    rows = choose_probe(1000, seed=3)
    assert len(rows) == PROBE_SIZE == len(set(rows.tolist()))
    assert torch.equal(rows, choose_probe(1000, seed=3))
    assert not torch.equal(rows, choose_probe(1000, seed=4))
    assert not torch.equal(rows, torch.arange(PROBE_SIZE))
    assert torch.equal(choose_probe(5, seed=0), torch.arange(5))


class _Turned(nn.Module):
    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.roll(1, dims=1)


def _only(model: nn.Module, rows: torch.Tensor) -> Probe:
    images, labels = digits("test")
    return Probe(model, images[rows], labels[rows], rows, Linf(EPSILON), 0)
