"""Random numbers that belong to the sample, not to the batch or the process.

The number at position ``p`` of sample ``id`` is a hash of (seed, stream, id, p), on any device up to rounding in
``normal``. ``stream`` separates independent uses of one seed (a random start, restarts, the noise of a transformation).
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

# splitmix64's constants, as signed 64-bit integers: torch multiplies them modulo 2^64, as the algorithm requires.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
_MIX_2 = 0x94D049BB133111EB - 2**64


def _shift_right(bits: Int[Tensor, "..."], by: int) -> Int[Tensor, "..."]:
    return (bits >> by) & ((1 << (64 - by)) - 1)  # torch's shift copies the sign bit; the mask makes it logical


def _mix(bits: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """splitmix64's finaliser: a bijection of 64-bit words in which every input bit affects every output bit."""
    bits = (bits ^ _shift_right(bits, 30)) * _MIX_1
    bits = (bits ^ _shift_right(bits, 27)) * _MIX_2
    return bits ^ _shift_right(bits, 31)


def stream_key(*parts: int | str) -> int:
    """One signed 64-bit key for a tuple such as ``(seed, "start", restart)``: the same on every machine."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def derive(sample_ids: Int[Tensor, " n"], counters: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """New ids, a hash of each id and its counter: the samples of one batch may be at different steps."""
    samples = _mix(sample_ids.to(torch.int64) * _GOLDEN + stream_key("derive"))
    return _mix(samples + (counters.to(torch.int64) + 1) * _GOLDEN)


def random_bits(sample_ids: Int[Tensor, " n"], shape: Sequence[int], *key: int | str) -> Int[Tensor, "n ..."]:
    """64 random bits for each of ``shape`` positions of each sample."""
    count = math.prod(shape)
    samples = _mix(sample_ids.to(torch.int64) * _GOLDEN + stream_key(*key))
    positions = torch.arange(1, count + 1, device=sample_ids.device, dtype=torch.int64) * _GOLDEN
    return _mix(samples[:, None] + positions[None, :]).reshape(len(sample_ids), *shape)


def uniform(sample_ids: Int[Tensor, " n"], shape: Sequence[int], *key: int | str) -> Float[Tensor, "n ..."]:
    """Numbers in [0, 1), a function of the sample's id and the key only."""
    # 24 bits fit a float32's mantissa exactly, so the result never rounds to 1.0.
    return _shift_right(random_bits(sample_ids, shape, *key), 40).to(torch.float32) * 2.0**-24


def normal(sample_ids: Int[Tensor, " n"], shape: Sequence[int], *key: int | str) -> Float[Tensor, "n ..."]:
    """Standard normal numbers (Box-Muller), a function of the sample's id and the key only."""
    radius = uniform(sample_ids, shape, *key, "radius")
    angle = uniform(sample_ids, shape, *key, "angle")
    return (-2.0 * (1.0 - radius).log()).sqrt() * (2.0 * math.pi * angle).cos()


def signs(sample_ids: Int[Tensor, " n"], shape: Sequence[int], *key: int | str) -> Float[Tensor, "n ..."]:
    """-1 or 1 with equal probability, a function of the sample's id and the key only; one word of bits gives 64."""
    count = math.prod(shape)
    words = random_bits(sample_ids, (-(-count // 64),), *key, "signs")
    places = torch.arange(8, device=sample_ids.device)
    chunks = (words[:, :, None] >> 8 * places) & 255
    # Looking up eight signs at once is several times faster than shifting out each bit.
    patterns = (2 * ((torch.arange(256, device=sample_ids.device)[:, None] >> places) & 1) - 1).to(torch.float32)
    return F.embedding(chunks, patterns).flatten(1)[:, :count].reshape(len(sample_ids), *shape)


def integers(sample_ids: Int[Tensor, " n"], high: int, *key: int | str) -> Int[Tensor, " n"]:
    """One integer in [0, high) per sample."""
    return _shift_right(random_bits(sample_ids, (), *key), 1) % high


def content_ids(images: Float[Tensor, "n ..."], labels: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """An id per sample from its pixels and its label, for callers without sample ids."""
    pixels = images.detach().to(torch.float32).flatten(1).contiguous().view(torch.int32).to(torch.int64)
    positions = torch.arange(1, pixels.shape[1] + 1, device=images.device, dtype=torch.int64) * _GOLDEN
    return _mix(_mix(pixels + positions).sum(dim=1) + labels * _GOLDEN)


def generator(*key: int | str) -> torch.Generator:
    """A CPU generator for random numbers of a whole run (weights, the order of an epoch), not of one sample."""
    return torch.Generator().manual_seed(stream_key(*key) % 2**63)


@contextmanager
def own_stream(device: torch.device, seed: int) -> Iterator[None]:
    """Inside, torch's global numbers start at ``seed``; afterwards the caller's go on where they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed % 2**63)
        yield
