"""What must be known to repeat a number: versions, device, commit, command."""

import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import torch

from maxmahal.settings import Table
from maxmahal.version import __version__


def describe_environment(device: torch.device, command: str) -> Table:
    """As the records keep it."""
    return {
        "versions": {
            "maxmahal": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "commit": _commit(),
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_device(device: torch.device) -> str:
    """Such as "cpu" or "NVIDIA H200"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def as_command(targets: Sequence[str], suite: str, data: str, options: Mapping[str, object], out: str) -> str:
    """The command line that does what a call from Python did."""
    words = ["maxmahal", "evaluate", *targets, "--suite", suite, "--data", data]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:  # a list is an option given several times
            if each is True:
                words.append(f"--{name}")
            elif each is not None and each is not False:
                words += [f"--{name}", str(each)]
    return shlex.join([*words, "--out", out])


def _commit() -> str:
    """Of the checkout in the current folder, with a mark where something was changed since; empty outside of one."""
    try:
        asked = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        answer = subprocess.run(
            asked, capture_output=True, text=True, timeout=10, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
