"""NVIDIA's Multi-Process Service: lets the kernels of several processes run on one GPU at the same time."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CONTROL = "nvidia-cuda-mps-control"
PATIENCE = 15.0


@contextmanager
def shared_gpu(note: Callable[[str], None]) -> Iterator[None]:
    """The service as long as the block runs; one that was running before is used and left alone."""
    ours = shutil.which(CONTROL) is not None and not _command("get_server_list") and _start(note)
    try:
        yield
    finally:
        if ours and not _command("quit"):
            note(f"{CONTROL} did not stop; `echo quit | {CONTROL}` stops it.")


def _start(note: Callable[[str], None]) -> bool:
    try:
        subprocess.run([CONTROL, "-d"], check=True, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as error:
        note(f"{CONTROL} did not start ({error}), so trainings take turns on the GPU.")
        return False
    return True


def _command(word: str) -> bool:
    """Whether a running service took the command."""
    try:
        done = subprocess.run(
            [CONTROL], input=f"{word}\n", text=True, capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
