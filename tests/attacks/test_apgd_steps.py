"""The steps of Auto-PGD: one by one against its authors' code, and the rule by which they are halved."""

from collections.abc import Iterator

import pytest
import torch
from small_models import Curved, Linear, Recorder, normal, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import L2, Engine, Linf, Outputs, cross_entropy, dlr
from maxmahal.attacks.apgd import AutoDescent, _windows, apgd
from maxmahal.attacks.oracle import Samples


def pinned(kind: type, radius: float, start: Tensor) -> Linf | L2:
    """A threat whose random start is given, and whose L2 ball is not the hair smaller that ours is."""

    class Pinned(kind):
        def random_start(self, images: Tensor, sample_ids: Tensor, *key: int | str) -> Tensor:
            return start

        def project(self, images: Tensor, moved: Tensor) -> Tensor:
            if isinstance(self, Linf):
                return super().project(images, moved)
            change = moved - images
            lengths = change.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
            return (images + change * (radius / lengths).clamp_max(1)).clamp(0, 1)

    return Pinned(radius)


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def peer_iterates(
    attack: type, model: nn.Module, threat: Linf | L2, loss: str, case: tuple[Tensor, Tensor, Tensor], start: Tensor
) -> Tensor:
    """What pyautoattack's APGD looks at in 100 steps."""
    images, labels, targets = case

    class Mended(attack):
        """At its first checkpoint it compares the loss after the first step with 0, not with that at the start."""

        def check_oscillation(self, x: Tensor, j: int, k: int, y5: Tensor, k3: float = 0.75) -> Tensor:
            if j + 1 == k:
                x = x.clone()
                x[-1] = self.start_loss
            return super().check_oscillation(x, j, k, y5, k3)

    recorder = Recorder(model)
    norm = "Linf" if isinstance(threat, Linf) else "L2"
    peer = Mended(recorder, n_iter=100, norm=norm, eps=threat.radius, device="cpu")
    peer.loss, peer.y_target = loss, targets
    peer.init_hyperparam(images)
    objective, wanted = (cross_entropy(), None) if loss == "ce" else (dlr(), targets if "targeted" in loss else None)
    peer.start_loss = -objective(Outputs(model(start)), labels, wanted).detach()
    peer.attack_single_run(images, labels, x_init=start)
    return torch.stack(recorder.seen)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("kind", [Linf, L2])
@pytest.mark.parametrize("loss", ["ce", "dlr", "dlr-targeted"])
def test_it_takes_the_steps_that_its_authors_code_takes(kind: type, loss: str) -> None:
    """In float64, where a difference that is only one of rounding cannot grow into another path."""
    library = pytest.importorskip("pyautoattack.autopgd_base")
    model = Curved(pixels=48, classes=6).double().eval()
    images = uniform(3, 40, 3, 4, 4).double()
    labels = predictions(model, images)
    targets = (labels + 1) % 6
    radius = {Linf: 0.02, L2: 0.15}[kind]
    start = kind(radius).random_start(images, torch.arange(40), "start")
    peer = library.APGDAttack_targeted if loss == "dlr-targeted" else library.APGDAttack
    theirs = peer_iterates(peer, model, kind(radius), loss, (images, labels, targets), start)

    objective = cross_entropy() if loss == "ce" else dlr()
    wanted = targets if loss == "dlr-targeted" else None
    recorder = Recorder(model).eval()
    options = {"threat": pinned(kind, radius, start), "targets": wanted, "engine": Engine(early_exit=False)}
    apgd(recorder, images, labels, objective=objective, seed=0, **options)
    ours = torch.stack(recorder.seen[1:])  # the first look is at the clean images

    assert ours.shape == theirs.shape == (101, 40, 3, 4, 4)
    ours, theirs = ours[:61], theirs[:61]  # three checkpoints; close to the optimum rounding decides what improves
    values = torch.stack([objective(Outputs(model(x)), labels, wanted).detach() for x in ours])
    # With the label in third place the untargeted ratio is -1 and flat: whatever steps follow, rounding decided them.
    flat = (values < -1 + 1e-9) & (loss == "dlr")
    compared = flat.long().cumsum(dim=0) == 0
    assert compared.float().mean() > 0.5
    torch.testing.assert_close(ours[compared], theirs[compared], rtol=0, atol=1e-5)
    assert (values[1:] >= values[:-1]).any(dim=0).float().mean() > 0.5  # many paths do not only go down


