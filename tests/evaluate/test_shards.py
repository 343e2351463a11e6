"""An evaluation in shards and merged is the evaluation of one process, row for row; what does not fit is refused."""

import re
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from masked_models import Scaled
from small_evaluations_helpers import Noisy, classifier, curved, everything, labelled_by, rows, small_suite, stage
from torch import nn

from maxmahal.errors import ArgumentError, SettingsError
from maxmahal.evaluate import evaluate_model, evaluate_models, evaluation
from maxmahal.evaluate.reporter import SilentReporter
from maxmahal.evaluate.suite import option_defaults
from maxmahal.files import StorageError
from maxmahal.records import RecordsError, Shard, merge_records, read_evaluations, schema, shards
from maxmahal.records.schema import FILE
from maxmahal.records.store import Store

pytestmark = pytest.mark.usefixtures("unchecked")
SHORT = small_suite(stage("apgd", "apgd", steps=3), stage("square", "square", queries=6))
SMALL = replace(SHORT, stages=SHORT.stages[:1])
LOOKING = replace(SHORT, diagnose=True, mend=True)
COUNT = 3


def part(index: int, count: int = COUNT) -> str:
    return f"{index + 1}/{count}"


def told(folder: Path) -> dict[str, Any]:
    """Everything but when, how fast and by which command."""
    found = everything(folder)
    found["evaluations"] = rows(folder, "evaluations", "name, data, suite, seed, samples, finished, plane")
    found["chunks"] = rows(folder, "chunks", "evaluation, stage, number, forward, backward, queries, device")
    return found


def same_as_one_process(model: nn.Module, tmp_path: Path, order: list[int] | None = None, **arguments: Any) -> None:
    arguments = {"data": labelled_by(model), **arguments}
    whole = evaluate_model(model, out=tmp_path / "whole", **arguments)
    assert whole.finished
    for index in range(COUNT) if order is None else order:
        own = evaluate_model(model, out=tmp_path / "parts", shard=part(index), **arguments)
        assert not own.finished, "a shard alone is not an evaluation"
    (line,) = merge_records(tmp_path / "parts")
    assert line.endswith("complete.")
    assert told(tmp_path / "parts") == told(tmp_path / "whole")
    before = everything(tmp_path / "parts")
    assert merge_records(tmp_path / "parts") == [line]
    assert everything(tmp_path / "parts") == before, "merging again changes nothing"


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_shards_of_every_kind_of_stage(tmp_path: Path, order: list[int]) -> None:
    same_as_one_process(classifier(), tmp_path, order, suite=small_suite(), save_images=True)
    images = [sorted(path.name for path in (tmp_path / out / "images").rglob("*.*")) for out in ("whole", "parts")]
    assert images[0] == images[1] != []


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]])
def test_warnings_add_the_same_attacks_to_every_shard(tmp_path: Path, order: list[int]) -> None:
    """The model saturates; the last shard looks for itself where the first has not begun."""
    model = Scaled(curved(), 1e6).eval()
    same_as_one_process(model, tmp_path, order, suite=LOOKING)
    (found,) = read_evaluations(tmp_path / "parts")
    added = [each for each in found.stages if each.origin == "diagnosis" and not each.skipped]
    assert added, "the test needs a warning that adds an attack"


def test_a_stochastic_model(tmp_path: Path) -> None:
    same_as_one_process(Noisy().eval(), tmp_path, suite=LOOKING)


def test_only_the_first_shard_looks_for_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = curved()
    asked: list[str] = []
    inner = evaluation.EvaluationRun._findings

    def counted(self: Any, missing: dict[str, int]) -> Any:
        asked.append(str(self.shard))
        return inner(self, missing)

    monkeypatch.setattr(evaluation.EvaluationRun, "_findings", counted)
    for index in range(COUNT):
        evaluate_model(model, labelled_by(model), out=tmp_path, suite=LOOKING, shard=part(index))
    assert asked == ["1/3"]


