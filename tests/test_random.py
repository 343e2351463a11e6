"""Random numbers that belong to the sample: the algorithm by a second implementation, and the usual statistics."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from maxmahal.random import derive, generator, integers, normal, random_bits, signs, stream_key, uniform

WORD = 2**64
INT64 = st.integers(-(2**63), 2**63 - 1)
COUNT = 20_000
IDS = torch.arange(COUNT)


def splitmix64(state: int, draws: int) -> list[int]:
    """Steele, Lea and Flood's generator with Python's integers."""
    numbers = []
    for _ in range(draws):
        state = (state + 0x9E3779B97F4A7C15) % WORD
        bits = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % WORD
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) % WORD
        numbers.append(bits ^ (bits >> 31))
    return numbers


def reference_bits(sample_id: int, draws: int, key: int) -> list[int]:
    """A sample's state is one hash of its id and the key; its numbers are splitmix64's from there."""
    (state,) = splitmix64((sample_id - 1) * 0x9E3779B97F4A7C15 + key, 1)
    return splitmix64(state, draws)


def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(np.corrcoef(one.flatten().numpy(), other.flatten().numpy())[0, 1])


def test_the_second_implementation_is_splitmix64() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert splitmix64(1234567, 4) == published


@settings(deadline=None)
@given(sample_id=INT64, seed=st.integers(), stream=st.text(max_size=5))
def test_bits_are_splitmix64s_for_any_id(sample_id: int, seed: int, stream: str) -> None:
    bits = random_bits(torch.tensor([sample_id]), (2, 3), seed, stream)
    assert bits.shape == (1, 2, 3)
    assert [int(value) % WORD for value in bits.flatten()] == reference_bits(sample_id, 6, stream_key(seed, stream))


def test_keys_are_pinned_because_every_saved_result_hangs_on_them() -> None:
    assert stream_key(0, "pgd-start", 1) == 4104460742040123297


@settings(deadline=None)
@given(ids=st.lists(INT64, min_size=1, max_size=5), seed=st.integers())
def test_uniforms_are_the_top_24_bits_and_lie_in_0_1(ids: list[int], seed: int) -> None:
    numbers = uniform(torch.tensor(ids), (3,), seed)
    assert numbers.dtype == torch.float32
    assert ((numbers >= 0) & (numbers < 1)).all()
    expected = [[(bits >> 40) / 2**24 for bits in reference_bits(id_, 3, stream_key(seed))] for id_ in ids]
    assert torch.equal(numbers, torch.tensor(expected))


def test_uniforms_are_spread_evenly() -> None:
    numbers = uniform(IDS, (5,), 0, "test").double()
    assert float(numbers.mean()) == pytest.approx(0.5, abs=5 * math.sqrt(1 / 12 / numbers.numel()))
    assert float(numbers.var()) == pytest.approx(1 / 12, rel=0.02)
    bins = torch.histc(numbers, 100, 0, 1)
    assert stats.chisquare(bins.numpy()).pvalue > 1e-3
    assert stats.kstest(numbers.flatten().numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("step", [1, 2, 2**32, -1])
def test_neighbouring_samples_positions_and_streams_are_not_correlated(step: int) -> None:
    limit = 5 / math.sqrt(COUNT)
    numbers = uniform(IDS * step, (4,), 0, "test")
    assert abs(correlation(numbers[1:], numbers[:-1])) < limit
    for first in range(4):
        for second in range(first):
            assert abs(correlation(numbers[:, first], numbers[:, second])) < limit
    for other in ((1, "test"), (0, "tesu"), (0, "test", 1)):
        assert abs(correlation(numbers, uniform(IDS * step, (4,), *other))) < limit
    pairs, *_ = np.histogram2d(numbers[1:, 0].numpy(), numbers[:-1, 0].numpy(), bins=8, range=[[0, 1], [0, 1]])
    assert stats.chisquare(pairs.flatten()).pvalue > 1e-3


@settings(deadline=None)
@given(ids=st.lists(INT64, min_size=1, max_size=8), data=st.data())
def test_a_samples_numbers_do_not_depend_on_the_batch(ids: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(ids))))
    tensor = torch.tensor(ids)
    for draw in (uniform, normal, signs):
        together = draw(tensor, (2, 2), 3, "test")
        assert torch.equal(draw(tensor[list(order)], (2, 2), 3, "test"), together[list(order)])
        for row, id_ in enumerate(ids):
            assert torch.equal(draw(torch.tensor([id_]), (2, 2), 3, "test")[0], together[row])
    together = integers(tensor, 10, 3)
    assert torch.equal(integers(tensor[list(order)], 10, 3), together[list(order)])
    steps = torch.arange(len(ids)) // 2
    together = derive(tensor, steps)
    assert torch.equal(derive(tensor[list(order)], steps[list(order)]), together[list(order)])
    for row, id_ in enumerate(ids):
        assert derive(torch.tensor([id_]), steps[row, None]) == together[row]


def test_a_position_keeps_its_number_when_the_shape_grows() -> None:
    assert torch.equal(uniform(IDS[:5], (6,), 0)[:, :4], uniform(IDS[:5], (4,), 0))
    assert torch.equal(uniform(IDS[:5], (2, 3), 0).flatten(1), uniform(IDS[:5], (6,), 0))
    assert uniform(IDS[:5], (), 0).shape == (5,)


def test_ids_may_be_hashes_negative_or_narrow() -> None:
    ids = torch.tensor([-(2**63), 2**63 - 1, -1, 0, 8246290817260925101])
    numbers = uniform(ids, (1000,), 0)
    assert (numbers.mean(dim=1) - 0.5).abs().max() < 5 * math.sqrt(1 / 12 / 1000)
    assert len(torch.unique(numbers[:, 0])) == 5
    assert torch.equal(uniform(torch.tensor([7], dtype=torch.int32), (3,), 0), uniform(torch.tensor([7]), (3,), 0))


def test_normals_are_normal() -> None:
    numbers = normal(IDS, (5,), 0, "test").double().flatten()
    spread = 1 / math.sqrt(len(numbers))
    assert bool(numbers.isfinite().all())
    assert float(numbers.mean()) == pytest.approx(0, abs=5 * spread)
    assert float(numbers.var()) == pytest.approx(1, abs=5 * math.sqrt(2) * spread)
    assert float((numbers**3).mean()) == pytest.approx(0, abs=5 * math.sqrt(15) * spread)
    assert float((numbers**4).mean()) == pytest.approx(3, abs=5 * math.sqrt(96) * spread)
    assert stats.kstest(numbers.numpy(), "norm").pvalue > 1e-3


def test_neighbouring_normals_are_not_correlated() -> None:
    numbers = normal(IDS, (2,), 0, "test")
    limit = 5 / math.sqrt(COUNT)
    assert abs(correlation(numbers[:, 0], numbers[:, 1])) < limit
    assert abs(correlation(numbers[1:], numbers[:-1])) < limit
    assert abs(correlation(numbers.square()[:, 0], numbers.square()[:, 1])) < limit


@pytest.mark.parametrize("high", [1, 2, 7, 10, 100])
def test_integers_fill_their_range_evenly(high: int) -> None:
    numbers = integers(IDS, high, 0, "test")
    counts = torch.bincount(numbers, minlength=high)
    assert numbers.min() >= 0
    assert len(counts) == high
    if high > 1:
        assert stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_integers_reach_beyond_32_bits() -> None:
    numbers = integers(IDS, 2**62, 0)
    assert float(numbers.double().mean()) == pytest.approx(2**61, rel=0.02)
    assert (numbers >= 0).all()


@settings(deadline=None)
@given(sample_id=INT64, counter=st.integers(0, 40))
def test_a_derived_id_is_the_next_of_the_samples_own_splitmix64_stream(sample_id: int, counter: int) -> None:
    derived = derive(torch.tensor([sample_id]), torch.tensor([counter]))
    assert int(derived) % WORD == reference_bits(sample_id, counter + 1, stream_key("derive"))[-1]


def test_derived_ids_and_signs_are_pinned() -> None:
    ids, counters = torch.tensor([0, 1, -1, 2**40]), torch.tensor([0, 1, 2, -5])
    pinned = [-4447488646215603769, 622721256600192617, 3898703999191440552, -2996095125925984160]
    assert derive(ids, counters).tolist() == pinned
    assert derive(ids[:3].to(torch.int32), counters[:3].to(torch.int32)).tolist() == pinned[:3]
    drawn = ["".join("-+"[int(sign > 0)] for sign in row) for row in signs(torch.tensor([0, 17]), (12,), 0, "spsa")]
    assert drawn == ["+-++++-+-+-+", "-+-----+++--"]


def test_a_million_derived_ids_never_collide() -> None:
    ids = torch.cat([torch.arange(-500, 500), torch.arange(1000) * 2**32, random_bits(torch.arange(500), (), 0)])
    derived = derive(ids.unique().repeat_interleave(420), torch.arange(-20, 400).repeat(len(ids.unique())))
    assert len(derived) > 1_000_000
    assert len(derived.unique()) == len(derived)


def test_numbers_of_neighbouring_steps_and_samples_are_not_correlated() -> None:
    limit = 5 / math.sqrt(COUNT)
    numbers = [uniform(derive(IDS, torch.full_like(IDS, step)), (2,), 0, "test") for step in range(4)]
    plain = uniform(IDS, (2,), 0, "test")
    for step, drawn in enumerate(numbers):
        assert abs(correlation(drawn, plain)) < limit
        assert abs(correlation(drawn[1:], drawn[:-1])) < limit
        for later in numbers[step + 1 :]:
            assert abs(correlation(drawn, later)) < limit
            assert abs(correlation(drawn[1:], later[:-1])) < limit
    steps = uniform(derive(torch.full_like(IDS, 17), IDS), (2,), 0, "test")
    assert abs(correlation(steps[1:], steps[:-1])) < limit
    assert stats.kstest(steps.flatten().numpy(), "uniform").pvalue > 1e-3


@settings(deadline=None)
@given(sample_id=INT64, seed=st.integers(), count=st.integers(0, 200))
def test_signs_are_the_bits_of_the_samples_words_from_the_lowest(sample_id: int, seed: int, count: int) -> None:
    words = reference_bits(sample_id, 4, stream_key(seed, "signs"))
    expected = [1.0 if words[place // 64] >> (place % 64) & 1 else -1.0 for place in range(count)]
    drawn = signs(torch.tensor([sample_id]), (count,), seed)
    assert drawn.dtype == torch.float32
    assert drawn.tolist() == [expected]


def test_signs_are_fair_and_not_correlated_between_places_samples_steps_and_streams() -> None:
    places, limit = 130, 5 / math.sqrt(COUNT)
    drawn = signs(IDS, (places,), 0, "test")
    assert (drawn.abs() == 1).all()
    assert drawn.mean(dim=0).abs().max() < limit
    between = (drawn.T @ drawn / COUNT).fill_diagonal_(0)
    assert between.abs().max() < 1.2 * limit  # the largest of eight thousand
    later = signs(derive(IDS, torch.ones_like(IDS)), (places,), 0, "test")
    for other in (signs(IDS, (places,), 1, "test"), signs(IDS, (places,), 0, "tesu"), later, drawn.roll(1, 0)):
        assert (drawn * other).mean(dim=0).abs().max() < limit
        assert abs(float((drawn * other).mean())) < 5 / math.sqrt(drawn.numel())
    words = (drawn[:, :8] > 0).long() @ 2 ** torch.arange(8)
    assert stats.chisquare(torch.bincount(words, minlength=256).numpy()).pvalue > 1e-3


def test_a_place_keeps_its_sign_when_the_shape_grows() -> None:
    long = signs(IDS[:5], (300,), 0)
    assert torch.equal(long[:, :70], signs(IDS[:5], (70,), 0))
    assert torch.equal(signs(IDS[:5], (3, 4, 25), 0).flatten(1), long)
    assert torch.equal(signs(IDS[:5], (), 0), long[:, 0])
    assert signs(IDS[:5], (0,), 0).shape == (5, 0)
    assert signs(IDS[:0], (2, 3), 0).shape == (0, 2, 3)


@settings(deadline=None)
@given(one=st.tuples(st.integers(), st.text()), other=st.tuples(st.integers(), st.text()))
def test_different_keys_give_different_numbers(one: tuple[int, str], other: tuple[int, str]) -> None:
    same = torch.equal(uniform(IDS[:3], (4,), *one), uniform(IDS[:3], (4,), *other))
    assert same == (one == other)


def test_a_number_and_its_text_are_different_keys() -> None:
    keys = [(1, 2), (12,), ("1", 2), (1, "2"), ("1, 2",), (2, 1), ()]
    assert len({stream_key(*key) for key in keys}) == len(keys)


def test_generators_repeat_and_leave_the_global_state_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = (torch.randn(5, generator=generator(seed, "run")) for seed in (0, 0, 1))
    uniform(IDS, (3,), 0)
    normal(IDS, (3,), 0)
    signs(derive(IDS, IDS), (3,), 0)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)
