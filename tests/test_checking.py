"""The tests' own way of checking annotations: whatever jaxtyping would refuse is refused."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ParamSpec

import beartype
import jaxtyping
import pytest
import torch
from jaxtyping import Float, Int, TypeCheckError
from torch import Tensor

from checking import jaxtyped, precisely

P = ParamSpec("P")
FIVE, FOUR = torch.zeros(5), torch.zeros(4)


def checked(thing: Any) -> Any:
    return jaxtyped(typechecker=beartype.beartype)(thing)


@checked
def rows(
    features: Float[Tensor, "n d"], labels: Int[Tensor, " n"] | None = None, *, result: Any
) -> Float[Tensor, " n"]:
    return result


def test_what_fits_goes_through() -> None:
    assert rows(torch.zeros(5, 2), torch.zeros(5, dtype=torch.int64), result=FIVE) is FIVE
    assert rows(features=torch.zeros(4, 3), result=FOUR) is FOUR


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ((torch.zeros(5),), FIVE),
        ((torch.zeros(5, 2).long(),), FIVE),
        (("features",), FIVE),
        ((torch.zeros(5, 2), torch.zeros(4, dtype=torch.int64)), FIVE),
        ((torch.zeros(5, 2),), FOUR),
        ((torch.zeros(5, 2),), FIVE.long()),
        ((torch.zeros(5, 2),), None),
    ],
    ids=[
        "dimensions",
        "dtype",
        "type",
        "one axis, two sizes",
        "size of the result",
        "dtype of the result",
        "no result",
    ],
)
def test_what_does_not_fit_is_refused(arguments: tuple[Any, ...], result: Any) -> None:
    with pytest.raises(TypeCheckError, match=r"rows"):
        rows(*arguments, result=result)
    with pytest.raises(TypeCheckError, match=r"rows"):
        precisely(rows.__wrapped__, typechecker=beartype.beartype)(*arguments, result=result)


def test_every_call_is_checked_and_an_axis_is_free_again_after_each() -> None:
    for count in (5, 4, 5):
        rows(torch.zeros(count, 2), result=torch.zeros(count))
        with pytest.raises(TypeCheckError):
            rows(torch.zeros(count, 2), result=torch.zeros(count + 1))


def test_a_call_inside_a_call_has_axes_of_its_own() -> None:
    @checked
    def outer(features: Float[Tensor, "n d"]) -> Float[Tensor, " n"]:
        rows(features.T, result=torch.zeros(features.shape[1]))
        return features[:, 0]

    assert outer(torch.zeros(5, 2)).shape == (5,)


def test_functions_that_differ_in_nothing_but_annotations_are_told_apart() -> None:
    def make(kind: type) -> Any:
        @checked
        def same(value: kind) -> kind:  # type: ignore[valid-type]
            return value

        return same

    whole, word = make(int), make(str)
    for _ in range(2):
        assert (whole(3), word("three"), make(int)(4)) == (3, "three", 4)
        for function, wrong in ((whole, "three"), (word, 3), (make(int), "four")):
            with pytest.raises(TypeCheckError):
                function(wrong)


@checked
@dataclass
class Pair:
    left: Float[Tensor, " n"]
    right: Float[Tensor, " n"]

    @property
    @checked
    def total(self) -> float:
        return self.left + self.right  # type: ignore[return-value]


@checked
@dataclass(init=False)
class Same(Pair):
    pass


@pytest.mark.parametrize("kind", [Pair, Same])
def test_the_fields_of_a_dataclass_and_its_methods_are_checked(kind: type[Pair]) -> None:
    pair = kind(FIVE, FIVE)
    with pytest.raises(TypeCheckError):
        kind(FIVE, FOUR)
    with pytest.raises(TypeCheckError):
        _ = pair.total


def test_a_generator_is_checked_as_what_it_returns() -> None:
    @checked
    def lengths(words: list[str]) -> Iterator[int]:
        yield from map(len, words)

    assert list(lengths(["a", "bc"])) == [1, 2]
    with pytest.raises(TypeCheckError):
        lengths("abc")


def test_what_stands_for_any_arguments_is_let_through() -> None:
    def passing_on(function: Callable[P, int]) -> Callable[P, int]:
        @checked
        def call(*args: P.args, **kwargs: P.kwargs) -> int:
            return function(*args, **kwargs)

        return call

    assert passing_on(len)("ab") == 2
    with pytest.raises(TypeCheckError):
        passing_on(str.upper)("ab")  # type: ignore[arg-type]


def test_pythons_own_errors_stay_as_they_are() -> None:
    with pytest.raises(TypeError, match="missing") as raised:
        rows()
    assert type(raised.value) is TypeError

    @checked
    def fails(number: int) -> int:
        raise KeyError(number)

    with pytest.raises(KeyError):
        fails(3)


def test_it_can_be_switched_off(unchecked: None) -> None:
    assert rows("anything", result=FIVE) is FIVE
    assert rows(torch.zeros(5, 2), result=None) is None


def test_the_package_is_checked_this_way() -> None:
    from maxmahal.losses import mmc_loss

    assert jaxtyping.jaxtyped is jaxtyped
    assert hasattr(mmc_loss, "is_checked")
    with pytest.raises(TypeCheckError):
        mmc_loss(torch.zeros(5, 2), torch.zeros(4, dtype=torch.int64), torch.zeros(3, 2))