def test_a_shard_that_stops_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = curved()
    data = labelled_by(model)
    inner, left = evaluation.run_stage, [3]

    def run_stage(*arguments: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return inner(*arguments)

    monkeypatch.setattr(evaluation, "run_stage", run_stage)
    with pytest.raises(KeyboardInterrupt):
        evaluate_model(model, data, out=tmp_path / "parts", suite=SHORT, shard="1/2")
    evaluate_model(model, data, out=tmp_path / "parts", suite=SHORT, shard="2/2")
    (line,) = merge_records(tmp_path / "parts")
    assert "chunks are missing, of 1/2;" in line
    evaluate_model(model, data, out=tmp_path / "whole", suite=SHORT)
    computed = []
    monkeypatch.setattr(evaluation, "run_stage", lambda *arguments: computed.append(1) or inner(*arguments))
    evaluate_model(model, data, out=tmp_path / "parts", suite=SHORT, shard="1/2")
    chunks = rows(tmp_path / "whole", "chunks", "stage, number, forward")
    assert len(computed) == sum(forward > 0 and number % 2 == 0 for _, number, forward in chunks) - 2
    assert merge_records(tmp_path / "parts")[0].endswith("complete.")
    assert told(tmp_path / "parts") == told(tmp_path / "whole")


def test_one_process_computes_what_shards_left(tmp_path: Path) -> None:
    model = classifier()
    data = labelled_by(model)
    evaluate_model(model, data, out=tmp_path / "whole", suite=SHORT)
    evaluate_model(model, data, out=tmp_path / "parts", suite=SHORT, shard="2/3")
    assert "of 1/3, 3/3;" in merge_records(tmp_path / "parts")[0]
    assert evaluate_model(model, data, out=tmp_path / "parts", suite=SHORT).finished
    assert told(tmp_path / "parts") == told(tmp_path / "whole")


def test_folders_of_hosts_that_share_nothing(tmp_path: Path) -> None:
    models = {"a": curved(), "b": curved(1)}
    data = labelled_by(models["a"])
    evaluate_models(models, data, out=tmp_path / "whole", suite=SHORT, transfer=True)
    for index in range(2):
        evaluate_models(models, data, out=tmp_path / f"host-{index}", suite=SHORT, transfer=True, shard=part(index, 2))
    lines = merge_records(tmp_path / "new", [tmp_path / "host-1", tmp_path / "host-0"])
    assert [line.rpartition(" ")[2] for line in lines] == ["complete."] * 2
    assert told(tmp_path / "new") == told(tmp_path / "whole")


@pytest.mark.parametrize("blind", [0, 1])
def test_a_shard_adopts_the_warnings_of_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blind: int) -> None:
    """Without a common folder, one of two finds nothing."""
    model = Scaled(curved(), 1e6).eval()
    arguments = {"data": labelled_by(model), "suite": replace(LOOKING, stages=SMALL.stages)}
    inner = evaluation.EvaluationRun._findings

    def blinded(self: Any, missing: dict[str, int]) -> Any:
        return ((name, replace(found, flagged=False, adds=())) for name, found in inner(self, missing))

    hosts = [tmp_path / "host-1", tmp_path / "host-2"]
    for index, host in enumerate(hosts):
        monkeypatch.setattr(evaluation.EvaluationRun, "_findings", blinded if index == blind else inner)
        if not index:
            evaluate_model(model, out=tmp_path / "whole", **arguments)
        evaluate_model(model, out=host, shard=part(index, 2), **arguments)
    with pytest.raises(RecordsError, match=r"host-2.*only one of them warns of .* beside the file of shard 1"):
        merge_records(tmp_path / "all", hosts)
    shutil.copy(hosts[0] / "shard-1-of-2.sqlite", hosts[1])
    evaluate_model(model, out=hosts[1], shard="2/2", **arguments)
    assert merge_records(tmp_path / "all", hosts)[0].endswith("complete.")
    assert told(tmp_path / "all") == told(tmp_path / "whole")


@pytest.mark.parametrize("newer", [0, 1])
def test_records_without_an_option_that_was_added_since(tmp_path: Path, newer: int) -> None:
    folders = [tmp_path / "0", tmp_path / "1"]
    for folder in folders:
        evaluate_model(curved(), labelled_by(curved()), out=folder, suite=SMALL)
    with closing(Store(folders[1 - newer])) as store:
        query = "UPDATE evaluations SET body = json_remove(body, '$.same.suite.stages.apgd.restarts')"
        store._commit(lambda connection: connection.execute(query))
    with pytest.raises(RecordsError, match="restarts"):
        merge_records(folders[0], folders[1:])
    assert merge_records(folders[0], folders[1:], option_defaults)[0].endswith("complete.")


@pytest.mark.parametrize(
    ("changes", "part_of_sentence"),
    [
        ({"target": curved(1)}, "model was"),
        ({"data": labelled_by(curved(), seed=1)}, "data was"),
        ({"suite": replace(SHORT, stages=(stage("apgd", "apgd", steps=4), *SHORT.stages[1:]))}, "steps was 3"),
    ],
)
def test_shards_of_another_evaluation_are_refused(
    tmp_path: Path, changes: dict[str, Any], part_of_sentence: str
) -> None:
    arguments = {"target": curved(), "data": labelled_by(curved()), "suite": SHORT}
    for index, own in enumerate((arguments, arguments | changes)):
        evaluate_models({"m": own["target"]}, own["data"], out=tmp_path, suite=own["suite"], shard=part(index, 2))
    with pytest.raises(RecordsError, match=rf"shard-2-of-2.sqlite cannot be merged.*'m' differs.*{part_of_sentence}"):
        merge_records(tmp_path)
    assert not read_evaluations(tmp_path)


