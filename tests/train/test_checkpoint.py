"""Checkpoints: bad files are refused in one sentence, and nothing in them is ever executed."""

import errno
import fcntl
import json
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from maxmahal.errors import CheckpointError
from maxmahal.files import StorageError, write_atomically, write_text_atomically
from maxmahal.train import Settings, load_model, train_model
from maxmahal.train.checkpoint import FINGERPRINT, fingerprint_file, load_progress, read_tensors, save_tensors
from maxmahal.train.loop import Silent
from maxmahal.train.optimiser import build_optimiser, momentum_tensors, restore_momentum

Make = Callable[..., Settings]


@pytest.fixture
def checkpoint(tiny_settings: Make, tmp_path: Path) -> Path:
    train_model(tiny_settings("digits-mmc", "train.epochs=1"), tmp_path / "run")
    return tmp_path / "run" / "last.safetensors"


def flip_bytes_of_a_tensor(path: Path, name: str) -> None:
    """Two bits in the middle of a tensor, as a bad disk or a bad copy would leave it."""
    content = bytearray(path.read_bytes())
    header = int.from_bytes(content[:8], "little")
    begin, end = json.loads(content[8 : 8 + header])[name]["data_offsets"]
    middle = 8 + header + (begin + end) // 2
    for place in (middle, middle + 1):
        content[place] ^= 0x40
    path.write_bytes(content)


def test_a_truncated_checkpoint_is_refused(checkpoint: Path) -> None:
    content = checkpoint.read_bytes()
    for length in (0, 4, 100, len(content) - 1):
        checkpoint.write_bytes(content[:length])
        with pytest.raises(CheckpointError, match="not a readable safetensors file"):
            load_model(checkpoint)


@pytest.mark.parametrize("name", ["head.centers", "head.scale", "backbone.layers.0.weight"])
def test_a_checkpoint_with_two_flipped_bytes_is_refused(name: str, checkpoint: Path) -> None:
    load_model(checkpoint)
    flip_bytes_of_a_tensor(checkpoint, name)
    with pytest.raises(CheckpointError, match=r"last\.safetensors is damaged.*copy it again.*or train again"):
        load_model(checkpoint)


def test_a_best_checkpoint_is_guarded_like_the_last(tiny_settings: Make, tmp_path: Path) -> None:
    train_model(tiny_settings("digits-at-mmc", "train.epochs=1", "data.validation=20"), tmp_path / "run")
    best = tmp_path / "run" / "best.safetensors"
    flip_bytes_of_a_tensor(best, "head.centers")
    with pytest.raises(CheckpointError, match=r"best\.safetensors is damaged"):
        load_model(best)


def test_a_state_with_flipped_bytes_is_not_gone_on_with(tiny_settings: Make, checkpoint: Path) -> None:
    state = checkpoint.parent / "state.safetensors"
    flip_bytes_of_a_tensor(state, "momentum.backbone.layers.0.weight")
    content = state.read_bytes()
    (checkpoint.parent / "result.json").unlink()
    with pytest.raises(CheckpointError, match=r"state\.safetensors is damaged"):
        train_model(tiny_settings("digits-mmc", "train.epochs=1"), checkpoint.parent, resume=True)
    assert state.read_bytes() == content


@pytest.mark.parametrize(("old", "new"), [("class_names", "class_namds"), ('\\"epoch\\": 1', '\\"epoch\\": 0')])
def test_a_checkpoint_with_a_flipped_bit_beside_its_tensors_is_refused(old: str, new: str, checkpoint: Path) -> None:
    content = checkpoint.read_bytes()
    assert content.count(old.encode()) == 1
    checkpoint.write_bytes(content.replace(old.encode(), new.encode()))
    with pytest.raises(CheckpointError, match=r"last\.safetensors is damaged"):
        load_model(checkpoint)


@pytest.mark.parametrize(("old", "new"), [('\\"best_epoch\\": 0', '\\"best_epoch\\": 1'), ("batch_size", "batch_sizd")])
def test_a_state_with_a_flipped_bit_beside_its_tensors_is_refused(old: str, new: str, checkpoint: Path) -> None:
    state = checkpoint.parent / "state.safetensors"
    content = state.read_bytes()
    assert content.count(old.encode()) == 1
    state.write_bytes(content.replace(old.encode(), new.encode()))
    with pytest.raises(CheckpointError, match=r"state\.safetensors is damaged"):
        load_progress(state)


def test_a_checkpoint_of_an_earlier_version_has_no_fingerprint_and_loads(checkpoint: Path) -> None:
    tensors, metadata = read_tensors(checkpoint)
    del metadata[FINGERPRINT]
    save_file(tensors, checkpoint, metadata)
    assert load_model(checkpoint).state_dict().keys() == tensors.keys()


