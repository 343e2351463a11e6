"""No command writes anywhere else than asked: devices and pipes, links, and names that lead out of a folder."""

import os
import stat
from pathlib import Path

import pytest
from untrusted_files import PRESET, SET, SUITE, Place, command_functions, enter_place, make_files, paths_of

from maxmahal.errors import MaxmahalError
from maxmahal.evaluate import Suite
from maxmahal.evaluate.suite import stage_from_table
from maxmahal.files import StorageError, write_text_atomically
from maxmahal.train import RunFolder

pytestmark = pytest.mark.usefixtures("unchecked")
EVALUATE = ["evaluate", "run", "--suite", "small.toml", "--limit", "6"]
# Every option that names a file to write, with the command that writes it, "{out}" being the file.
FILES = {
    ("report", "out"): (["report", "eval", "--out", "{out}"], ".md"),
    ("records", "export"): (["records", "eval", "--export", "{out}"], ".csv"),
    ("density", "out"): (["density", "run", "--limit", "30", "--out", "{out}"], ".json"),
    ("uncertainty", "out"): (["uncertainty", "run", "--limit", "6", "--out", "{out}"], ".json"),
    ("tree", "out"): (["tree", "run", "--classes", "2", "--out", "{out}"], ".toml"),
}
# And every option that names a folder.
FOLDERS = {
    ("train", "out"): ["train", PRESET, *SET, "--out", "{out}"],
    ("evaluate", "out"): [*EVALUATE, "--out", "{out}"],
    ("reproduce", "out"): ["reproduce", "grid.toml", "--device", "cpu", "--out", "{out}"],
    ("demo", "out"): ["demo", "--epochs", "1", "--limit", "5", "--out", "{out}"],
}
OTHER_PATHS = {
    ("train", "tensorboard"): "TensorBoard makes a file with a name of its own in that folder",
    ("evaluate", "tensorboard"): "TensorBoard makes a file with a name of its own in that folder",
    ("report", "folders"): "is only read",
    ("records", "folders"): "is only read, but by merge, which writes in the first",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    make_files(folder)
    return folder


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return enter_place(files, tmp_path / "inside", monkeypatch)


def test_every_path_of_every_command_is_tested_here_or_only_read() -> None:
    found = {(name, path) for name, command in command_functions().items() for path in paths_of(command)}
    found = {(name, path) for name, path in found if path != "data_dir"}
    assert found == {*FILES, *FOLDERS, *OTHER_PATHS}


@pytest.mark.parametrize("option", FILES, ids=lambda option: " --".join(option))
def test_a_link_stays_a_link_and_its_file_is_written(run, here: Place, option: tuple[str, str]) -> None:
    words, ending = FILES[option]
    (here.path / "elsewhere").mkdir()
    target, link = here.path / "elsewhere" / f"file{ending}", here.path / f"link{ending}"
    target.write_text("old")
    link.symlink_to(target)
    done = run(*(word.format(out=link) for word in words))
    assert done.code == 0, done.err
    assert link.is_symlink()
    assert target.read_text() != "old"
    assert [each.name for each in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("kind", ["pipe", "link to a device"])
@pytest.mark.parametrize("option", FILES | FOLDERS, ids=lambda option: " --".join(option))
def test_what_is_not_a_file_is_not_replaced(run, here: Place, option: tuple[str, str], kind: str) -> None:
    words, ending = FILES[option] if option in FILES else (FOLDERS[option], "")
    out = here.path / f"out{ending}"
    if kind == "pipe":
        os.mkfifo(out)
    else:
        out.symlink_to("/dev/null")
    before = os.lstat(out)
    done = run(*(word.format(out=out) for word in words))
    assert os.lstat(out).st_ino == before.st_ino
    assert stat.S_IFMT(os.lstat(out).st_mode) == stat.S_IFMT(before.st_mode)
    assert Path("/dev/null").is_char_device()
    done.assert_refused(str(out))


RUN_FILES = (".lock", "settings.toml", "metrics.jsonl", "state.safetensors", "last.safetensors", "best.safetensors",
             "result.json", "diverged.json")  # fmt: skip


@pytest.mark.parametrize("name", RUN_FILES)
def test_a_link_in_a_run_folder_leads_nowhere(run, here: Place, name: str) -> None:
    file, victim = here.path / "run" / name, here.path / "victim"
    victim.write_bytes(file.read_bytes() if file.exists() else b"precious")
    content = victim.read_bytes()
    file.unlink(missing_ok=True)
    file.symlink_to(victim)
    done = run("train", PRESET, *SET, "--resume", "--out", "run")
    assert victim.read_bytes() == content
    assert file.is_symlink()
    done.assert_refused(f"run/{name}", "a link leads out of run")


def test_the_lock_keeps_what_is_in_it(here: Place) -> None:
    lock = here.path / "run" / ".lock"
    lock.write_text("notes")
    with RunFolder(here.path / "run").lock():
        pass
    assert lock.read_text() == "notes"


@pytest.mark.parametrize("name", ["records.sqlite", "records.sqlite-wal", "images"])
def test_a_link_in_a_folder_of_records_leads_nowhere(run, here: Place, name: str) -> None:
    out, outside = here.path / "out", here.path / "outside"
    out.mkdir()
    if name == "images":
        outside.mkdir()
    (out / name).symlink_to(outside)
    done = run(*EVALUATE, "--out", "out", "--epsilon", "0.4", "--save-images")
    assert not outside.exists() or not [*outside.iterdir()]
    done.assert_refused("a link leads out of out")


@pytest.mark.parametrize("name", ["../../x", "..", "a/b", "/x", ""])
def test_the_name_of_a_suite_leads_nowhere(run, here: Place, name: str) -> None:
    before = sorted(here.path.parent.iterdir())
    (here.path / "small.toml").write_text(f'name = "{name}"\n{SUITE}')
    done = run(*EVALUATE, "--out", "out", "--epsilon", "0.4", "--save-images")
    assert sorted(here.path.parent.iterdir()) == before
    assert not (here.path / "x").exists()
    done.assert_refused(f"'{name}' cannot name a suite")
    with pytest.raises(MaxmahalError, match="cannot name a suite"):
        Suite(name, 1, "", (stage_from_table({"name": "pgd", "attack": "pgd"}),))


def test_saved_images_are_in_the_folder_of_records(run, here: Place) -> None:
    done = run(*EVALUATE, "--out", "out", "--epsilon", "0.4", "--save-images")
    assert done.code == 0, done.err
    assert [*(here.path / "out/images/run").rglob("sample-*.png")]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="it is a folder, not a plain file"):
        write_text_atomically(tmp_path / "folder", "text")
