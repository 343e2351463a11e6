"""NVIDIA's Multi-Process Service, which lets several processes share one GPU."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MPS_CONTROL = "nvidia-cuda-mps-control"
_TIMEOUT = 15.0


@contextmanager
def shared_gpu(note: Callable[[str], None]) -> Iterator[None]:
    """Run the service during the block; a service that was already running is used and not stopped."""
    started = False
    if shutil.which(MPS_CONTROL) is not None and not _send("get_server_list"):
        try:
            subprocess.run([MPS_CONTROL, "-d"], check=True, capture_output=True, timeout=_TIMEOUT)
            started = True
        except (OSError, subprocess.SubprocessError) as error:
            note(f"{MPS_CONTROL} did not start ({error}), so trainings take turns on the GPU.")
    try:
        yield
    finally:
        if started and not _send("quit"):
            note(f"{MPS_CONTROL} did not stop; `echo quit | {MPS_CONTROL}` stops it.")


def _send(command: str) -> bool:
    """Whether a running service accepted the command."""
    try:
        done = subprocess.run(
            [MPS_CONTROL], input=f"{command}\n", text=True, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
