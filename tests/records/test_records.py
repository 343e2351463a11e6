"""Records: one a sample and attack; interrupted anywhere, the same call ends with the same; damage is told."""

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_evaluations_helpers import classifier, curved, everything, identity, labelled_by, rows, small_suite, stage
from torch import Tensor

from maxmahal.errors import MaxmahalError
from maxmahal.evaluate import RecordsError, evaluate_model, evaluation, give_verdict, read_evaluations
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.files import StorageError
from maxmahal.records import schema, store
from maxmahal.records.schema import FILE, FORMAT
from processes import Ended, run

pytestmark = pytest.mark.usefixtures("unchecked")
MODEL = classifier()
DATA = labelled_by(MODEL)
TABLES = ("stages", "pictures", "points", "findings")


def evaluate(out: Path, **changes: Any) -> Any:
    return evaluate_model(MODEL, out=out, suite=small_suite(**changes), data=DATA)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished evaluation, for reading only."""
    folder = tmp_path_factory.mktemp("whole")
    evaluate(folder)
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


def same_outcome(left: Path, right: Path) -> None:
    (first,), (second,) = read_evaluations(left), read_evaluations(right)
    assert identity(first) == identity(second)
    mine, theirs = everything(left), everything(right)
    assert all(mine[table] == theirs[table] for table in TABLES)
    assert first.finished
    assert second.finished


def test_there_is_one_record_for_each_sample_of_each_stage(whole: Path) -> None:
    (evaluation,) = read_evaluations(whole)
    keys = rows(whole, "records", "evaluation, stage, sample")
    assert len(keys) == len(set(keys)) == sum(each.planned for each in evaluation.stages)
    for each in evaluation.stages:
        assert each.finished
        assert len(each.columns) == each.planned
        columns = each.columns
        assert columns.sample.tolist() == sorted(columns.sample.tolist())
        assert (columns.label == DATA.labels.numpy()[columns.sample]).all()
        assert (columns.broken == (columns.right_share < 0.5)).all()
        assert (columns.right_before == (columns.clean_prediction == columns.label)).all()
        if each.name != "carlini":
            assert (columns.broken == (columns.prediction != columns.label)).all()
    sizes = {each.name: each.planned for each in evaluation.stages}
    assert sizes["clean"] == sizes["mim"] == 24
    assert sizes["apgd"] == 21
    assert 0 < sizes["pgd"] < 21
    assert sizes["fmn"] == 9


def test_costs_add_up_to_the_ratings(whole: Path) -> None:
    for each in read_evaluations(whole)[0].stages:
        for cost in ("forward", "backward", "queries"):
            assert getattr(each.columns, cost).sum() == getattr(each.rating, cost), (each.name, cost)
        assert each.rating.seconds > 0


def test_distortions_stay_in_the_ball_and_belong_to_broken_samples(whole: Path) -> None:
    (evaluation,) = read_evaluations(whole)
    for name in ("apgd", "mim", "fgsm"):
        columns = evaluation.stage(name).columns
        assert (np.isfinite(columns.distortion) == columns.broken).all()
        assert np.nanmax(columns.distortion) <= (0.02 if name == "fgsm" else 0.08) + 1e-6


class Stop(Exception):  # noqa: N818
    pass


def test_interrupted_in_every_chunk_in_turn(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call records one chunk and dies in the next, its work done but not yet written."""
    inner, started = evaluation.run_stage, [0]

    def run_stage(*arguments: Any) -> Any:
        done = inner(*arguments)
        started[0] += 1
        if started[0] % 2 == 0:
            raise Stop
        return done

    monkeypatch.setattr(evaluation, "run_stage", run_stage)
    stops = 0
    for _ in range(100):
        started[0] = 0
        try:
            evaluate(tmp_path)
            break
        except Stop:
            stops += 1
            (so_far,) = read_evaluations(tmp_path)
            assert not so_far.finished
            assert give_verdict(so_far).trust == "unfinished"
            assert sum(forward > 0 for *_, forward in rows(tmp_path, "chunks", "stage, number, forward")) == stops
    assert stops >= 30
    same_outcome(tmp_path, whole)