def test_chunks_of_another_size_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = curved()
    evaluate_model(model, labelled_by(model), out=tmp_path, suite=SHORT, shard="1/2")
    monkeypatch.setattr(evaluation, "AT_ONCE", {"cpu": 2})
    evaluate_model(model, labelled_by(model), out=tmp_path, suite=SHORT, shard="2/2")
    with pytest.raises(RecordsError, match="chunks of 10 samples and not of 5"):
        merge_records(tmp_path)


def test_other_plans_are_refused(tmp_path: Path) -> None:
    model = curved()
    for index in range(2):
        evaluate_model(model, labelled_by(model), out=tmp_path, suite=SHORT, shard=part(index, 2))
    with closing(shards.FileStore(tmp_path / "shard-2-of-2.sqlite")) as store:
        store._commit(lambda connection: connection.execute("UPDATE stages SET skipped = 'No.' WHERE position = 2"))
    with pytest.raises(RecordsError, match="the plan of stage square"):
        merge_records(tmp_path)


def test_nothing_to_merge(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="There are no records in"):
        merge_records(tmp_path)
    (tmp_path / "empty").mkdir()
    evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SHORT, shard="1/2")
    for name in ("typo", "empty"):
        with pytest.raises(RecordsError, match=f"There are no records in .*{name}"):
            merge_records(tmp_path, [tmp_path / name])
    assert not (tmp_path / FILE).exists()


def test_merging_while_an_evaluation_writes(tmp_path: Path) -> None:
    model = curved()
    data = labelled_by(model)

    class Merging(SilentReporter):
        def chunk(self, samples: int, robust: float) -> None:
            merge_records(tmp_path / "parts")

    evaluate_model(model, data, out=tmp_path / "whole", suite=SHORT)
    evaluate_model(model, data, out=tmp_path / "parts", suite=SHORT, shard="2/3")
    evaluate_model(model, data, out=tmp_path / "parts", suite=SHORT, reporter=Merging())
    assert merge_records(tmp_path / "parts")[0].endswith("complete.")
    assert told(tmp_path / "parts") == told(tmp_path / "whole")


def test_merging_loses_nothing_that_is_recorded_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inner = curved(), shards._copy
    data = labelled_by(model)
    evaluate_models({"old": model}, data, out=tmp_path, suite=SMALL)
    evaluate_models({"part": model}, data, out=tmp_path, suite=SMALL, shard="1/1")
    columns = "data, suite, seed, samples, body"
    query = f"INSERT INTO evaluations (name, {columns}) SELECT 'meanwhile', {columns} FROM evaluations LIMIT 1"

    def record() -> None:
        with closing(Store(tmp_path)) as store:
            store._commit(lambda connection: connection.execute(query))

    writer = Thread(target=record)

    def copy(*arguments: Any) -> None:
        if not writer.ident:
            writer.start()
            writer.join(0.5)  # it waits for the merge
        inner(*arguments)

    monkeypatch.setattr(shards, "_copy", copy)
    merge_records(tmp_path)
    writer.join()
    assert {each.name for each in read_evaluations(tmp_path)} == {"old", "part", "meanwhile"}


def test_a_merge_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SMALL, shard="1/2")
    merge_records(tmp_path)
    evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SMALL, shard="2/2")
    before = everything(tmp_path)
    monkeypatch.setattr(Store, "count_samples", lambda *_: [][0])
    with pytest.raises(IndexError):
        merge_records(tmp_path)
    assert everything(tmp_path) == before


def test_a_number_of_chunks_costs_no_memory(tmp_path: Path) -> None:
    evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SMALL, shard="1/2")
    file = tmp_path / "shard-1-of-2.sqlite"
    for samples, many in ((0, 2**40), (2**60, 2**60)):
        with closing(shards.FileStore(file)) as store:
            store._commit(lambda c, many=many: c.execute("UPDATE stages SET chunks = ? WHERE position = 1", (many,)))
            store._commit(lambda c, more=samples: c.execute("UPDATE evaluations SET samples = samples + ?", (more,)))
        if not samples:
            with pytest.raises(RecordsError, match="more chunks than samples"):
                merge_records(tmp_path)
    file.rename(tmp_path / f"shard-1-of-{10**8}.sqlite")
    assert f"3/{10**8}" in merge_records(tmp_path)[0]


