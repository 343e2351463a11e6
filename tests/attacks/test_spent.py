"""What each sample cost, compared with what the model saw of it."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch
from small_models import Curved, Linear, Pretender, predictions, uniform
from torch import Tensor, nn

from maxmahal.attacks import (
    L2,
    Engine,
    Linf,
    Result,
    Spent,
    apgd,
    autoattack,
    carlini_wagner,
    craft,
    fab,
    fgsm,
    fmn,
    margin,
    mim,
    pgd,
    spsa,
    square,
)
from maxmahal.attacks.result import Tally

COUNT, STEPS = 12, 4
IMAGES, IDS = uniform(1, COUNT, 1, 4, 4), torch.arange(500, 500 + COUNT)
MODEL = Curved(row_by_row=True).eval()
LABELS = predictions(MODEL, IMAGES)
LABELS[[2, 7]] = (LABELS[[2, 7]] + 1) % 4

_PGD = partial(pgd, objective=margin(), threat=Linf(0.05), steps=STEPS, step_size=0.025, seed=0)
ATTACKS: dict[str, Callable[..., Result]] = {
    "pgd": _PGD,
    "pgd, restarts": partial(_PGD, restarts=3),
    "pgd, one target": partial(_PGD, targets="second-best"),
    "pgd, all targets": partial(_PGD, targets="all-others", restarts=2),
    "pgd, last": partial(_PGD, keep="last", restarts=2, label_source="predicted"),
    "mim": partial(mim, objective=margin(), threat=L2(0.1), steps=STEPS, step_size=0.05),
    "fgsm": partial(fgsm, objective=margin(), threat=Linf(0.05)),
    "apgd": partial(apgd, objective=margin(), threat=Linf(0.05), steps=6, seed=0, restarts=2),
    "carlini_wagner": partial(carlini_wagner, steps=80, search_steps=3),
    "carlini_wagner, binary": partial(carlini_wagner, constants="binary", steps=30, search_steps=3, learning_rate=0.05),
    "fmn, l2": partial(fmn, norm="l2", steps=20, descents=2),
    "fmn, linf": partial(fmn, norm="linf", steps=20, descents=2, targets="second-best"),
    "spsa": partial(spsa, objective=margin(), threat=Linf(0.05), steps=3, evaluations=6, seed=0),
    "square": partial(square, threat=Linf(0.05), queries=10, seed=0, restarts=2),
}
EVERY_ATTACK = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


def spent_by(attack: Callable[..., Result], rows: Tensor | slice = slice(None), **changes: object) -> Spent:
    model = changes.pop("model", MODEL)
    found = attack(model, IMAGES[rows], LABELS[rows], sample_ids=IDS[rows], **changes)
    assert_sums_to_the_passes(found)
    return found.spent


def assert_sums_to_the_passes(found: Result) -> None:
    assert found.spent is not None
    for name, total in vars(found.passes).items():
        assert int(getattr(found.spent, name).sum()) == total, name


def assert_same(one: Spent, two: Spent) -> None:
    for name, counts in vars(one).items():
        assert counts.tolist() == getattr(two, name).tolist(), name


def rows_of(spent: Spent, rows: Tensor) -> Spent:
    return Spent(*(counts[rows] for counts in vars(spent).values()))


class Watched(nn.Module):
    """Counts the images of each sample that go through a model, and the gradients that come back.

    No attack here moves an image so far that another clean one would be nearer.
    """

    def __init__(self, model: nn.Module | None = None) -> None:
        super().__init__()
        self.model = Curved() if model is None else model
        self.forwards, self.backwards = torch.zeros(2, COUNT, dtype=torch.int64)
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        rows = torch.cdist(images.detach().flatten(1), IMAGES.flatten(1)).argmin(dim=1)
        seen = rows.bincount(minlength=COUNT)
        self.forwards += seen
        if images.requires_grad:
            images = images.view_as(images)
            images.register_hook(lambda gradient: self._count(seen))
        return self.model(images)

    def _count(self, seen: Tensor) -> None:
        self.backwards += seen


@EVERY_ATTACK
@pytest.mark.parametrize(
    "engine", [Engine(batch_size=5), Engine(early_exit=False, eot_samples=3, batch_size=4)], ids=["refilled", "in step"]
)
def test_each_sample_is_charged_what_the_model_saw_of_it(attack: Callable[..., Result], engine: Engine) -> None:
    model = Watched()
    spent = spent_by(attack, model=model, engine=engine)
    assert torch.equal(spent.forward, model.forwards)
    assert torch.equal(spent.backward, model.backwards)
    assert len(set(spent.forward.tolist())) > 1 or not engine.early_exit or attack is ATTACKS["pgd, last"]


@EVERY_ATTACK
@pytest.mark.parametrize(
    "engine", [Engine(eot_samples=3), Engine(early_exit=False, batch_size=5)], ids=["draws", "in step"]
)
def test_queries_are_what_the_search_saw_and_confirmations_are_none(
    attack: Callable[..., Result], engine: Engine
) -> None:
    other = Curved()
    other.second.data += 0.3 * Curved(seed=50).second.data
    search, judge = Watched(other), Watched()
    spent = spent_by(attack, model=Pretender(judge, search), engine=engine)
    assert torch.equal(spent.queries, search.forwards)
    assert torch.equal(spent.backward, search.backwards)
    assert torch.equal(spent.forward, search.forwards + judge.forwards)
    assert int(judge.forwards.min()) > 0


@EVERY_ATTACK
def test_no_sample_pays_for_its_company(attack: Callable[..., Result]) -> None:
    whole = spent_by(attack)
    for batch_size in (1, 3, 64):
        assert_same(spent_by(attack, engine=Engine(batch_size=batch_size)), whole)
    for rows in (torch.arange(COUNT).flip(0), torch.tensor([11, 5, 5, 2, 5])):
        assert_same(spent_by(attack, rows, engine=Engine(batch_size=3)), rows_of(whole, rows))


def climb(**changes: object) -> Result:
    """One pixel a sample, climbing by 0.1 a step; class 0 ends at 0.55."""
    model = Linear(torch.tensor([[-1.0], [1.0]]), torch.tensor([0.55, -0.55])).eval()
    pixels = torch.tensor([0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])[:, None, None, None]
    options = {"objective": margin(), "threat": Linf(0.49), "steps": 5, "step_size": 0.1, "random_start": False}
    return pgd(model, pixels, torch.zeros(7, dtype=torch.int64), seed=0, **(options | changes))


@pytest.mark.parametrize("batch_size", [None, 1, 3])
@pytest.mark.parametrize("restarts", [1, 3])
def test_a_sample_takes_the_steps_up_to_its_success_and_a_survivor_all_of_them(
    batch_size: int | None, restarts: int
) -> None:
    found = climb(restarts=restarts, engine=Engine(batch_size=batch_size))
    assert found.fooled.tolist() == [True] * 6 + [False]
    # 0.6 was wrong before; 0.5 is seen, then 0.6; 0.1 gets across by its last step, whose image only a verdict sees.
    assert found.spent.iterations.tolist() == [0, 2, 3, 4, 5, 5, 5 * restarts]
    assert found.spent.backward.tolist() == [0, 2, 3, 4, 5, 5, 5 * restarts]
    assert found.spent.queries.tolist() == [1, 3, 4, 5, 6, 6, 1 + 5 * restarts]
    assert found.spent.forward.tolist() == [1, 3, 4, 5, 6, 7, 1 + 6 * restarts]


def test_without_early_exit_every_sample_takes_every_step() -> None:
    assert climb(restarts=3, engine=Engine(early_exit=False)).spent.iterations.tolist() == [15] * 7


def test_a_last_iterate_takes_every_step_of_every_restart_that_is_still_needed() -> None:
    assert climb(restarts=3, keep="last").spent.iterations.tolist() == [5] * 6 + [15]


def test_steps_add_up_over_restarts_until_the_first_success() -> None:
    runs = [_PGD(MODEL, IMAGES, LABELS, sample_ids=IDS, threat=Linf(0.03), restarts=count) for count in (1, 2, 3)]
    survivors = ~runs[2].fooled
    assert runs[2].spent.iterations[survivors].tolist() == [3 * STEPS] * int(survivors.sum()) != []
    for fewer, more in pairwise(runs):
        assert_same(rows_of(more.spent, fewer.fooled), rows_of(fewer.spent, fewer.fooled))
        assert (more.spent.iterations > fewer.spent.iterations)[~fewer.fooled].all()


def test_every_target_of_every_restart_is_an_attempt() -> None:
    found = _PGD(MODEL, IMAGES, LABELS, sample_ids=IDS, threat=Linf(0.03), targets="all-others", restarts=2)
    survivors = ~found.fooled
    assert found.spent.iterations[survivors].tolist() == [3 * 2 * STEPS] * int(survivors.sum()) != []
    assert (found.spent.iterations[found.fooled] < 3 * 2 * STEPS).all()


def test_a_step_of_spsa_is_one_iteration_and_many_queries() -> None:
    spent = spent_by(ATTACKS["spsa"])
    assert torch.equal(spent.queries, 1 + (6 + 1) * spent.iterations)
    assert set(spent.iterations.tolist()) >= {0, 3}


def test_the_constants_of_a_binary_search_share_the_count() -> None:
    settings = {"constants": "binary", "steps": 10, "search_steps": 3, "abort_early": False}
    spent = spent_by(carlini_wagner, **settings)
    assert spent.iterations.tolist() == [0 if row in (2, 7) else 30 for row in range(COUNT)]


class Cramped(Watched):
    """Room for five images at a time, forwards or backwards."""

    def __init__(self, *, backwards: bool) -> None:
        super().__init__(MODEL)
        self.only_backwards = backwards

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > 5 and not self.only_backwards:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        if len(images) > 5 and images.requires_grad:
            images = images.view_as(images)
            images.register_hook(self._fail)
        return super().forward(images)

    def _fail(self, gradient: Tensor) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")


@pytest.mark.parametrize("early_exit", [True, False])
@pytest.mark.parametrize("backwards", [True, False])
def test_memory_that_runs_out_is_no_excuse(backwards: bool, early_exit: bool) -> None:
    model, engine = Cramped(backwards=backwards), Engine(early_exit=early_exit)
    spent, roomy = spent_by(_PGD, model=model, engine=engine), spent_by(_PGD, engine=engine)
    assert torch.equal(spent.forward, model.forwards)  # what failed on the way back had gone through all the same
    assert (int(spent.forward.sum()) > int(roomy.forward.sum())) == backwards
    assert torch.equal(spent.backward, roomy.backward)
    assert torch.equal(spent.iterations, roomy.iterations)


def test_a_result_is_not_changed_by_later_counts() -> None:
    tally = Tally(3, torch.device("cpu"))
    spent = tally.spent()
    for kind in ("iterations", "asked", "judged", "backward"):
        tally.add(kind, torch.tensor([0, 2, 2]), 2)
        assert not any(counts.any() for counts in vars(spent).values())
    assert tally.spent().forward.tolist() == [4, 0, 8]


def test_counting_reads_nothing_back_from_the_device() -> None:
    """Tensors on meta have no values to read."""
    device = torch.device("meta")
    tally = Tally(4, device)
    tally.add("asked", torch.arange(3, device=device), 2)
    assert tally.spent().forward.device == device


def test_adversarial_training_counts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise LookupError("nobody reads these counts")

    monkeypatch.setattr(Tally, "add", refuse)
    options = {"objective": margin(), "threat": Linf(0.05), "steps": 2, "step_size": 0.025, "seed": 0}
    assert craft(MODEL, IMAGES, LABELS, sample_ids=IDS, **options).shape == IMAGES.shape
    with pytest.raises(LookupError, match="nobody reads"):
        pgd(MODEL, IMAGES, LABELS, **options)


def test_another_packages_work_is_not_told_apart() -> None:
    pytest.importorskip("pyautoattack")
    options = {"threat": Linf(0.05), "seed": 0, "steps": 2}
    assert fab(MODEL, IMAGES, LABELS, **options).spent is None
    assert autoattack(MODEL, IMAGES, LABELS, attacks=("apgd-ce",), **options).spent is None
