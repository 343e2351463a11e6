"""Every call's arguments and result are checked against their annotations, as jaxtyping does it, at half the price.

jaxtyping makes two checks of every function when a module is imported, and on every call binds the arguments by hand
and looks at them again together with the result. Here both are made when a function is first called, most never are in
one process, and each value is looked at once.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import jaxtyping
from jaxtyping import TypeCheckError
from jaxtyping._decorator import _destring_annotation, _make_fn_with_signature
from jaxtyping._storage import pop_shape_memo, push_shape_memo

precisely = jaxtyping.jaxtyped
Check = Callable[..., object]
MADE: dict[tuple[object, ...], tuple[Check, Check]] = {}


def install() -> None:
    """The import hook of jaxtyping's plugin writes ``@jaxtyping.jaxtyped(...)`` before everything it instruments."""
    jaxtyping.jaxtyped = jaxtyped


def jaxtyped(thing: Any = None, *, typechecker: Callable[[Check], Check]) -> Any:
    if thing is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if not inspect.isclass(thing):
        return checked(thing, typechecker)
    if dataclasses.is_dataclass(thing) and not hasattr(thing.__init__, "is_checked"):
        thing.__init__ = checked(thing.__init__, typechecker)  # type: ignore[method-assign]
    return thing


def checked(function: Callable[..., Any], typechecker: Callable[[Check], Check]) -> Callable[..., Any]:
    checks: list[Check] = []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        if not checks:
            checks[:] = find_checks(function, typechecker)  # not added to: another thread may do the same
        check_arguments, check_result = checks
        push_shape_memo({})  # an axis has one size in all arguments and the result
        try:
            try:
                check_arguments(*args, **kwargs)
            except Exception:
                return precisely(function, typechecker=typechecker)(*args, **kwargs)  # says at length what is wrong
            result = function(*args, **kwargs)
            try:
                check_result(result)
            except Exception as error:
                where = f"{function.__module__}.{function.__qualname__}"
                raise TypeCheckError(f"The result of {where} is not what its annotation says: {error}") from error
            return result
        finally:
            pop_shape_memo()

    call.is_checked = True  # type: ignore[attr-defined]
    return call


def find_checks(function: Callable[..., Any], typechecker: Callable[[Check], Check]) -> tuple[Check, Check]:
    """Those of a function inside another, which is a new one at every call, are made once all the same."""
    annotations = tuple(function.__annotations__.items())
    key = function.__module__, function.__qualname__, function.__code__, annotations, typechecker
    try:
        return MADE[key]
    except KeyError:
        return MADE.setdefault(key, make_checks(function, typechecker))
    except TypeError:  # P.args of a ParamSpec cannot be hashed
        return make_checks(function, typechecker)


def make_checks(function: Callable[..., Any], typechecker: Callable[[Check], Check]) -> tuple[Check, Check]:
    """Two functions that do nothing, one with the arguments' annotations and one with the result's."""
    signature = inspect.signature(function)
    hints = [_destring_annotation(each.annotation, function.__globals__) for each in signature.parameters.values()]
    returned = _destring_annotation(signature.return_annotation, function.__globals__)
    parameters = [
        each.replace(annotation=hint) for each, hint in zip(signature.parameters.values(), hints, strict=True)
    ]
    result = inspect.Parameter("result", inspect.Parameter.POSITIONAL_ONLY, annotation=returned)
    arguments = signature.replace(parameters=parameters, return_annotation=Any)
    names = function.__name__, function.__qualname__, function.__module__
    return (
        typechecker(_make_fn_with_signature(*names, arguments, output=False)),
        typechecker(_make_fn_with_signature(*names, inspect.Signature([result]), output=False)),
    )