def test_a_number_of_shards_costs_no_time(tmp_path: Path) -> None:
    """Most of them have no chunk."""
    evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SHORT, shard=f"1/{10**9 - 1}")
    (line,) = merge_records(tmp_path)
    assert re.search(rf"chunks are missing, of 2/{10**9 - 1}, .*; run the unfinished shards again", line)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda file: file.write_bytes(b""), r"is damaged \(it is empty\)"),
        (lambda file: file.write_bytes(file.read_bytes()[:20_000]), "is damaged or not a file of records"),
        (lambda file: file.write_text("no records"), "is damaged or not a file of records"),
    ],
)
def test_a_damaged_shard_is_one_sentence(tmp_path: Path, damage: Callable[[Path], object], reason: str) -> None:
    evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SHORT, shard="1/2")
    damage(tmp_path / "shard-1-of-2.sqlite")
    for use in (merge_records, partial(evaluate_model, curved(), labelled_by(curved()), suite=SHORT, shard="1/2")):
        with pytest.raises(RecordsError, match=rf"shard-1-of-2\.sqlite {reason}.*; restore a copy of it, or move it"):
            use(**{"folder" if use is merge_records else "out": tmp_path})


def test_a_folder_in_place_of_a_shard(tmp_path: Path) -> None:
    (tmp_path / "shard-1-of-2.sqlite").mkdir()
    with pytest.raises(RecordsError, match="There are no records in"):
        merge_records(tmp_path)
    with pytest.raises(RecordsError, match=r"Cannot read .*shard-1-of-2\.sqlite \(it is a folder, not a plain file\)"):
        evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SHORT, shard="1/2")


def test_a_large_shard_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SMALL, shard="1/2")
    monkeypatch.setattr(schema, "_MOST_BYTES", 1 << 10)
    with pytest.raises(RecordsError, match="divide it into more shards"):
        evaluate_model(curved(), labelled_by(curved()), out=tmp_path, suite=SMALL, shard="1/2")


def test_a_shard_has_no_side_files_and_leads_nowhere(tmp_path: Path) -> None:
    model, out = curved(), tmp_path / "out"

    class Listing(SilentReporter):
        def chunk(self, samples: int, robust: float) -> None:
            assert [path.name for path in out.iterdir()] == ["shard-1-of-2.sqlite"]
            assert read_evaluations(out / "shard-1-of-2.sqlite"), "whole at every moment"

    evaluate_model(model, labelled_by(model), out=out, suite=SHORT, shard="1/2", reporter=Listing())
    shutil.move(out / "shard-1-of-2.sqlite", tmp_path / "outside.sqlite")
    (out / "shard-1-of-2.sqlite").symlink_to(tmp_path / "outside.sqlite")
    (tmp_path / "outside.sqlite").unlink()
    with pytest.raises(StorageError, match="a link leads out of"):
        evaluate_model(model, labelled_by(model), out=out, suite=SHORT, shard="1/2")


@pytest.mark.parametrize("text", ["0/3", "4/3", "1", "1/0", "-1/2", "a/b", "1/2/3", "", "1/9999999999"])
def test_a_shard_that_is_none(text: str) -> None:
    with pytest.raises(SettingsError, match="1/8 for the first of eight"):
        Shard.parse(text)


def array(task: int, first: int, last: int, count: int | None = None) -> dict[str, str]:
    values = {"ID": task, "MIN": first, "MAX": last, "COUNT": last - first + 1 if count is None else count}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (array(3, 0, 3), Shard(3, 4)),
        (array(4, 1, 4), Shard(3, 4)),
        ({"RANK": "0", "WORLD_SIZE": "2"}, Shard(0, 2)),
    ],
)
def test_shards_of_arrays_and_ranks(variables: dict[str, str], expected: Shard) -> None:
    assert Shard.parse("auto", variables) == expected


@pytest.mark.parametrize(
    ("variables", "part_of_sentence"),
    [
        ({}, "neither is set"),
        ({"RANK": "1"}, "WORLD_SIZE"),
        (array(1, 0, 1) | {"SLURM_ARRAY_TASK_ID": "x"}, "SLURM_ARRAY_TASK_ID, which is 'x'"),
        (array(5, 5, 5), "task 5 of 0-7 is 6/8"),
        (array(0, 0, 0), "needs a whole Slurm array"),
        (array(3, 3, 5, 2), "needs a whole Slurm array"),
        (array(1, 1, 3, 2), "needs a whole Slurm array"),
        (array(1, 0, 1) | {"RANK": "0", "WORLD_SIZE": "1"}, "no RANK beside it"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "number 2 of 2, counted from 0, in the variables of torchrun; correct them"),
        ({"RANK": "9" * 5000, "WORLD_SIZE": "2"}, "needs the variable RANK, which is '99"),
        (array(0, 1, 3), "number -1 of 3, counted from 0, in the variables of Slurm; correct them"),
    ],
)
def test_variables_that_say_nothing(variables: dict[str, str], part_of_sentence: str) -> None:
    with pytest.raises(SettingsError, match=part_of_sentence):
        Shard.parse("auto", variables)


def test_a_shard_needs_a_folder() -> None:
    with pytest.raises(ArgumentError, match="shard needs a folder"):
        evaluate_model(curved(), labelled_by(curved()), suite=SHORT, shard="1/2")
