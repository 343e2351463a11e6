"""The progress display on a terminal, in a pipe and with --quiet."""

import io

import pytest
from rich.console import Console

from maxmahal.cli.progress import DownloadProgress, TrainingProgress


def shown(*, terminal: bool, quiet: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100)
    with TrainingProgress(console, quiet=quiet) as reporter:
        for _ in range(2):  # the demo shows several trainings in one display
            reporter.start(epochs=2, epochs_done=1, steps_per_epoch=3)
            for _ in range(3):
                reporter.step()
            reporter.epoch({"epoch": 2, "train_loss": 1.25, "test_accuracy": 0.5})
            reporter.note("Saved in runs/[odd].")
    return stream.getvalue()


def test_a_terminal_shows_a_bar_and_a_line_an_epoch() -> None:
    text = shown(terminal=True, quiet=False)
    assert "\x1b[" in text
    assert "training" in text
    assert "100%" in text
    assert "epoch 2/2  loss 1.25  test 50.00%" in text


def test_a_pipe_gets_plain_lines() -> None:
    lines = shown(terminal=False, quiet=False).splitlines()
    run = ["Resuming after epoch 1 of 2.", "epoch 2/2  loss 1.25  test 50.00%", "Saved in runs/[odd]."]
    assert lines == [*run, *run]


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_shows_nothing(terminal: bool) -> None:
    assert shown(terminal=terminal, quiet=True) == ""


def test_a_download_counts_its_bytes_on_a_terminal_only() -> None:
    for terminal in (True, False):
        stream = io.StringIO()
        bar = DownloadProgress(Console(file=stream, force_terminal=terminal, width=100))
        bar.total = 2_000_000
        bar.update(1_500_000)
        bar.reset()
        bar.update(2_000_000)
        bar.close()
        assert ("2.0/2.0 MB" in stream.getvalue()) == terminal