def test_a_fingerprint_is_of_the_metadata_but_for_itself_in_no_order() -> None:
    tensors = {"a": torch.ones(2)}
    known = fingerprint_file(tensors, {"b": "1", "c": "2"})
    assert known == fingerprint_file(tensors, {"c": "2", FINGERPRINT: known, "b": "1"})
    others = [{"b": "2", "c": "1"}, {"b": "1"}, {"b": "1", "d": "2"}, {"b": "1", "c": "2", "d": ""}]
    assert len({known, *(fingerprint_file(tensors, other) for other in others)}) == 5


def test_a_fingerprint_is_of_names_types_shapes_and_bytes_in_no_order() -> None:
    tensors = {
        "a": torch.arange(6.0).reshape(2, 3),
        "b": torch.tensor(2, dtype=torch.int64),
        "c": torch.ones(3, dtype=torch.bfloat16),
        "d": torch.tensor([True, False]),
        "e": torch.empty(0),
    }
    fingerprint = partial(fingerprint_file, metadata={})
    known = fingerprint(tensors)
    assert known == fingerprint(dict(reversed(tensors.items())))
    assert known == fingerprint(tensors | {"a": torch.arange(6.0).reshape(2, 3).T.contiguous().T})
    changes = {
        "a": [torch.arange(6.0).reshape(3, 2), torch.arange(6.0).reshape(2, 3).view(torch.int32)],
        "b": [torch.tensor(3, dtype=torch.int64), torch.tensor([2], dtype=torch.int64)],
        "c": [torch.ones(3, dtype=torch.bfloat16).view(torch.float16)],
        "e": [torch.empty(0, 1)],
        "f": [torch.empty(0)],
    }
    others = {fingerprint(tensors | {name: other}) for name, each in changes.items() for other in each}
    assert len(others | {known}) == 8
    assert fingerprint({"a": torch.tensor([-0.0])}) != fingerprint({"a": torch.tensor([0.0])})


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="There is no checkpoint at"):
        load_model(tmp_path / "nothing.safetensors")
    with pytest.raises(CheckpointError, match="There is no checkpoint at"):
        load_model(tmp_path)


def test_a_pickle_in_place_of_a_checkpoint_is_not_executed(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
            return os.system, (f"touch {tmp_path}/executed",)

    path = tmp_path / "evil.safetensors"
    for write in (
        lambda: path.write_bytes(pickle.dumps(Evil())),
        lambda: torch.save({"x": torch.ones(1)}, path),
        lambda: torch.save({"x": torch.ones(1)}, path, _use_new_zipfile_serialization=False),
    ):
        write()
        with pytest.raises(CheckpointError, match=r"written by torch\.save or pickle.*package\.module:factory"):
            load_model(path)
    assert not (tmp_path / "executed").exists()


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    save_file({"x": torch.ones(1)}, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of this version"):
        load_model(path)


def test_weights_of_another_shape_are_refused(checkpoint: Path) -> None:
    tensors, metadata = read_tensors(checkpoint)
    tensors["head.centers"] = tensors["head.centers"][:, :4].contiguous()
    save_tensors(checkpoint, tensors, metadata)
    with pytest.raises(CheckpointError, match=r"'head\.centers' is torch\.float32 of shape \(3, 4\) in the file"):
        load_model(checkpoint)


def test_a_damaged_state_is_told_and_kept(checkpoint: Path, tiny_settings: Make) -> None:
    state = checkpoint.parent / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-10])
    size = state.stat().st_size
    with pytest.raises(CheckpointError, match="truncated"):
        train_model(tiny_settings("digits-mmc", "train.epochs=1"), checkpoint.parent, resume=True)
    assert state.stat().st_size == size


@pytest.mark.parametrize(
    "metadata", [{}, {"format": "maxmahal-state-1"}, {"format": "maxmahal-state-1", "progress": "{"}]
)
def test_a_state_with_damaged_metadata_is_refused(
    metadata: dict[str, str], checkpoint: Path, tiny_settings: Make
) -> None:
    save_file({"x": torch.ones(1)}, checkpoint.parent / "state.safetensors", metadata)
    with pytest.raises(CheckpointError, match="start a new run folder"):
        train_model(tiny_settings("digits-mmc", "train.epochs=1"), checkpoint.parent, resume=True)


def test_a_checkpoint_whose_card_is_no_table_is_refused(checkpoint: Path) -> None:
    sizes = '{"settings": {}, "class_names": ["a"], "epoch": 1, "image_shape": %s}'
    for card in ("[]", "5", '{"settings": 5}', "not json", sizes % '"abc"', sizes % "[3, -1, 2]"):
        save_file({"x": torch.ones(1)}, checkpoint, {"format": "maxmahal-checkpoint-1", "model": card})
        with pytest.raises(CheckpointError, match="damaged metadata"):
            load_model(checkpoint)