def test_interrupted_in_the_middle_of_an_attack(whole: Path, tmp_path: Path) -> None:
    class Dying(SilentReporter):
        def __init__(self, patience: int) -> None:
            self.left = patience

        def within(self, settled: int, total: int) -> None:
            self.left -= 1
            if not self.left:
                raise Stop

    for patience in (1, 3, 10, 15):
        with pytest.raises(Stop):
            evaluate_model(MODEL, out=tmp_path, suite=small_suite(), data=DATA, reporter=Dying(patience))
    evaluate(tmp_path)
    same_outcome(tmp_path, whole)


def test_a_chunk_is_recorded_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = store._rows_of

    def half(*arguments: Any) -> Iterator[Any]:
        for place, row in enumerate(inner(*arguments)):
            if place == 3:
                raise Stop
            yield row

    monkeypatch.setattr(store, "_rows_of", half)
    with pytest.raises(Stop):
        evaluate(tmp_path)
    assert not rows(tmp_path, "chunks")
    assert not rows(tmp_path, "records")


def test_an_evaluation_that_only_began_can_be_read_and_goes_on(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(evaluation.EvaluationRun, "run", stop)
        with pytest.raises(Stop):
            evaluate(tmp_path)
    (begun,) = read_evaluations(tmp_path)
    with pytest.raises(MaxmahalError, match="no finished chunk"):
        give_verdict(begun)
    evaluate(tmp_path)
    same_outcome(tmp_path, whole)


def test_a_finished_evaluation_is_not_computed_again(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, looks = everything(copy), []

    def count(_module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
        looks.append(len(inputs[0]))

    hook = MODEL.backbone.register_forward_pre_hook(count)
    monkeypatch.setattr(evaluation, "run_stage", None)
    try:
        again = evaluate(copy)
    finally:
        hook.remove()
    # Whether it takes the images (once all 24, and 4 alone), is stochastic (twice all 24), answers with logits and is
    # mostly right (all 24), and passes gradients (1).
    assert sum(looks) == 24 + 4 + 2 * 24 + 24 + 1
    assert again.finished
    assert everything(copy) == before


def test_nothing_in_the_python_model_is_left_changed(tmp_path: Path) -> None:
    model = curved()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.random.get_rng_state()
    evaluate_model(model, out=tmp_path, suite=small_suite(stage("pgd", "pgd", steps=2)), data=labelled_by(model))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(value.grad is None and value.requires_grad for value in model.parameters())
    assert not model.training
    assert torch.equal(torch.random.get_rng_state(), state)


def refusals(folder: Path) -> list[str]:
    """What reading and what going on say about a folder."""
    said = []
    for call in (lambda: read_evaluations(folder), lambda: evaluate(folder)):
        with pytest.raises(RecordsError) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert str(folder / FILE) in str(caught.value)
        said.append(str(caught.value))
    return said


def test_records_of_another_format_version(copy: Path) -> None:
    connection = sqlite3.connect(copy / FILE)
    connection.execute("UPDATE about SET value = 'maxmahal-records-0' WHERE key = 'format'")
    connection.commit()
    connection.close()
    before = everything(copy)
    for text in refusals(copy):
        assert "'maxmahal-records-0'" in text
        assert FORMAT in text
    assert everything(copy) == before


def test_a_file_of_garbage(tmp_path: Path) -> None:
    garbage = np.random.default_rng(0).bytes(20_000)
    (tmp_path / FILE).write_bytes(garbage)
    for text in refusals(tmp_path):
        assert "not a file of records" in text
    assert (tmp_path / FILE).read_bytes() == garbage


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_file(copy: Path, share: float) -> None:
    path = copy / FILE
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RecordsError, match=r"damaged|not a file of records") as caught:
        read_evaluations(copy)
    assert "\n" not in str(caught.value)
    with pytest.raises(RecordsError):
        evaluate(copy)


def test_an_empty_file_holds_nothing_and_can_be_filled(tmp_path: Path, whole: Path) -> None:
    (tmp_path / FILE).touch()
    with pytest.raises(RecordsError, match="is empty"):
        read_evaluations(tmp_path)
    evaluate(tmp_path)
    same_outcome(tmp_path, whole)


def test_tables_are_made_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path) -> None:
    """Stopped while making them, a process must not leave a file that nobody can use."""
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_TABLES", schema._TABLES + "NONSENSE;")
        with pytest.raises(RecordsError):
            evaluate(tmp_path)
    evaluate(tmp_path)
    same_outcome(tmp_path, whole)


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("CREATE TABLE addresses (name TEXT)")
    connection.close()
    for text in refusals(tmp_path):
        assert "not a file of records" in text
    connection = sqlite3.connect(tmp_path / FILE)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("addresses",)]
    connection.close()


