"""Who computes what: one process a chunk, and nothing is left claimed by the dead."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from small_evaluations_helpers import curved, everything, identity, labelled_by, many_chunks, rows

from maxmahal.evaluate import evaluate_model, read_evaluations
from maxmahal.evaluate.locks import ChunkLocks
from maxmahal.files import StorageError
from processes import Started

HOLD = """
import sys, time
from pathlib import Path
from maxmahal.evaluate.locks import ChunkLocks
locks = ChunkLocks(Path(sys.argv[1]))
with locks.lock(1, 2, 3) as ours:
    print(ours, flush=True)
    sys.stdin.readline()
"""


def test_a_chunk_is_ours_until_the_end_of_the_block_and_then_anybodys(tmp_path: Path) -> None:
    holder = Started(HOLD, tmp_path)
    assert holder.stdout.readline() == "True\n"
    locks = ChunkLocks(tmp_path)
    try:
        for place, expected in (((1, 2, 3), False), ((1, 2, 4), True), ((1, 3, 3), True), ((2, 2, 3), True)):
            with locks.lock(*place) as ours:
                assert ours is expected, place
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
        with locks.lock(1, 2, 3) as ours:
            assert ours
        with pytest.raises(KeyError), locks.lock(1, 2, 3):
            raise KeyError
    finally:
        locks.close()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Cannot write"):
        ChunkLocks(tmp_path / "not" / "there")


# Counts what each process computed, and makes every chunk slow enough for the others to meet it.
WORKER = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
from small_evaluations_helpers import curved, labelled_by, many_chunks
from maxmahal.evaluate import evaluate_model, evaluation
computed, inner = [], evaluation.EvaluationRun._input
def counted(self, position, stage, number, rows):
    computed.append((position, number))
    time.sleep(0.05)
    return inner(self, position, stage, number, rows)
evaluation.EvaluationRun._input = counted
evaluation.POLL = 0.02
model = curved()
print("ready", flush=True)
sys.stdin.readline()
evaluate_model(model, out=sys.argv[2], suite=many_chunks(), data=labelled_by(model))
print(computed)
"""


def start(out: Path) -> Started:
    return Started(WORKER, Path(__file__).parent, out)


def computed_by(processes: list[Started]) -> list[list[tuple[int, int]]]:
    """Let them all go at the same moment."""
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = []
    for process in processes:
        out, err = process.communicate()
        assert process.returncode == 0, err
        answers.append(eval(out))
    return answers


def test_processes_started_at_once_share_the_chunks(tmp_path: Path) -> None:
    together = computed_by([start(tmp_path / "shared") for _ in range(2)])
    model = curved()
    evaluate_model(model, out=tmp_path / "alone", suite=many_chunks(), data=labelled_by(model))
    alone = [row[1:3] for row in rows(tmp_path / "alone", "chunks")]
    chunks = [chunk for one in together for chunk in one]
    assert sorted(chunks) == alone, "every chunk once, by whomever"
    assert all(together), "each had something to do"
    (shared,), (expected,) = read_evaluations(tmp_path / "shared"), read_evaluations(tmp_path / "alone")
    assert shared.finished
    assert identity(shared) == identity(expected)
    assert len(rows(tmp_path / "shared", "chunks")) == len(alone)
    names = ("stages", "pictures", "points")
    told = [{name: everything(tmp_path / out)[name] for name in names} for out in ("shared", "alone")]
    assert told[0] == told[1]


@pytest.mark.parametrize("evaluation", [2**62, -3, 10**30])
def test_a_number_out_of_damaged_records_can_be_locked(tmp_path: Path, evaluation: int) -> None:
    with closing(ChunkLocks(tmp_path)) as locks, locks.lock(evaluation, 3, 4) as ours:
        assert ours
