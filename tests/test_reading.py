"""The readers of files that anybody may have written: each refuses at once, and no other code reads them."""

import ast
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmahal.centers.trees import ClassTree, load_tree, write_tree
from maxmahal.data import load_dataset
from maxmahal.errors import MaxmahalError, SettingsError
from maxmahal.files import parse_json, parse_toml, portable_path, read_bytes, read_text, recorded_path, user_path
from maxmahal.records.schema import FILE, open_copy, open_for_writing
from maxmahal.reproduce.grid import MOST_SEEDS, load_grid
from maxmahal.settings import fold_overrides, read_toml, to_toml
from maxmahal.train import load_model, load_settings

SOURCE = Path(__file__).resolve().parent.parent / "src" / "maxmahal"
READERS = {("json", "load"), ("json", "loads"), ("tomllib", "load"), ("tomllib", "loads"), ("np", "load")}


def test_nothing_reads_json_toml_or_arrays_but_the_one_reader() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = (node.value.id, node.attr)
                assert used not in READERS or path == SOURCE / "files.py", f"{path}:{node.lineno} calls {used}"
        assert "expanduser" not in text or path == SOURCE / "files.py", f"{path}: use user_path"


@pytest.mark.parametrize(
    "text",
    [
        *("[" * 100_000, "[" * 60 + "]" * 60, '{"a":' * 5000, "1" * 5000, "9223372036854775808"),
        *("NaN", "-Infinity", "1e999", '"\\ud800"', '{"a": "\\uDC00"}', "", "{", " " * (17 << 20)),
    ],
    ids=lambda text: text[:12],
)
def test_json_beyond_the_limits_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(text)


@pytest.mark.parametrize("read", [read_bytes, open_copy], ids=["bytes", "records"])
def test_a_small_file_takes_little_memory(read: Callable[[Path], object], tmp_path: Path) -> None:
    open_for_writing(tmp_path, wal=False).close()
    tracemalloc.start()
    try:
        read(tmp_path / FILE)
        assert tracemalloc.get_traced_memory()[1] < 9 << 20
    finally:
        tracemalloc.stop()


def test_json_within_the_limits_is_read() -> None:
    assert parse_json('{"a": [1, -2.5, null, true], "b": "\\ud83d\\ude00", "c": 9223372036854775807}') == {
        "a": [1, -2.5, None, True],
        "b": "\N{GRINNING FACE}",
        "c": 2**63 - 1,
    }
    assert parse_json("[" * 40 + "]" * 40)
    assert parse_json("Infinity", finite=False) == float("inf")


@pytest.mark.parametrize(
    "text",
    [
        *("a = " + "[" * 100_000, "a = " + "{a=" * 5000, "a = 1" + "0" * 5000, "a = 0x" + "f" * 400),
        *("a." * 20_000 + "a = 1", "[" + "'a' . " * 60 + "b]", "a = '" + "x" * (2 << 20) + "'", "a = \x1b"),
    ],
    ids=lambda text: text[:12],
)
def test_toml_beyond_the_limits_is_a_sentence(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_toml(text)
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"a\.toml is not valid TOML"):
        read_toml(tmp_path / "a.toml")


def test_a_key_of_thousands_of_parts_is_refused() -> None:
    with pytest.raises(SettingsError, match="is not KEY=VALUE"):
        fold_overrides(["a." * 5000 + "a=1"])


@pytest.mark.parametrize("name", ["pipe.toml", "pipe.npz", "pipe.safetensors"])
def test_a_pipe_a_device_and_a_folder_are_refused_at_once(name: str, tmp_path: Path) -> None:
    read = {"toml": load_settings, "npz": load_dataset, "safetensors": load_model}[name.rpartition(".")[2]]
    for made in (os.mkfifo, lambda path: path.symlink_to("/dev/zero"), os.mkdir):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}{name}"
        made(path)
        with pytest.raises(MaxmahalError):
            read(str(path))


SYSTEM_WITHOUT_POSIX = """
import multiprocessing.synchronize, os, sys, tempfile
import numpy, torch, typer  # what they import is theirs
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("O_NONBLOCK", "fork", "killpg", "getuid", "sched_getaffinity"):
    delattr(os, name)
import maxmahal.cli.app, maxmahal.evaluate, maxmahal.report, maxmahal.reproduce, maxmahal.train
from pathlib import Path
print(maxmahal.files.read_text(Path(sys.argv[1])))
"""


def test_a_system_without_posix_imports_the_library_and_reads_files(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("read")
    words = [sys.executable, "-c", SYSTEM_WITHOUT_POSIX, str(tmp_path / "text")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == "read\n", done.stderr


@pytest.mark.parametrize("path", ["~nobody-here/x.npz", "a\0b.npz", "a\udcff.npz"])
def test_a_text_that_is_no_path_is_refused(path: str) -> None:
    for read in (user_path, load_dataset, load_model):
        with pytest.raises(MaxmahalError):
            read(path)
    with pytest.raises(OSError, match="null byte"):
        read_text(Path("a\0b"))


def test_paths_do_not_tell_who_the_user_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    assert portable_path("/home/alice/data/x.npz") == "~/data/x.npz"
    assert user_path(portable_path("/home/alice/data/x.npz")) == Path("/home/alice/data/x.npz")
    assert portable_path("/home/alicia/x.npz") == "/home/alicia/x.npz"
    assert recorded_path("/home/alice/x.npz") == "~/x.npz"
    assert recorded_path("/scratch/alice/x.npz") == "x.npz"
    assert recorded_path("runs/a") == "runs/a"
    assert recorded_path("digits") == "digits"


def test_a_grid_of_billions_of_seeds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text("[[model]]\nname = 'digits-mmc'\nseeds = 2000000000\n")
    with pytest.raises(SettingsError, match=rf"must lie in 0\.\.{MOST_SEEDS}; got 2000000000"):
        load_grid(path)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_toml_is_written_as_its_own_reader_accepts_it(text: str) -> None:
    table = {"a": text, "b": [text], "c": {text or "d": 1.5, "e": -1e300}}
    assert parse_toml(to_toml(table)) == table


def test_a_tree_of_odd_class_names_is_read_again(tmp_path: Path) -> None:
    tree = ClassTree((0, 0, 1), ("a\x7f", "\x1b[31m", '"\\'), "odd\nnames")
    write_tree(tmp_path / "tree.toml", tree)
    assert load_tree(str(tmp_path / "tree.toml")) == tree


def test_a_message_is_short_and_printable() -> None:
    error = SettingsError(f"'\x1b[31mred\n\u202e\udc80 {'x' * 1000}' is wrong; change it.")
    assert str(error).startswith("'\\x1b[31mred \\u202e\\udc80 xxx")
    assert str(error).endswith("xxx' is wrong; change it.")
    assert len(str(error)) <= 300
    assert str(error).encode(sys.getdefaultencoding())
