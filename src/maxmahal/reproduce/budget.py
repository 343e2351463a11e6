"""Time limits: how they are written, and what has to be over when."""

import re
import time
from dataclasses import dataclass

from maxmahal.errors import SettingsError

_FORM = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def parse_budget(text: str) -> float:
    """Seconds of "90s", "8m", "1h" or "1h30m"."""
    match = _FORM.fullmatch(text.strip())
    seconds = 0.0
    if match is not None:
        hours, minutes, rest = (int(part or 0) for part in match.groups())
        seconds = 3600.0 * hours + 60.0 * minutes + rest
    if not seconds:
        raise SettingsError(f"--budget {text} is not a time; write for example 90s, 8m or 1h30m.")
    return seconds


@dataclass(frozen=True)
class Deadline:
    """Moments of ``time.monotonic()``, which on one machine is the same clock in every process."""

    workers: float
    """When a worker should have come to a good place to stop."""
    stop: float
    """When those that have not are stopped anyway; they lose an epoch or a chunk."""
    end: float
    """When nothing may run any more."""

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """Counted from the start of this process, as near as it can tell: what it has computed so far took time too."""
        end = time.monotonic() - time.process_time() + seconds
        reserve = min(max(0.04 * seconds, 2.0), 30.0)
        return cls(workers=end - 2 * reserve, stop=end - reserve, end=end - 0.2 * reserve)
