"""Target policies against a plain-Python sorting, their random streams, and every refusal."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from small_models import Curved, predictions, uniform
from torch import Tensor

from maxmahal.attacks import (
    Linf,
    Nearest,
    Result,
    apgd,
    carlini_wagner,
    fgsm,
    fmn,
    mim,
    pgd,
    prepare,
    spsa,
    square,
)
from maxmahal.attacks.targets import (
    TARGETS,
    TargetPolicy,
    all_others,
    least_likely,
    random_any,
    random_other,
    resolve_targets,
    top_others,
)
from maxmahal.errors import ArgumentError
from maxmahal.random import integers

LOGITS = torch.tensor([[1.0, 5.0, 3.0, 3.0], [0.0, -1.0, -2.0, 9.0], [2.0, 2.0, 2.0, 2.0]])
LABELS = torch.tensor([1, 2, 0])
IDS = torch.tensor([7, -3, 2**40])
COUNT = 20_000


def resolve(targets: Tensor | str | TargetPolicy | None, seed: int = 0) -> Tensor | None:
    return resolve_targets(targets, LOGITS, LABELS, IDS, seed)


def wrong_classes(row: list[float], label: int, rising: bool = False) -> list[int]:
    others = [index for index in range(len(row)) if index != label]
    return sorted(others, key=lambda index: (row[index] if rising else -row[index], index))


@settings(deadline=None)
@given(data=st.data(), samples=st.integers(0, 5), classes=st.integers(2, 6), count=st.integers(1, 7))
def test_the_policies_that_read_logits_sort_the_wrong_classes(
    data: st.DataObject, samples: int, classes: int, count: int
) -> None:
    values = st.sampled_from([-torch.inf, -1.0, 0.0, 2.5, torch.inf])  # few values, so that ties are common
    rows = data.draw(st.lists(st.lists(values, min_size=classes, max_size=classes), min_size=samples, max_size=samples))
    labels = data.draw(st.lists(st.integers(0, classes - 1), min_size=samples, max_size=samples))
    arguments = (torch.tensor(rows).reshape(samples, classes), torch.tensor(labels, dtype=torch.int64))
    arguments = (*arguments, torch.arange(samples), 0)
    order = [wrong_classes(row, label) for row, label in zip(rows, labels, strict=True)]
    assert all_others(*arguments).tolist() == order
    assert top_others(count)(*arguments).tolist() == [row[:count] for row in order]
    assert top_others(1)(*arguments).tolist() == [row[:1] for row in order]
    rising = [wrong_classes(row, label, rising=True) for row, label in zip(rows, labels, strict=True)]
    assert least_likely(*arguments).tolist() == [row[:1] for row in rising]
    assert all_others(*arguments).shape == (samples, classes - 1)


def test_by_name() -> None:
    expected = {
        "second-best": [[2], [3], [1]],
        "least-likely": [[0], [1], [1]],
        "all-others": [[2, 3, 0], [3, 0, 1], [1, 2, 3]],
        "top-9": [[2, 3, 0], [3, 0, 1], [1, 2, 3]],
    }
    for name, rows in expected.items():
        assert resolve(name).tolist() == rows, name
    assert resolve("top-1").tolist() == expected["second-best"]
    assert resolve("top-2").tolist() == [[2, 3], [3, 0], [1, 2]]
    assert resolve("top-40").tolist() == expected["all-others"]
    assert torch.equal(resolve("random-other", seed=5), resolve(random_other, seed=5))
    assert torch.equal(resolve("random-any", seed=5), resolve(random_any, seed=5))
    assert set(TARGETS) == {*expected, "random-other", "random-any"}


def test_random_targets_keep_the_streams_that_trained_models_were_crafted_with() -> None:
    labels, ids = torch.arange(50) % 10, torch.arange(1000, 1050)
    logits = torch.zeros(50, 10)
    other = random_other(logits, labels, ids, 3).squeeze(1)
    assert torch.equal(other, (labels + 1 + integers(ids, 9, "target", 3)) % 10)
    assert torch.equal(random_any(logits, labels, ids, 3).squeeze(1), integers(ids, 10, "target", 3))
    assert other[:12].tolist() == [2, 5, 6, 2, 1, 6, 9, 8, 0, 6, 9, 9]
    assert random_any(logits, labels, ids, 3)[:12, 0].tolist() == [3, 4, 0, 8, 2, 5, 8, 5, 8, 3, 3, 4]


@pytest.mark.parametrize("policy", [random_other, random_any], ids=["other", "any"])
def test_random_targets_are_even_and_belong_to_the_sample(policy: TargetPolicy) -> None:
    labels, ids = torch.arange(COUNT) % 5, torch.arange(COUNT)
    logits = torch.zeros(COUNT, 5)
    drawn = policy(logits, labels, ids, 0)
    assert drawn.shape == (COUNT, 1)
    shift = (drawn[:, 0] - labels) % 5
    counts = torch.bincount(shift, minlength=5)
    assert (counts[0] == 0) == (policy is not random_any)
    assert stats.chisquare(counts[counts > 0].numpy()).pvalue > 1e-3
    some = torch.tensor([17, 3, 999])
    assert torch.equal(policy(torch.randn(3, 5), labels[some], ids[some], 0), drawn[some])
    assert not torch.equal(policy(logits, labels, ids, 1), drawn)


def test_tensors_become_rows() -> None:
    assert resolve(None) is None
    single = torch.tensor([0, 1, 3])
    assert resolve(single).tolist() == [[0], [1], [3]]
    narrow = resolve(single.to(torch.int32))
    assert narrow.dtype == torch.int64
    several = torch.tensor([[0, 2], [1, 1], [3, 2]])
    assert torch.equal(resolve(several), several)
    nobody = resolve_targets(single[:0], LOGITS[:0], LABELS[:0], IDS[:0], 0)
    assert nobody.shape == (0, 1)
    for name in TARGETS:
        assert len(resolve_targets(name, LOGITS[:0], LABELS[:0], IDS[:0], 0)) == 0


def test_a_policy_of_ones_own() -> None:
    def always_three(logits: Tensor, labels: Tensor, sample_ids: Tensor, seed: int) -> Tensor:
        assert (sample_ids == IDS).all()
        assert seed == 4
        return torch.full_like(labels, 3)

    assert resolve(always_three, seed=4).tolist() == [[3], [3], [3]]
    with pytest.raises(ArgumentError, match=r"sample 1 of the batch has its own label, 2,"):
        resolve(lambda logits, labels, sample_ids, seed: torch.full_like(labels, 2))


def test_only_random_any_may_return_the_label() -> None:
    labels, ids, logits = torch.zeros(50, dtype=torch.int64), torch.arange(50), torch.zeros(50, 2)
    drawn = resolve_targets("random-any", logits, labels, ids, 0)
    assert 0 < int((drawn == 0).sum()) < 50
    with pytest.raises(ArgumentError, match=r"targets must be wrong classes; sample \d+ of the batch"):
        resolve_targets(drawn, logits, labels, ids, 0)
    assert (resolve_targets("random-other", logits, labels, ids, 0) == 1).all()


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (torch.tensor([0, 1, 4]), r"targets must lie in 0\.\.3 because the model has 4 classes; got 0\.\.4\."),
        (torch.tensor([[0, -1]] * 3), r"targets must lie in 0\.\.3 .*; got -1\.\.0\."),
        (torch.tensor([0, 1]), r"for each of the 3 samples; got the shape \(2,\)\."),
        (torch.tensor([[0, 1, 3]]), r"got the shape \(1, 3\)\."),
        (torch.tensor(2), r"got the shape \(\)\."),
        (torch.zeros(3, 1, 1, dtype=torch.int64), r"got the shape \(3, 1, 1\)\."),
        (torch.zeros(3, 0, dtype=torch.int64), r"got the shape \(3, 0\)\."),
        (torch.tensor([0.0, 1.0, 3.0]), r"targets must be whole numbers, such as torch\.int64; got torch\.float32\."),
        (torch.tensor([True, False, True]), r"got torch\.bool\."),
        (torch.tensor([0, 1, 3], device="meta"), r"targets must be on the logits' device, cpu; got meta\."),
        (torch.tensor([0, 2, 0]), r"sample 1 of the batch has its own label, 2, as a target\."),
        (torch.tensor([[0, 2], [0, 1], [3, 0]]), r"sample 2 of the batch has its own label, 0, as a target\."),
        ("random-others", r"targets = 'random-others' is unknown; did you mean 'random-other'\?"),
        ("top-0", r"targets = 'top-0' is unknown; did you mean 'top-9'\?"),
        ("top-1\n", "is unknown; did you mean 'top-9'"),
        ("zzz", r"choose one of: all-others, least-likely, random-any, random-other, second-best, top-9\."),
    ],
)
def test_what_is_refused(targets: Tensor | str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        resolve(targets)


@pytest.mark.parametrize("targets", [*TARGETS, torch.tensor([0, 0])], ids=str)
def test_a_model_of_one_class_has_no_targets(targets: Tensor | str) -> None:
    with pytest.raises(ArgumentError, match=r"targets need a model of at least 2 classes; this one has 1\."):
        resolve_targets(targets, torch.zeros(2, 1), torch.tensor([0, 0]), IDS[:2], 0)


def test_top_others_needs_a_count() -> None:
    with pytest.raises(ArgumentError, match=r"count must be at least 1; got 0\."):
        top_others(0)


def test_policies_leave_logits_that_require_gradients_alone() -> None:
    logits = LOGITS.clone().requires_grad_()
    assert not resolve_targets("all-others", logits, LABELS, IDS, 0).requires_grad
    assert torch.equal(logits, LOGITS)


ATTACKS: dict[str, Callable[..., Result]] = {
    "fgsm": partial(fgsm, threat=Linf(0.1)),
    "pgd": partial(pgd, threat=Linf(0.1), steps=4),
    "mim": partial(mim, threat=Linf(0.1), steps=4),
    "apgd": partial(apgd, threat=Linf(0.1), steps=4),
    "spsa": partial(spsa, threat=Linf(0.1), steps=3, evaluations=8),
    "square": partial(square, threat=Linf(0.1), queries=8),
    "fmn": partial(fmn, norm="l2", steps=6),
    "carlini, tracked": partial(carlini_wagner, constants="tracked", steps=2, search_steps=3),
    "carlini, binary": partial(carlini_wagner, constants="binary", steps=2, search_steps=2),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("is_prepared", [False, True], ids=["plain", "prepared"])
def test_a_label_drawn_as_the_target_is_no_success(attack: Callable[..., Result], is_prepared: bool) -> None:
    """Some of these images are misclassified from the start: an attack that pulls them nowhere has failed."""
    model, images, ids = Curved(seed=3).eval(), uniform(5, 40, 1, 4, 4), torch.arange(40)
    labels = (predictions(model, images) + (ids % 2)) % 4
    found = attack(
        prepare(model) if is_prepared else model, images, labels, seed=0, sample_ids=ids, targets="random-any"
    )
    drawn = integers(ids, 4, "target", 0)
    assert (drawn == labels).sum() > 4
    answers = predictions(model, found.images)
    assert torch.equal(found.predictions, answers)
    assert torch.equal(found.hit, (answers == drawn) & (answers != labels))
    if isinstance(found, Nearest):
        assert torch.equal(found.distances.isfinite(), found.hit)
