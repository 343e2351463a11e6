"""What is needed to reproduce a number: versions, device, commit, command."""

import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from maxmahal.settings import Table
from maxmahal.version import __version__

_CHECKOUT = Path(__file__).resolve().parents[3]  # that the package runs from, unless it is installed


def describe_environment(device: torch.device, command: str) -> Table:
    """As the records keep it."""
    versions = {"maxmahal": __version__, "torch": torch.__version__, "numpy": np.__version__}
    return {
        "versions": {**versions, "python": platform.python_version()},
        "device": describe_device(device),
        "threads": torch.get_num_threads(),
        "commit": commit_of(_CHECKOUT),
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe_device(device: torch.device) -> str:
    """Such as "cpu" or "NVIDIA H200"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def as_command(targets: Sequence[str], suite: str, data: str, options: Mapping[str, object]) -> str:
    """The command line that does what a call from Python did."""
    words = ["maxmahal", "evaluate", *targets, "--suite", suite, "--data", data]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:  # a list is an option given several times
            if each is True:
                words.append(f"--{name}")
            elif each is not None and each is not False:
                words += [f"--{name}", str(each)]
    return shlex.join(words)


def commit_of(root: Path) -> str:
    """Of the checkout in that folder, read without starting git, which may run what a repository says; else empty."""
    git = root / ".git"
    try:
        if git.is_file():  # a worktree's folder is elsewhere
            git = root / git.read_text(encoding="utf-8").removeprefix("gitdir: ").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return _short(head)
        common = git / "commondir"
        shared = git / common.read_text(encoding="utf-8").strip() if common.is_file() else git
        ref = head.removeprefix("ref: ")
        if (shared / ref).is_file():
            return _short((shared / ref).read_text(encoding="utf-8"))
        packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((_short(line) for line in packed if line.endswith(f" {ref}")), "")
    except (OSError, UnicodeDecodeError):
        return ""


def _short(commit: str) -> str:
    """The first digits of a commit's name, or nothing if it is none."""
    found = re.match(r"[0-9a-f]{12}", commit)
    return found[0] if found else ""