def test_no_records_at_all(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="There are no records in"):
        read_evaluations(tmp_path)


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="Cannot write") as caught:
            evaluate(out)
        assert "\n" not in str(caught.value)
    assert (tmp_path / "file").read_text() == "mine"


def python(code: str, *arguments: object) -> Ended:
    """Run ``code`` with the helpers importable, as somebody without special rights where it says so."""
    lines = ["import os, resource, sys", f"sys.path.insert(0, {str(Path(__file__).parent)!r})", code]
    return run("\n".join(lines), *arguments)


EVALUATE = """
import encodings.cp437  # what is imported late cannot be found once rights are given up
import torch
torch.set_num_threads(1)
from small_evaluations_helpers import classifier, labelled_by, small_suite
from maxmahal.errors import MaxmahalError
from maxmahal.evaluate import evaluate_model, read_evaluations
if os.getuid() == 0 and {plain}:
    os.setuid(65534)
if {limit}:
    resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
model = classifier()
try:
    {call}
except MaxmahalError as error:
    print(type(error).__name__, error)
"""
CALL = "print(evaluate_model(model, out=sys.argv[1], suite=small_suite(), data=labelled_by(model)).finished)"


def test_a_full_disk_costs_one_chunk_and_the_same_call_goes_on(whole: Path, tmp_path: Path) -> None:
    said = python(EVALUATE.format(plain=False, limit=250_000, call=CALL), tmp_path)
    assert said.stdout.startswith("StorageError Cannot write"), said
    assert said.stdout.count("\n") == 1
    assert not said.stderr
    (so_far,) = read_evaluations(tmp_path)
    chunks = len(rows(tmp_path, "chunks"))
    assert 0 < chunks < len(rows(whole, "chunks"))
    assert sum(len(each.columns) for each in so_far.stages) >= 4 * chunks
    evaluate(tmp_path)
    same_outcome(tmp_path, whole)


def test_a_read_only_folder_can_be_read_but_not_written(whole: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "empty").mkdir()
        shutil.copytree(whole, folder / "full")
        for path in (*folder.rglob("*"), folder):
            path.chmod(0o555 if path.is_dir() else 0o444)
        try:
            for out in ("empty", "full"):
                said = python(EVALUATE.format(plain=True, limit=0, call=CALL), folder / out)
                assert said.stdout.startswith("StorageError Cannot write"), said
                assert said.stdout.count("\n") == 1
            call = "print([each.finished for each in read_evaluations(sys.argv[1])])"
            said = python(EVALUATE.format(plain=True, limit=0, call=call), folder / "full")
            assert said.stdout == "[True]\n", said
            call = (
                "import tempfile; from maxmahal.records import merge_records; own = tempfile.TemporaryDirectory(); "
                "print(merge_records(own.name, [sys.argv[1]])[0][-9:]); own.cleanup()"
            )
            said = python(EVALUATE.format(plain=True, limit=0, call=call), folder / "full")
            assert said.stdout == "complete.\n", said
            assert not list((folder / "empty").iterdir())
        finally:
            for path in (folder, *folder.rglob("*")):
                os.chmod(path, 0o755)  # noqa: PTH101


