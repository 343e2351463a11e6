"""A faster equivalent of a model for an attack's search: folded, compiled, recorded; the model itself confirms."""

from maxmahal.attacks.prepare.prepared import Prepared, prepare

__all__ = ["Prepared", "prepare"]