def test_a_checkpoint_that_claims_absurd_sizes_is_refused_without_the_memory(checkpoint: Path) -> None:
    tensors, metadata = read_tensors(checkpoint)
    card = json.loads(metadata["model"])
    card["image_shape"] = [1, 100_000_000, 100_000_000]
    save_tensors(checkpoint, tensors, metadata | {"model": json.dumps(card)})
    with pytest.raises(CheckpointError, match=r"damaged metadata"):
        load_model(checkpoint)


@pytest.mark.parametrize("change", ["momentum", "random", "epoch"])
def test_a_doctored_state_is_refused(change: str, checkpoint: Path, tiny_settings: Make) -> None:
    state = checkpoint.parent / "state.safetensors"
    tensors, metadata = read_tensors(state)
    if change == "momentum":
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith("momentum.")}
    elif change == "random":
        tensors["random.cpu"] = torch.zeros(3)
    else:
        metadata["progress"] = json.dumps(json.loads(metadata["progress"]) | {"epoch": 10**9})
    save_tensors(state, tensors, metadata)
    with pytest.raises(CheckpointError, match="damaged"):
        train_model(tiny_settings("digits-mmc", "train.epochs=1"), checkpoint.parent, resume=True)


def test_a_run_of_a_version_without_some_settings_goes_on(checkpoint: Path, tiny_settings: Make) -> None:
    state = checkpoint.parent / "state.safetensors"
    tensors, metadata = read_tensors(state)
    progress = json.loads(metadata["progress"])
    settings = json.loads(progress["settings"])
    for section in ("cpu", "cuda"):
        del settings[section]
    save_tensors(state, tensors, metadata | {"progress": json.dumps(progress | {"settings": json.dumps(settings)})})
    (checkpoint.parent / "result.json").unlink()
    result = train_model(tiny_settings("digits-mmc", "train.epochs=1"), checkpoint.parent, resume=True)
    assert result["finished"]


def test_a_run_without_momentum_goes_on(tiny_settings: Make, tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc", "train.epochs=2", "train.momentum=0")

    class Stopping(Silent):
        def epoch(self, metrics: dict[str, int | float]) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_model(settings, tmp_path / "run", reporter=Stopping())
    assert train_model(settings, tmp_path / "run", resume=True)["finished"]


def test_a_run_that_shared_its_device_before_a_stop_says_so(tiny_settings: Make, tmp_path: Path) -> None:
    class Stopping(Silent):
        def epoch(self, metrics: dict[str, int | float]) -> None:
            raise KeyboardInterrupt

    settings = tiny_settings("digits-mmc", "train.epochs=2")
    with pytest.raises(KeyboardInterrupt):
        train_model(settings, tmp_path / "run", reporter=Stopping(), sharing=3)
    assert train_model(settings, tmp_path / "run", resume=True)["sharing"] == 3


def test_a_layer_that_is_never_used_has_a_momentum_of_zeros(tiny_settings: Make) -> None:
    model = nn.ModuleDict({"used": nn.Linear(2, 2), "unused": nn.Linear(2, 2)})
    settings = tiny_settings("digits-mmc").train
    trained, resumed = (build_optimiser(model, settings) for _ in range(2))
    model["used"](torch.ones(1, 2)).sum().backward()
    trained.step()
    restore_momentum(model, resumed, momentum_tensors(model, trained))
    buffers = {name: resumed.state[each]["momentum_buffer"] for name, each in model.named_parameters()}
    assert {name: bool(each.any()) for name, each in buffers.items()} == {
        "used.weight": True, "used.bias": True, "unused.weight": False, "unused.bias": False
    }  # fmt: skip


def test_a_failed_write_leaves_the_old_file_and_no_scraps(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text_atomically(path, "old")

    def run_out_of_space(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StorageError, match=r"Cannot write .*file\.txt: No space left on device"):
        write_atomically(path, run_out_of_space)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_told(tiny_settings: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="Cannot write"):
        train_model(tiny_settings("digits-mmc"), tmp_path / "file" / "run")


def test_a_file_is_synced_through_a_handle_that_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows syncs no other, and opens no folder."""
    synced: dict[Path, int] = {}

    def sync(descriptor: int) -> None:
        found = Path(f"/proc/self/fd/{descriptor}").resolve()
        synced[found] = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE

    monkeypatch.setattr(os, "fsync", sync)
    write_text_atomically(tmp_path / "file", "text")
    folder = synced.pop(tmp_path)
    assert (folder, list(synced.values())) == (os.O_RDONLY, [os.O_RDWR])


def test_files_respect_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_text_atomically(tmp_path / "file", "text")
    finally:
        os.umask(old)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