def test_checkpoints_are_the_papers_for_any_number_of_steps() -> None:
    def checkpoints(steps: int) -> dict[int, int]:
        return {place: window for place, window in enumerate(_windows(steps)) if window}

    assert checkpoints(100) == {22: 22, 41: 19, 57: 16, 70: 13, 80: 10, 87: 7, 93: 6, 99: 6}
    assert list(checkpoints(1000)) == [10 * place for place in (22, 41, 57, 70, 80, 87, 93, 99)]
    assert checkpoints(20) == {5: 5, 9: 4, 12: 3, 14: 2, 16: 2, 18: 2, 19: 1, 20: 1}
    assert checkpoints(1) == {1: 1}


@pytest.mark.parametrize(
    ("taken", "improved", "halved_before", "best_moved", "halves"),
    [
        (4, 4, False, True, False),
        (4, 3, False, True, True),  # exactly rho of the steps improved: not more than that
        (4, 4, False, False, True),  # the best value stands still at the same step size
        (4, 4, True, False, False),  # it stands still, but the step was halved at the last checkpoint
        (3, 0, False, False, False),  # not a checkpoint
    ],
)
def test_when_a_step_is_halved(taken: int, improved: int, halved_before: bool, best_moved: bool, halves: bool) -> None:
    """With 18 steps the first checkpoint is after 4; a second sample stands elsewhere and is left alone."""
    method = AutoDescent(Linf(0.1), steps=18, seed=0)
    images, labels = torch.full((2, 1, 2, 2), 0.5), torch.tensor([0, 0])
    state = method.begin(Samples(images, labels, labels, None, labels, 1), 0)
    state |= {
        "taken": torch.tensor([taken, 2]),
        "improved": torch.tensor([improved, 1]),
        "halved": torch.tensor([halved_before, False]),
        "best_value": torch.tensor([0.5, 0.5]),
        "checked_value": torch.tensor([0.75 if best_moved else 0.5, 0.5]),
    }
    assert method._halve(state).tolist() == [halves, False]
    assert state["step_size"].tolist() == pytest.approx([0.1 if halves else 0.2, 0.2])
    checked = taken == 4
    assert state["improved"].tolist() == [0 if checked else improved, 1]
    assert state["halved"].tolist() == [halves if checked else halved_before, False]
    assert state["checked_value"].tolist() == [0.5 if checked or not best_moved else 0.75, 0.5]


def test_without_improvement_the_step_is_halved_and_the_search_goes_on_from_the_best_point() -> None:
    """The value never changes and the gradient always points the same way: every checkpoint leads back to the start."""
    model = Recorder(Linear(normal(0, 2, 4), torch.zeros(2))).eval()
    images, start = torch.full((1, 1, 2, 2), 0.5), torch.full((1, 1, 2, 2), 0.5)

    def level(outputs: Outputs, labels: Tensor, targets: Tensor | None) -> Tensor:
        moves = 1e-3 * outputs.logits.sum(dim=1)
        return moves - moves.detach()

    threat = pinned(Linf, 0.4, start)
    apgd(
        model,
        images,
        torch.tensor([0]),
        objective=level,
        threat=threat,
        steps=100,
        seed=0,
        engine=Engine(early_exit=False),
    )
    seen = torch.cat(model.seen[1:])
    far = (seen - start).abs().flatten(1).amax(dim=1)
    assert far[1].item() == pytest.approx(0.4)  # the first step is as long as the ball is wide, cut off at its edge
    # At the fourth checkpoint and after it the steps, 0.8 / 2^4 and so on, no longer reach the edge. The momentum goes
    # from the point before the checkpoint back to the start, so that both pull to opposite sides.
    for halvings, place in ((4, 70), (5, 80), (6, 87)):
        step, before = 0.8 / 2**halvings, far[place - 1].item()
        assert far[place + 1].item() == pytest.approx(abs(0.75 * step - 0.25 * before), abs=1e-6)
