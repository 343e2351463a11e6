"""The display of an evaluation on a terminal, in a pipe and with --quiet."""

import io
import re

import pytest
from rich.console import Console

from maxmahal.cli.progress import EvaluationProgress
from maxmahal.evaluate.reporter import EvaluationReporter
from maxmahal.records import Finding

FLAG = Finding("zero-gradients", "Zero [gradients]", True, "All of them.", "Add attacks.")
FINE = Finding("randomness", "Randomness", False, "Nothing to see.", "")


def shown(*, terminal: bool, quiet: bool, whole: bool = True) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120)
    with EvaluationProgress(console, quiet=quiet) as reporter:
        assert isinstance(reporter, EvaluationReporter)
        reporter.begin("odd [name]", 40)
        reporter.stage("clean", 40, 0)
        reporter.chunk(40, 0.925)
        reporter.stage("diagnostics", 2, 0)
        reporter.finding(FINE)
        reporter.finding(FLAG)
        reporter.stage("APGD-100, margin", 37, 10)
        reporter.within(5, 10)
        reporter.chunk(10, 0.75)
        reporter.chunk(10, 0.7)
        if whole:
            reporter.chunk(7, 0.625)
    return stream.getvalue()


def test_a_terminal_shows_a_bar_with_rate_time_left_and_robust_accuracy() -> None:
    text = shown(terminal=True, quiet=False, whole=False)
    assert "\x1b[" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    bar = next(line for line in reversed(re.split(r"[\r\n]", plain)) if "APGD-100, margin" in line)
    assert re.search(r"APGD-100, margin .*━.* 30/37 +\S+/s +\d+:\d\d(:\d\d)? +robust so far: 70.0%", bar), bar


def test_the_bar_moves_within_a_chunk() -> None:
    stream = io.StringIO()
    with EvaluationProgress(Console(file=stream, force_terminal=True, width=120), quiet=False) as reporter:
        reporter.stage("pgd", 30, 10)
        reporter.within(7, 10)
    assert "17/30" in stream.getvalue()


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
