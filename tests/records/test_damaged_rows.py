"""Rows of records are checked as they are read: a value, a body, a view or a trigger of a stranger is a sentence."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from small_evaluations_helpers import classifier, labelled_by, small_suite

from commands import Outcome, runner
from maxmahal.evaluate import RecordsError, evaluate_model, read_evaluations
from maxmahal.records.schema import FILE

pytestmark = pytest.mark.usefixtures("unchecked")
MODEL = classifier()
DATA = labelled_by(MODEL)
NEVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
DAMAGE = [
    *(f"UPDATE {table} SET body = '{body}'" for table in ("evaluations", "stages") for body in ("{}", "[]")),
    "UPDATE evaluations SET body = '" + "[" * 100_000 + "'",
    *(f"INSERT INTO findings VALUES (1, 0, 'a', '{body}')" for body in ("{}", "[]", "x")),
    "UPDATE evaluations SET body = json_set(body, '$.class_names', 5)",
    "UPDATE evaluations SET body = json_set(body, '$.radius', '8/255')",
    "UPDATE evaluations SET body = json_set(body, '$.model.settings', json('{\"train\": 5}'))",
    "UPDATE evaluations SET body = json_set(body, '$.training', json('[{\"epoch\": \"x\"}]'))",
    "UPDATE evaluations SET body = x'00'",
    "UPDATE evaluations SET samples = 'x'",
    "UPDATE evaluations SET plane = x'00'",
    "UPDATE evaluations SET plane = 'x'",
    "UPDATE chunks SET device = x'ff'",
    "UPDATE chunks SET seconds = 9e999",
    "UPDATE records SET label = 'x'",
    "UPDATE records SET label = 1.5",
    "UPDATE records SET right_share = 7",
    "UPDATE records SET distortion = 9e999",
    "UPDATE records SET sample = sample + 1000 WHERE stage = 1",
    "DELETE FROM records WHERE stage = 0",
    "DELETE FROM stages WHERE position > 0",
    "UPDATE pictures SET clean = 'x'",
    "UPDATE pictures SET clean = x'00'",
    "UPDATE pictures SET shape = '[1e9, 2]'",
    "UPDATE pictures SET sample = sample + 1000",
    "UPDATE points SET x = 'x'",
    "UPDATE points SET sample = sample + 1000",
    f"DROP TABLE stages; CREATE VIEW stages AS {NEVER} x AS evaluation, x AS position, 'a' AS name FROM n",
    f"DROP TABLE about; CREATE VIEW about AS {NEVER} 'format' AS key, x AS value FROM n",
    "CREATE TRIGGER t AFTER INSERT ON chunks BEGIN DELETE FROM records; END",
    "CREATE TABLE extra (a)",
    "DROP TABLE points",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    evaluate_model(MODEL, out=folder, suite=small_suite(), data=DATA)
    return folder


@pytest.fixture
def copy(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    return runner(monkeypatch, capfd)


@pytest.mark.parametrize("statement", DAMAGE, ids=lambda text: text[:60])
def test_damage_is_a_sentence(statement: str, copy: Path) -> None:
    connection = sqlite3.connect(copy / FILE)
    connection.executescript(f"DROP INDEX identities; {statement}")  # which would refuse a body that is no JSON
    assert connection.total_changes or not statement.startswith("UPDATE"), "nothing was damaged"
    connection.close()
    with pytest.raises(RecordsError, match=r"records\.sqlite|plane"):
        read_evaluations(copy)
    if "TRIGGER" in statement or "VIEW" in statement or "'{}'" in statement:
        with pytest.raises(RecordsError):
            evaluate_model(MODEL, out=copy, suite=small_suite(), data=DATA)


def test_a_pipe_beside_the_records_is_refused(copy: Path) -> None:
    os.mkfifo(copy / f"{FILE}-journal")
    with pytest.raises(RecordsError, match="beside it"):
        read_evaluations(copy)


def test_what_records_say_is_printed_without_control_characters(copy: Path, run: Callable[..., Outcome]) -> None:
    connection = sqlite3.connect(copy / FILE)
    connection.execute("UPDATE evaluations SET name = 'a\x1b[31m'")
    connection.commit()
    connection.close()
    shown = run("records", copy)
    assert "a\\x1b" in shown.out
    assert "\x1b" not in shown.out + shown.err


def test_cells_that_begin_like_a_formula_get_an_apostrophe(copy: Path, run: Callable[..., Outcome]) -> None:
    connection = sqlite3.connect(copy / FILE)
    connection.execute("UPDATE evaluations SET name = '=1+1', data = '@x'")
    connection.commit()
    connection.close()
    for words in (("records", copy, "--export", copy / "a.csv"), ("report", copy, "--out", copy / "b.csv")):
        assert run(*words).code == 0
    rows = (copy / "a.csv").read_text().splitlines()[1:]
    assert all(row.startswith("'=1+1,") and ",'@x," in row for row in rows)
    assert "'=1+1" in (copy / "b.csv").read_text()
    assert not any(cell.startswith(("=", "@")) for cell in (copy / "b.csv").read_text().replace("\n", ",").split(","))
