"""The display of an evaluation on a terminal, in a pipe and with --quiet."""

import io
import re

import pytest
from rich.console import Console

from maxmahal.cli import progress
from maxmahal.cli.progress import EvaluationProgress
from maxmahal.evaluate.reporter import EvaluationReporter
from maxmahal.records import Finding

FLAG = Finding("zero-gradients", "Zero [gradients]", True, "All of them.", "Add attacks.")
FINE = Finding("randomness", "Randomness", False, "Nothing to see.", "")


def shown(*, terminal: bool, quiet: bool, whole: bool = True, width: int = 120) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=width)
    with EvaluationProgress(console, quiet=quiet) as reporter:
        assert isinstance(reporter, EvaluationReporter)
        reporter.begin("odd [name]", 40)
        reporter.stage("clean", 40, 0)
        reporter.chunk(40, 0.925)
        reporter.stage("diagnostics", 2, 0)
        reporter.finding(FINE)
        reporter.finding(FLAG)
        reporter.stage("APGD-100, margin", 37, 10)
        reporter.within(5.0, "stage 1 of 2, about 4 min left")
        reporter.chunk(10, 0.75)
        reporter.chunk(10, 0.7)
        if whole:
            reporter.chunk(7, 0.625)
    return stream.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_shows_a_bar_with_stage_time_left_and_robust_accuracy(width: int) -> None:
    text = shown(terminal=True, quiet=False, whole=False, width=width)
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    bar = next(line for line in reversed(re.split(r"[\r\n]", plain)) if "APGD" in line)
    assert len(bar) <= width
    told = r"APGD-100, margin +━+.* 30/37 stage 1 of 2, about 4 min left robust so far: 70.0%"
    assert re.search(told if width == 120 else r"APGD.*stage 1 of 2, about 4 min left", bar), bar


def test_the_bar_moves_within_a_chunk() -> None:
    stream = io.StringIO()
    with EvaluationProgress(Console(file=stream, force_terminal=True, width=120), quiet=False) as reporter:
        reporter.stage("pgd", 30, 10)
        reporter.within(10.5, "stage 1 of 1")
        (task,) = reporter._bar.tasks
    assert task.completed == 20.5


def test_a_pipe_gets_a_line_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    now = [0.0]
    monkeypatch.setattr(progress, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
    with EvaluationProgress(Console(file=stream, force_terminal=False, width=60), quiet=False) as reporter:
        reporter.begin("m", 1)
        reporter.stage("Square", 200, 0)
        for second in range(50):
            now[0] = float(second)
            reporter.within(2.0 * second, f"stage 3 of 10, about {50 - second} s left")
        reporter.chunk(200, 0.5)
        reporter.stage("quick", 3680, 0)
        now[0] += 1.0
        reporter.chunk(3680, 0.5)
    assert stream.getvalue().splitlines() == [
        "m: 1 sample",
        "  Square: 20%, stage 3 of 10, about 30 s left",
        "  Square: 40%, stage 3 of 10, about 10 s left",
        "  Square: 200 samples, 49 s, robust so far: 50.0%",
        "  quick: 3,680 samples, 3,680/s, robust so far: 50.0%",
    ]


def test_a_pipe_gets_plain_lines() -> None:
    text = shown(terminal=False, quiet=False)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == "odd [name]: 40 samples"
    assert re.fullmatch(r"  clean: 40 samples, \S+/s, robust so far: 92.5%", lines[1])
    assert lines[2] == "  ! Zero [gradients]: All of them. Add attacks."
    assert lines[3] == "  APGD-100, margin: resumed after 10 of 37"
    assert re.fullmatch(r"  APGD-100, margin: 37 samples, \S+/s, robust so far: 62.5%", lines[4])
    assert len(lines) == 5


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_shows_nothing(terminal: bool) -> None:
    assert shown(terminal=terminal, quiet=True) == ""
