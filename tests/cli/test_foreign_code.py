"""No file chooses what code runs: checkpoints, run folders, states and records in every command, and in Python."""

import ast
import shutil
from pathlib import Path

import pytest
from untrusted_files import NAME, PRESET, SET, SETTINGS, Place, command_functions, enter_place, forge_records, forge_run
from untrusted_files import make_files as make_honest_files

import maxmahal
from maxmahal import imports
from maxmahal.data import load_dataset
from maxmahal.density import compare_models
from maxmahal.errors import CheckpointError
from maxmahal.evaluate import fingerprints
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.evaluate.learned_tree import learn_tree
from maxmahal.reproduce import jobs
from maxmahal.reproduce.jobs import Job, Worker
from maxmahal.train import load_model
from maxmahal.uncertainty import study_models

pytestmark = pytest.mark.usefixtures("unchecked")
# What a stranger's run or checkpoint is given to. "{run}" is a folder, "{file}" its checkpoint.
LOADING = {
    "evaluate": ["evaluate", "{file}", "--suite", "small.toml", "--limit", "6", "--out", "out"],
    "density": ["density", "{file}", "--limit", "30"],
    "uncertainty": ["uncertainty", "{run}", "--limit", "6"],
    "tree": ["tree", "{run}", "--classes", "2", "--out", "tree.toml"],
}
# Without data.source: what is not said again comes from the state.
RESUMING = {"train": ["train", PRESET, "--resume", "--out", "{run}", *SET[2:]]}
# These look at the files and need no code that they name.
LOOKING = {
    "reproduce": ["reproduce", "grid.toml", "--out", "grid", "--dry-run", "--device", "cpu"],
    "demo": ["demo", "--out", "demo", "--epochs", "2"],
    "zoo": ["zoo"],
    "report": ["report", "eval", "--out", "page.html"],
    "records": ["records", "eval", "--broken"],
    "presets": ["presets", "--show", "{run}/settings.toml"],
}
TAKE_NO_SUCH_FILE = {
    "suites": "shows suites of the package only",
    "doctor": "reads no file but looks where data sets are",
    "data list": "looks where data sets are",
    "data check": "reads the data that the user names",
    "data fetch": "writes data sets of the registry",
}
FORGED = {"data": ("data", "source"), "network": ("model", "backbone")}
PYTHON = {
    "load": lambda path, **trusted: maxmahal.load(path, **trusted),
    "load_model": lambda path, **trusted: load_model(path, **trusted),
    "load_target": lambda path, **trusted: load_target(path, **trusted),
    "evaluate_model": lambda path, **t: maxmahal.evaluate_model(path, out="out", suite="small.toml", limit=6, **t),
    "compare_models": lambda path, **trusted: compare_models([path], limit=30, **trusted),
    "study_models": lambda path, **trusted: study_models([str(path)], limit=6, **trusted),
    "learn_tree": lambda path, **trusted: learn_tree(path, superclasses=2, **trusted),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    make_honest_files(folder)
    forge_records(folder / "eval")
    for kind, place in FORGED.items():
        shutil.copytree(folder / "run", folder / kind)
        forge_run(folder / kind, *place)
    for copy in ("grid/models/own", "demo/digits-sce"):
        shutil.copytree(folder / "data", folder / copy)
    (folder / "grid/models/own/settings.toml").write_text((folder / "run/settings.toml").read_text())
    shutil.copytree(folder / "eval", folder / "grid/records")
    return folder


@pytest.fixture
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return enter_place(files, tmp_path, monkeypatch)


def _words(template: list[str], kind: str) -> list[str]:
    return [word.format(run=kind, file=f"{kind}/last.safetensors") for word in template]


def test_every_command_is_tested_here_or_takes_no_such_file() -> None:
    assert set(command_functions()) == {*LOADING, *RESUMING, *LOOKING, *TAKE_NO_SUCH_FILE}


@pytest.mark.parametrize("decoy", [False, True], ids=["", "with a file of that name"])
@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("command", LOADING | RESUMING)
def test_what_a_file_names_is_not_run(run, here: Place, command: str, kind: str, decoy: bool) -> None:
    if decoy:
        Path(NAME).touch()
    done = run(*_words((LOADING | RESUMING)[command], kind))
    assert not here.executed
    assert not here.started
    done.assert_refused("a file may not choose what code to run", NAME)


@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("command", LOADING)
def test_what_the_user_names_is_run(run, here: Place, command: str, kind: str) -> None:
    done = run(*_words(LOADING[command], kind), "--trust", NAME)
    assert done.code == 0, done.err
    assert here.executed


@pytest.mark.parametrize("kind", FORGED)
def test_a_run_with_the_users_code_is_resumed_if_its_settings_are_given_again(run, here: Place, kind: str) -> None:
    done = run(*_words(RESUMING["train"], kind), "--set", f"{'.'.join(FORGED[kind])}={NAME}")
    assert here.executed
    if kind == "data":
        assert done.code == 0, done.err


@pytest.mark.parametrize("command", LOOKING)
def test_looking_at_a_file_runs_nothing(
    run, here: Place, files: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAXMAHAL_ZOO", str(files / "data"))
    for kind in FORGED:
        done = run(*_words(LOOKING[command], kind))
        assert not here.executed
        assert not here.started
        assert "Traceback" not in done.err


@pytest.mark.parametrize("kind", FORGED)
@pytest.mark.parametrize("function", PYTHON)
def test_what_a_file_names_is_not_run_from_python(here: Place, function: str, kind: str) -> None:
    loads_data = function not in ("load", "load_model", "load_target")
    if kind == "network" or loads_data:
        with pytest.raises(CheckpointError, match="may not choose what code to run"):
            PYTHON[function](kind)
    else:
        PYTHON[function](kind)
    assert not here.executed
    PYTHON[function](kind, trusted=[NAME])
    assert here.executed == (kind == "network" or loads_data)


def test_the_gate_is_closed_unless_the_user_named_the_code(here: Place) -> None:
    with pytest.raises(CheckpointError):
        imports.import_function(NAME)
    with (
        imports.only_named("another:name", ["x", {"key": 1}]),
        imports.only_named(NAME),
        pytest.raises(CheckpointError),
    ):
        imports.import_function(NAME)  # what is said inside another call adds nothing
    with imports.only_named("another:name"), pytest.raises(CheckpointError):
        load_dataset(NAME)
    assert not here.executed
    for given in (NAME, ["model=" + NAME], {"data": {"source": NAME}}, (None, [NAME])):
        with imports.only_named(given):
            assert callable(imports.import_function(NAME))
    assert len(load_dataset(NAME, "test")) == 60


def test_the_users_own_code_may_name_more_code(here: Place) -> None:
    with imports.only_named("mine:make"):
        assert len(imports.call_function("mine:make", lambda: load_dataset(NAME, "test"))) == 60
        with pytest.raises(CheckpointError):
            load_dataset(NAME)


def test_only_the_gate_imports_by_a_name_that_is_not_in_the_code() -> None:
    """The package finds its own modules by name in one other place; everything else would be a way around the gate."""
    package = Path(maxmahal.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or isinstance(next(iter(node.args), None), ast.Constant):
                continue
            if ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__"):
                found.add(path.relative_to(package).as_posix())
    assert found == {"imports.py", "__init__.py"}


def test_an_evaluation_starts_no_other_program(run, here: Place) -> None:
    done = run("evaluate", "run", "--suite", "small.toml", "--limit", "6", "--out", "out")
    assert done.code == 0, done.err
    assert not here.started


@pytest.mark.parametrize("where", ["loose", "packed", "detached", "worktree", "none", "nonsense"])
def test_the_commit_is_read_without_git(tmp_path: Path, where: str) -> None:
    commit, git = "0123456789abcdef0123456789abcdef01234567", tmp_path / ".git"
    if where == "worktree":
        main = tmp_path / "main" / ".git"
        (main / "worktrees/w").mkdir(parents=True)
        git.write_text("gitdir: main/.git/worktrees/w\n")
        (main / "worktrees/w/HEAD").write_text("ref: refs/heads/side\n")
        (main / "worktrees/w/commondir").write_text("../..\n")
        (main / "packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/side\n")
    elif where != "none":
        (git / "refs/heads").mkdir(parents=True)
        (git / "HEAD").write_text({"detached": f"{commit}\n", "nonsense": "<b>"}.get(where, "ref: refs/heads/main\n"))
        if where == "loose":
            (git / "refs/heads/main").write_text(f"{commit}\n")
        (git / "packed-refs").write_text(f"{'f' * 40} refs/heads/other\n{commit} refs/heads/main\n")
    assert fingerprints.commit_of(tmp_path) == ("" if where in ("none", "nonsense") else commit[:12])


def test_a_worker_imports_nothing_from_the_current_folder(here: Place) -> None:
    (here.path / "safetensors.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    job = Job("evaluate", {"targets": {"x": "missing"}, "data": "digits", "out": "out", "suite": "quick"})
    worker = Worker("x", job, here.path / "logs", jobs.Place(jobs.LocalProcess, jobs=1, threads=1))
    try:
        assert worker.wait(60.0) == 2
    finally:
        worker.stop()
    assert "There is no run folder" in worker.last_line()
    assert not here.executed


PICTURES = {
    "train": ["train", PRESET, "--out", "new", *SET, "--set", "data.source=pictures"],
    "evaluate": ["evaluate", "run", "--suite", "small.toml", "--out", "out", "--data", "pictures"],
    "density": ["density", "run", "--data", "pictures"],
    "uncertainty": ["uncertainty", "run", "--data", "pictures"],
    "uncertainty --ood": ["uncertainty", "run", "--limit", "6", "--ood", "pictures"],
    "tree": ["tree", "run", "--classes", "2", "--out", "tree.toml", "--data", "pictures"],
    "data check": ["data", "check", "pictures"],
}
EPS = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"


@pytest.mark.parametrize("command", PICTURES)
def test_a_picture_that_is_a_program_is_not_run(run, here: Place, command: str) -> None:
    for part in ("train", "test"):
        folder = here.path / "pictures" / part / "a"
        folder.mkdir(parents=True)
        (folder / "0.png").write_text(EPS)
    done = run(*PICTURES[command])
    assert not here.started
    assert done.code == 2
    assert "0.png is damaged (it is not a PNG or JPEG image" in done.out + done.err


def test_settings_of_these_tests_are_those_of_the_preset() -> None:
    """Otherwise --resume would go on without reading the settings of the state, and test nothing."""
    assert maxmahal.load_settings(PRESET, SETTINGS).about == maxmahal.load_settings(PRESET).about != ""
