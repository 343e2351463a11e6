"""Codes in closed form for very many points, where a search over all pairs would take hours.

A point is a row of signs (−1)^f(x), one coordinate for each word x of m bits, where f is a linear plus a quadratic form
over GF(2). Rows that share a quadratic form are orthogonal or opposite; others have a cosine of at most 2^(−rank/2),
with the rank of the difference of their forms. With Tr the trace of GF(2^m), m odd:

    Kerdock            Σ_i Tr((ax)^(2^i + 1)) + εTr(ax)          in dimension 2^(m+1), of rank m + 1
    Delsarte-Goethals  Tr(a_1 x^3 + a_2 x^5 + … + a_r x^(2^r + 1))   in dimension 2^m, of rank m + 1 − 2r at least

The first has dim² points of largest cosine 1/√dim; each further a multiplies the points by 2^m and doubles the cosine.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int8
from torch import Tensor

from maxmahal.errors import ArgumentError, check_count

# x^m + x^t + 1 is primitive; with m and t odd, the powers x^1 to x^(m−1) of its root all have trace 0, and x^0 has 1.
_TAPS = {3: 1, 5: 3, 7: 1, 9: 5, 11: 9}


@dataclass(frozen=True)
class QuadraticCode:
    """Which forms: of ``bits`` = m, and of ``order`` = r, where 0 is Kerdock's set; in how many orthogonal copies."""

    bits: int
    order: int
    copies: int

    @property
    def width(self) -> int:
        """The dimension of one copy."""
        return 1 << self.bits + (self.order == 0)

    @property
    def capacity(self) -> int:
        """How many points there are."""
        forms = 1 << self.bits * max(1, self.order)
        return self.copies * forms * 2 * self.width

    @property
    def largest_cosine(self) -> float:
        """What no cosine of two points exceeds."""
        return float(2.0 ** (self.order - (self.bits + 1) // 2))


def widest_quadratic_code(num_points: int, dim: int) -> QuadraticCode | None:
    """The code of the smallest largest cosine that has so many points in so many dimensions, if there is one."""
    codes = []
    for bits in _TAPS:
        for order in range((bits + 1) // 2):
            code = QuadraticCode(bits, order, copies=1)
            codes.append(QuadraticCode(bits, order, copies=dim // code.width))
    fitting = [code for code in codes if code.capacity >= num_points]
    return min(fitting, key=lambda code: (code.largest_cosine, code.copies), default=None)


def quadratic_code(
    num_points: int, dim: int, *, device: torch.device | str = "cpu", code: QuadraticCode | None = None
) -> Float64[Tensor, "l d"]:
    """Unit vectors of a quadratic code, by default of the widest; points 2i and 2i + 1 are opposite."""
    check_count("num_points", num_points)
    check_count("dim", dim)
    code = widest_quadratic_code(num_points, dim) if code is None else code
    if code is None or code.capacity < num_points or code.copies * code.width > dim:
        raise ArgumentError(
            f"No quadratic code has {num_points} points in {dim} dimensions{'' if code is None else f' as {code}'}: "
            f"raise dim, or search with spherical_code."
        )
    points = torch.zeros(num_points, dim, dtype=torch.float64, device=device)
    size = 2 * -(-num_points // (2 * code.copies))
    signs = _signs(code, min(size, num_points), device)
    for copy, rows in enumerate(torch.split(points, size)):
        rows[:, copy * code.width : (copy + 1) * code.width] = signs[: len(rows)]
    return points.mul_(code.width**-0.5)


def _signs(code: QuadraticCode, count: int, device: torch.device | str) -> Int8[Tensor, "l w"]:
    """The first ``count`` rows of one copy: form by form, each with every linear form and its negation."""
    traces = _traces(code.bits).to(device)
    linear = _powers(traces, 1)
    forms = torch.arange(-(-count // (2 * code.width)), device=device)
    if code.order == 0:
        linear = torch.kron(torch.tensor([[1, 1], [1, -1]], dtype=torch.int8, device=device), linear)
        quadratic = _kerdock(traces)[forms]
    else:
        quadratic = torch.ones(len(forms), code.width, dtype=torch.int8, device=device)
        for place in range(code.order):
            digits = forms // code.width**place % code.width
            quadratic *= _powers(traces, 2 ** (place + 1) + 1)[digits]
    pairs = torch.stack([linear, -linear], dim=1).flatten(0, 1)
    return (quadratic[:, None] * pairs).flatten(0, 1)[:count]


def _traces(bits: int) -> Int8[Tensor, " n"]:
    """(−1)^Tr(α^k) for every power k of a primitive α, by the recurrence that α's polynomial gives."""
    traces = [1] + [0] * (bits - 1)
    while len(traces) < 2**bits - 1:
        traces.append(traces[-bits] ^ traces[_TAPS[bits] - bits])
    return 1 - 2 * torch.tensor(traces, dtype=torch.int8)


def _powers(traces: Int8[Tensor, " n"], exponent: int) -> Int8[Tensor, "w w"]:
    """(−1)^Tr(a·x^exponent), a row for each a and a column for each x: 0 first, then α^0, α^1, …"""
    logarithms = torch.arange(len(traces), device=traces.device)
    table = torch.ones(len(traces) + 1, len(traces) + 1, dtype=torch.int8, device=traces.device)
    table[1:, 1:] = traces[(logarithms[:, None] + exponent * logarithms) % len(traces)]
    return table


def _kerdock(traces: Int8[Tensor, " n"]) -> Int8[Tensor, "w v"]:
    """Kerdock's forms, a row for each a; columns as in ``_powers``, first all with ε = 0 and then with ε = 1."""
    logarithms = torch.arange(len(traces), device=traces.device)
    quadratic = torch.ones_like(traces)
    for i in range(1, len(traces).bit_length() // 2 + 1):
        quadratic *= traces[(2**i + 1) * logarithms % len(traces)]
    without = torch.ones(len(traces) + 1, len(traces) + 1, dtype=torch.int8, device=traces.device)
    without[1:, 1:] = quadratic[(logarithms[:, None] + logarithms) % len(traces)]
    return torch.cat([without, without * _powers(traces, 1)], dim=1)
