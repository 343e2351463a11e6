"""Files of tensors that vouch for themselves: each bears the fingerprint of what was saved, and reading compares."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from maxmahal.errors import CheckpointError
from maxmahal.files import write_atomically

FINGERPRINT = "fingerprint"
"""Its entry in a file's metadata; files of earlier versions have none."""


def fingerprint_file(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """SHA-256 over names, types, shapes, bytes and metadata, sorted by name: how a file lays them out is left out."""
    said = sorted((key, text) for key, text in metadata.items() if key != FINGERPRINT)
    digest = hashlib.sha256(ascii(said).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(ascii((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """A safetensors file, written atomically, with the fingerprint of all it holds."""
    # Two names for one storage (tied weights) would be refused; each gets its own copy.
    dense = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    data = safetensors.torch.save(dense, {**metadata, FINGERPRINT: fingerprint_file(dense, metadata)})
    write_atomically(path, lambda temporary: temporary.write_bytes(data))


def read_metadata(path: Path) -> dict[str, str]:
    """What a safetensors file says beside its tensors, which are not looked at."""
    with _opened(path) as file:
        return dict(file.metadata() or {})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file; other ones than were saved are refused."""
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata() or {})
    if FINGERPRINT in metadata and metadata[FINGERPRINT] != fingerprint_file(tensors, metadata):
        raise CheckpointError(
            f"{path} is damaged: by its fingerprint, what it holds is not what was saved; "
            "copy it again from where it came, or train again."
        )
    return tensors, metadata


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file at ``path``; one that cannot be read is told in one sentence."""
    try:
        path.open("rb").close()  # safetensors calls every file it cannot open missing
        with safetensors.safe_open(str(path), framework="pt") as file:
            yield file
    except FileNotFoundError as error:
        raise CheckpointError(f"There is no checkpoint at {path}.") from error
    except OSError as error:
        raise CheckpointError(f"Cannot read {path}: {error.strerror or error}.") from error
    except safetensors.SafetensorError as error:
        if _is_pickled(path):
            raise CheckpointError(
                f"{path} was written by torch.save or pickle, and reading it could run any code it holds; build the "
                "model and load its weights in a function of yours, and name that: package.module:factory."
            ) from error
        raise CheckpointError(
            f"{path} is not a readable safetensors file ({error}); it may be truncated. Copy it again or retrain."
        ) from error


def _is_pickled(path: Path) -> bool:
    """Whether a file starts like those of torch.save, a zip archive or (before 2020) a pickle."""
    with path.open("rb") as file:
        start = file.read(4)
    return start == b"PK\x03\x04" or (start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"))