@pytest.mark.parametrize(
    ("suite", "about", "comparison"),
    [
        ("paper-figure4", "images of one model, shown to the others", True),
        ("spsa-sizes", "three batches, for comparison", True),
        ("paper-table1", "PGD; not a measure of robustness", True),
        ("strict", "our best effort", False),
    ],
)
def test_older_records_of_the_papers_protocol_are_known(copy: Path, suite: str, about: str, comparison: bool) -> None:
    with contextlib.closing(sqlite3.connect(copy / FILE)) as connection, connection:
        connection.execute(
            "UPDATE evaluations SET suite = ?, "
            "body = json_remove(json_set(body, '$.same.suite.about', ?), '$.comparison')",
            (suite, about),
        )
    (older,) = read_evaluations(copy)
    assert (older.suite, older.suite_about, older.comparison) == (suite, about, comparison)


def test_an_evaluation_that_went_on_elsewhere_names_both_devices(copy: Path) -> None:
    assert read_evaluations(copy)[0].environment["device"] == "cpu"
    with contextlib.closing(sqlite3.connect(copy / FILE)) as connection, connection:
        connection.execute("UPDATE evaluations SET body = json_set(body, '$.environment.device', 'NVIDIA H200')")
        connection.execute("UPDATE chunks SET device = 'NVIDIA H200' WHERE stage = 0")
    assert read_evaluations(copy)[0].environment["device"] == "NVIDIA H200 and cpu"


def narrow(folder: Path) -> None:
    """As earlier versions made their files: with room for one ball."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as connection:
        connection.executescript(
            "DROP INDEX identities; ALTER TABLE evaluations RENAME TO wide;"
            "CREATE TABLE evaluations (id INTEGER PRIMARY KEY, name TEXT NOT NULL, data TEXT NOT NULL, "
            "suite TEXT NOT NULL, seed INTEGER NOT NULL, samples INTEGER NOT NULL, body TEXT NOT NULL, "
            "finished INTEGER NOT NULL DEFAULT 0, plane BLOB, UNIQUE (name, data, suite, seed, samples));"
            "INSERT INTO evaluations SELECT * FROM wide; DROP TABLE wide;"
        )


def test_a_file_with_room_for_one_ball_takes_more_and_keeps_what_it_holds(copy: Path) -> None:
    narrow(copy)
    before = everything(copy)
    (older,) = read_evaluations(copy)
    assert everything(copy) == before
    quick = {"stages": (stage("pgd", "pgd", steps=2),)}
    other = evaluate(copy, epsilon="0.02", **quick)
    assert (other.finished, other.radius) == (True, 0.02)
    after = everything(copy)
    assert len(after["evaluations"]) == 2
    assert all(set(before[table]) <= set(after[table]) for table in before)
    again = evaluate(copy)
    assert identity(again) == identity(older)
    assert everything(copy) == after, "nothing of it is computed again"


@pytest.mark.parametrize("step", ["_EVALUATIONS", "_IDENTITIES"])
def test_a_file_that_could_not_be_widened_is_as_it_was(copy: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    narrow(copy)
    before, tables = everything(copy), rows(copy, "sqlite_master", "name, sql, type")
    monkeypatch.setattr(schema, step, "NONSENSE")
    with pytest.raises(RecordsError):
        evaluate(copy)
    assert everything(copy) == before
    assert rows(copy, "sqlite_master", "name, sql, type") == tables


def test_the_file_itself_refuses_two_evaluations_of_the_same(copy: Path) -> None:
    columns = "name, data, suite, seed, samples, body"
    with contextlib.closing(sqlite3.connect(copy / FILE)) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"INSERT INTO evaluations ({columns}) SELECT {columns} FROM evaluations")
