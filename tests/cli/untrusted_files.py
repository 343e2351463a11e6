"""Files that came from somebody else, and every command that takes some: for the tests of what such files can do."""

import json
import os
import shutil
import sqlite3
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

from maxmahal.cli.app import app
from maxmahal.evaluate import evaluate_model
from maxmahal.records.schema import FILE
from maxmahal.settings import to_table, to_toml
from maxmahal.train import load_settings, train_model
from maxmahal.train.checkpoint import read_tensors

NAME = "evilmod:make"
PRESET = "digits-mmc"
SETTINGS = ("data.source=stripes.npz", "train.epochs=2", "train.batch_size=24", "model.feature_dim=8")
SET = [word for setting in SETTINGS for word in ("--set", setting)]
SUITE = "version = 1\nabout = 'small'\n[[stage]]\nname = 'pgd'\nattack = 'pgd'\nsteps = 2\n"
GRID = f"""
[[model]]
name = 'own'
preset = '{PRESET}'
set = {json.dumps(SETTINGS)}
[[evaluation]]
suite = 'small.toml'
limit = 6
"""
# Serves as data and as a network, so that it would work wherever it is called.
MODULE = """
from pathlib import Path
Path("executed").touch()
def make(first, *rest):
    if isinstance(first, str):
        import numpy
        arrays, prefix = numpy.load("stripes.npz"), "" if first == "train" else "test_"
        return arrays[prefix + "images"], arrays[prefix + "labels"]
    from maxmahal.models import BACKBONES
    return BACKBONES["cnn"](first, *rest)
"""
PROGRAMS = ("git", "gs")


def command_functions() -> dict[str, Callable[..., object]]:
    """Every command by what a user types, such as "data check"."""
    found = {str(command.name): command.callback for command in app.registered_commands}
    for group in app.registered_groups:
        inner = group.typer_instance.registered_commands
        found |= {f"{group.name} {command.name}": command.callback for command in inner}
    return found  # type: ignore[return-value]


def paths_of(command: Callable[..., object]) -> set[str]:
    """The parameters of a command that are paths."""
    hints = typing.get_type_hints(command)
    return {name for name, hint in hints.items() if hint is Path or Path in typing.get_args(hint)}


def make_files(folder: Path) -> None:
    """A run, its records and TOML files of the user's own, all of them honest."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        rng = np.random.default_rng(0)
        labels = np.arange(60) % 3
        images = rng.integers(0, 60, (60, 8, 8), dtype=np.uint8)
        images[np.arange(60), :, 2 * labels] += 180
        labels[::7] = (labels[::7] + 1) % 3  # mistakes, which a tree of classes needs
        np.savez("stripes.npz", images=images, labels=labels, test_images=images, test_labels=labels)
        Path("small.toml").write_text(SUITE)
        Path("grid.toml").write_text(GRID)
        train_model(load_settings(PRESET, SETTINGS), "run")
        evaluate_model("run", out="eval", suite="small.toml", limit=6)
    finally:
        os.chdir(before)


def forge_run(run: Path, section: str, key: str) -> None:
    """Let every file of a run name the stranger's function as its data or its network; none has a fingerprint."""
    for file, entry in (("last.safetensors", "model"), ("state.safetensors", "progress")):
        tensors, metadata = read_tensors(run / file)
        content = json.loads(metadata[entry])
        settings = content["settings"] if entry == "model" else json.loads(content["settings"])
        settings[section][key] = NAME
        content["settings"] = settings if entry == "model" else json.dumps(settings)
        said = {"format": metadata["format"], entry: json.dumps(content)}
        safetensors.torch.save_file(tensors, run / file, said)
    settings = to_table(load_settings(run / "settings.toml", [f"{section}.{key}={NAME}"]))
    (run / "settings.toml").write_text(to_toml(settings))


def forge_records(folder: Path) -> None:
    """Let records name the stranger's function wherever they name code."""
    connection = sqlite3.connect(folder / FILE)
    places = ("$.target", "$.model.backbone", "$.model.settings.data.source", "$.model.settings.model.backbone")
    for place in places:
        connection.execute("UPDATE evaluations SET body = json_set(body, ?, ?)", (place, NAME))
    connection.commit()
    connection.close()


@dataclass(frozen=True)
class Place:
    """A folder to work in, and what must not have happened there."""

    path: Path

    @property
    def executed(self) -> bool:
        """Whether the stranger's module was imported."""
        return (self.path / "executed").exists() or "evilmod" in sys.modules

    @property
    def started(self) -> list[str]:
        """Other programs that were started."""
        return [name for name in PROGRAMS if (self.path / f"started-{name}").exists()]


def enter_place(files: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the files, with the stranger's module and programs that tell when they are started."""
    shutil.copytree(files, path, dirs_exist_ok=True)
    (path / "evilmod.py").write_text(MODULE)
    (path / "bin").mkdir()
    for name in PROGRAMS:
        program = path / "bin" / name
        program.write_text(f"#!/bin/sh\ntouch '{path}/started-{name}'\n")
        program.chmod(0o755)
    monkeypatch.chdir(path)
    monkeypatch.setenv("PATH", f"{path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delitem(sys.modules, "evilmod", raising=False)
    return Place(path)
