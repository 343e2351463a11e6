"""Which code of the user's own may be run to rebuild a network: what the user has named, never what a file names."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_TRUSTED: ContextVar[tuple[str, ...]] = ContextVar("trusted networks", default=())


@contextmanager
def trusting(factories: Sequence[str]) -> Iterator[None]:
    """Inside the block, checkpoints that need a network of the user's own get it from these ``module:function``."""
    token = _TRUSTED.set(tuple(factories))
    try:
        yield
    finally:
        _TRUSTED.reset(token)


def trusted_factory(wanted: str) -> str | None:
    """The function to call for a checkpoint that names ``wanted``: the same one, or else the only one there is."""
    trusted = _TRUSTED.get()
    if wanted in trusted:
        return wanted
    return trusted[0] if len(trusted) == 1 else None
