"""``maxmahal evaluate`` and ``maxmahal suites`` as a user meets them."""

import errno
import io
import re
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from maxmahal.evaluate import evaluate_model, read_evaluations, suite_names
from maxmahal.evaluate.diagnose.checks import CHECKS

pytestmark = pytest.mark.usefixtures("unchecked")
SUITE = """
version = 1
about = "small"
epsilon = "0.1"
chunk = 4

[[stage]]
name = "pgd"
title = "PGD-2 [own]"
attack = "pgd"
steps = 2

[[stage]]
name = "square"
attack = "square"
queries = 4
"""
NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 16, generator=torch.Generator().manual_seed(seed)))
    def forward(self, images):
        return (images.flatten(1) - 0.5) @ self.weight.T

def make(): return Net(0).eval()
def other(): return Net(1).eval()
def training(): return Net(0)

class Fails(Net):
    def forward(self, images):
        raise SystemExit(0)

def exits(): return Fails(0).eval()
def exits_early(): raise SystemExit(0)
"""
TURNED = """
import torch
from torch import nn
from maxmahal.data import ImageData

class Last(nn.Sequential):
    def forward(self, images):
        return super().forward(images.permute(0, 3, 1, 2))

def layers(): return nn.Conv2d(3, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
def first(): return nn.Sequential(*layers()).eval()
def last(): return Last(*layers()).eval()
def pair(split): return torch.zeros(6, 5, 4, 3, dtype=torch.uint8), torch.arange(6) % 3
def whole(split): return ImageData.from_arrays("cliturned:whole", *pair(split), "abc")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a suite, networks and images, to work in."""
    (tmp_path / "small.toml").write_text(SUITE)
    (tmp_path / "clinets.py").write_text(NETS)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 4, 4), dtype=np.uint8)
    weight = torch.randn(3, 16, generator=torch.Generator().manual_seed(0)).numpy()
    labels = ((images.reshape(20, 16) / 255 - 0.5) @ weight.T).argmax(axis=1)
    labels[:3] = [0, 1, 2]
    np.savez(tmp_path / "mine.npz", images=images, labels=labels, test_images=images, test_labels=labels)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "clinets", raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    return tmp_path


ARGUMENTS = ["--suite", "small.toml", "--data", "mine.npz", "--out", "out"]


@pytest.fixture(autouse=True)
def in_the_users_folder(here: Path) -> Path:
    """Every command is typed where the user's files lie."""
    return here


def test_it_prints_progress_verdicts_and_comparisons(run, here: Path) -> None:
    done = run("evaluate", "ours[red]=clinets:make", "clinets:other", *ARGUMENTS, "--epsilon", "0.01")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    found = read_evaluations(here / "out")
    assert [(each.name, each.samples, each.finished) for each in found] == [
        ("ours[red]", 20, True),
        ("other", 20, True),
    ]
    assert re.search(r"^ours\[red\]: 20 samples$", done.out, re.M)
    assert re.search(r"^  PGD-2 \[own\]: \d+ samples, \S+/s, robust so far: \S+%$", done.out, re.M)
    assert re.search(r"^ *ours\[red\] +\S+% +\S+ % \[\S+, \S+\]", done.out, re.M)
    assert re.search(r"^ours\[red\]: Robust accuracy .* at Linf 0.01, .* of small; diagnostics were", done.out, re.M)
    assert re.search(r"is \S+ points more robust on the same images than other \(exact McNemar test: p = ", done.out)
    assert "Records in out; `maxmahal report out --out report.html`" in done.out


def test_a_tie_is_called_one_and_stochastic_models_are_not_paired(run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluate_model("clinets:make", out="out", suite="small.toml", data="mine.npz")
    for stochastic in (False, True):
        model = {**found.model, "stochastic": stochastic}
        pair = [replace(found, name=name, model=model) for name in "ab"]
        monkeypatch.setattr("maxmahal.evaluate.evaluate_models", lambda *_, pair=pair, **__: pair)
        out = run("evaluate", "clinets:make", *ARGUMENTS).out
        assert ("a and b are equally robust on these images." in out) == (not stochastic)
        assert "more robust" not in out


def test_what_is_recorded_already_is_told_in_one_line(run, here: Path) -> None:
    first = run("evaluate", "clinets:make", *ARGUMENTS)
    again = run("evaluate", "clinets:make", *ARGUMENTS)
    assert "already recorded" not in first.out
    told = [line for line in again.out.splitlines() if "already recorded" in line]
    assert told == ["  already recorded: clean; PGD-2 [own]; square"]


def test_without_a_folder_records_go_where_the_last_line_says_and_several_models_share_it(run, here: Path) -> None:
    first = run("evaluate", "clinets:make", *ARGUMENTS[:4])
    assert (first.code, first.err) == (0, "")
    assert "Records in runs/evaluations; `maxmahal report runs/evaluations --out report.html`" in first.out
    assert run("evaluate", "clinets:other", *ARGUMENTS[:4]).code == 0
    assert [each.name for each in read_evaluations(here / "runs" / "evaluations")] == ["make", "other"]


@pytest.mark.parametrize(
    ("given", "rank", "expected"), [("auto", "", "auto"), ("auto", "3", "cuda:1"), ("cpu", "3", "cpu")]
)
def test_the_library_chooses_the_device(  # it leaves a factory's model on the GPU where it lies
    run, monkeypatch: pytest.MonkeyPatch, given: str, rank: str, expected: str
) -> None:
    seen: list[str] = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("maxmahal.evaluate.evaluate_models", lambda *_, device, **__: seen.append(str(device)) or [])
    monkeypatch.setenv("LOCAL_RANK", rank)
    run("evaluate", "clinets:make", *ARGUMENTS, "--device", given, *(["--shard", "auto"] if rank else []))
    assert seen == [expected]


def test_every_diagnostic_is_announced(run, on_a_terminal: Callable[..., str], here: Path) -> None:
    (here / "small.toml").write_text(SUITE.replace("chunk = 4", "chunk = 4\ndiagnose = true"))
    piped = run("evaluate", "clinets:make", *ARGUMENTS).out
    shown = on_a_terminal("evaluate", "clinets:make", *ARGUMENTS[:4], "--out", "live")
    for number, check in enumerate(CHECKS.values(), start=1):
        line = f"  diagnostics, {number} of {len(CHECKS)}: {check.title}"
        assert line in piped.splitlines()
        assert line in shown
    again = run("evaluate", "clinets:make", *ARGUMENTS).out
    assert "already recorded: clean; diagnostics; PGD-2 [own]; square" in again


def test_a_comparison_with_the_paper_is_not_headed_robust_accuracy(run, here: Path) -> None:
    (here / "small.toml").write_text(SUITE.replace("chunk = 4", "chunk = 4\ncomparison = true"))
    done = run("evaluate", "clinets:make", *ARGUMENTS)
    assert done.code == 0, done.err
    assert read_evaluations(here / "out")[0].comparison
    assert re.search(r"^make: Accuracy .* it does not measure robustness\.$", done.out, re.M)
    assert "obust accuracy" not in done.out
    assert re.search(r"model +clean +worst case", done.out)


def test_the_same_command_again_computes_nothing_and_says_the_same(run, here: Path) -> None:
    first = run("evaluate", "clinets:make", *ARGUMENTS, "--quiet")
    again = run("evaluate", "clinets:make", *ARGUMENTS, "--quiet")
    assert first.code == again.code == 0
    assert first.out == again.out
    assert "samples," not in first.out
    assert "Robust accuracy" in first.out
    assert "Records in" not in first.out


def test_shards_of_a_slurm_array_are_merged(run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("evaluate", "clinets:make", *ARGUMENTS[:-1], "whole").code == 0
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "2")
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "1")
    monkeypatch.setenv("SLURM_ARRAY_TASK_MAX", "2")
    for task in ("1", "2"):
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", task)
        done = run("evaluate", "clinets:make", *ARGUMENTS[:-1], "parts", "--shard", "auto")
        assert done.code == 0
        assert "`maxmahal records merge parts`" in done.out
        assert "robust accuracy" not in done.out
    assert "complete." in run("records", "merge", "parts").out
    for folder in ("whole", "parts"):
        assert run("records", folder, "--export", f"{folder}.csv").code == 0
    whole, parts = (Path(f"{folder}.csv").read_text().splitlines() for folder in ("whole", "parts"))
    assert whole == parts
    run("records", "merge", "nowhere").assert_refused("There are no records in nowhere")
    run("evaluate", "clinets:make", *ARGUMENTS, "--shard", "3/2").assert_refused("--shard 3/2 is not a shard")


def test_the_recorded_command_does_the_same_again(run, here: Path) -> None:
    run("evaluate", "a=clinets:make", "clinets:other", *ARGUMENTS, "--limit", "9", "--seed", "3", "--transfer")
    before = read_evaluations(here / "out")
    words = before[0].environment["command"].split()
    assert words[:2] == ["maxmahal", "evaluate"]
    for word in ("a=clinets:make", "other=clinets:other", "small.toml", "mine.npz", "--transfer"):
        assert word in words
    done = run(*words[1:])
    assert done.code == 0, done.err
    assert len(read_evaluations(here / "out")) == len(before) == 2


def test_options_reach_the_evaluation(run, here: Path) -> None:
    done = run(
        "evaluate", "clinets:make", *ARGUMENTS, "--limit", "5", "--seed", "7", "--norm", "L2", "--epsilon", "1/2",
        "--save-images",
    )  # fmt: skip
    assert done.code == 0, done.err
    (found,) = read_evaluations(here / "out")
    assert (found.samples, found.seed, found.norm, found.epsilon, found.radius) == (5, 7, "L2", "1/2", 0.5)
    broken = found.stage("pgd").columns.broken.sum()
    assert broken > 0
    assert len(list((here / "out" / "images" / "make").glob("*-seed-7-of-5/pgd/*.png"))) == broken


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["clinets:training", *ARGUMENTS], ["train mode"]),
        (["clinets:exits", *ARGUMENTS], ["clinets:exits cannot take the images", "SystemExit: 0"]),
        (["clinets:exits_early", *ARGUMENTS], ["SystemExit: 0"]),
        (["clinets:make", "clinets:make", *ARGUMENTS], ["Two models are called 'make'"]),
        (["clinets:make", *ARGUMENTS, "--limit", "0"], ["limit must be at least 1; got 0"]),
        (["clinets:make", *ARGUMENTS[2:], "--suite", "strictt"], ["did you mean 'strict'"]),
        (
            ["clinets:make", *ARGUMENTS, "--epsilon", "8"],
            ["epsilon = 8: Suite small: epsilon must", "8/255"],
        ),
        (["clinets:make", *ARGUMENTS, "--norm", "L2"], ["norm = L2 needs an epsilon too"]),
        (["runs/nothing", *ARGUMENTS], ["runs/nothing"]),
        (["clinets:make", "--suite", "small.toml", "--out", "out"], ["--data"]),
        (["clinets:make", "--suite", "small.toml", "--data", "none.npz", "--out", "out"], ["none.npz"]),
        (["clinets:make", *ARGUMENTS[:4], "--out", "."], ["--out"]),
        (
            ["clinets:make", *ARGUMENTS[:4], "--out", "mine.npz"],
            ["File exists. Choose another file"],
        ),
        (["clinets:make", *ARGUMENTS, "--device", "tpu"], ["--device tpu"]),
    ],
)
def test_mistakes_are_answered_in_one_sentence(run, here: Path, arguments: list[str], parts: list[str]) -> None:
    run("evaluate", *arguments).assert_refused(*parts)
    assert not (here / "out").exists()
    assert not (here / "records.sqlite").exists()


@pytest.mark.parametrize(
    ("model", "data", "parts"),
    [
        ("first", "whole", ["cliturned:whole have the shape (n, 5, 4, 3)", "pass images.permute(0, 3, 1, 2)."]),
        ("last", "pair", ["cliturned:last takes images with channels last", "let it begin with images.permute("]),
    ],
)
def test_channels_last_is_told_in_one_sentence(run, here: Path, model: str, data: str, parts: list[str]) -> None:
    (here / "cliturned.py").write_text(TURNED)
    words = [f"cliturned:{model}", "--data", f"cliturned:{data}", "--suite", "small.toml", "--out", "out"]
    run("evaluate", *words).assert_refused(*parts)
    assert not (here / "out").exists()


def test_a_warning_is_one_line_without_code(run, here: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as outside of tests
        done = run("evaluate", "clinets:make", *ARGUMENTS, "--epsilon", "0.9", "--quiet")
    assert done.code == 0, done.err
    assert "maxmahal: Linf(0.9) lets an attacker turn these images into almost anything" in done.err
    assert all(line.startswith("maxmahal: ") for line in done.err.splitlines()), done.err


def test_records_of_another_model_are_refused(run, here: Path) -> None:
    assert run("evaluate", "net=clinets:make", *ARGUMENTS).code == 0
    run("evaluate", "net=clinets:other", *ARGUMENTS).assert_refused(
        "already holds an evaluation of 'net'", "NAME=TARGET"
    )


def test_suites_lists_every_suite_with_its_stages(run) -> None:
    out = run("suites").out
    for name in suite_names():
        assert re.search(rf"^{name} \(version \d+\): ", out, re.M)
    assert "APGD-100, margin to each of 9 classes" in out


def test_tensorboard_without_the_package_is_told_before_anything_is_done(
    run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    run("evaluate", "clinets:make", *ARGUMENTS, "--tensorboard", "log").assert_refused("maxmahal[tensorboard]")
    assert not (here / "out").exists()


def test_a_terminal_gets_the_bar(here: Path, on_a_terminal: Callable[..., str]) -> None:
    shown = on_a_terminal("evaluate", "clinets:make", *ARGUMENTS)
    assert "\x1b[" in shown
    assert "━" in shown
    assert "robust so far" in shown
    assert "/s" in shown


def test_python_and_the_command_line_record_the_same(run, here: Path) -> None:
    run("evaluate", "clinets:make", *ARGUMENTS)
    found = evaluate_model("clinets:make", out=here / "python", suite="small.toml", data="mine.npz")
    (from_command,) = read_evaluations(here / "out")
    for left, right in zip(found.stages, from_command.stages, strict=True):
        assert left.columns.prediction.tolist() == right.columns.prediction.tolist()
        assert left.settings == right.settings


def test_a_dry_run_prints_the_stages_and_their_times(run, here: Path) -> None:
    done = run("evaluate", "clinets:make", *ARGUMENTS, "--dry-run", "--quiet")
    assert done.code == 0, done.err
    assert not (here / "out").exists()
    assert re.search(r"^make: small on 20 samples at Linf 0.1$", done.out, re.M)
    assert re.search(r"^  PGD-2 \[own\]: about \d+ s$", done.out, re.M)
    assert re.search(r"^In all about \d+ s, and at most about \d+ s if no attack breaks a sample;", done.out, re.M)
    assert re.search(r"^Measured on cpu.* with 20 images: \S+ ms per gradient, \S+ ms per query;", done.out, re.M)


def test_a_budget_leaves_an_unfinished_evaluation_that_goes_on(
    run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from maxmahal.evaluate import evaluation

    inner, clock = evaluation.run_stage, [0.0]

    def slow(task: object) -> object:
        clock[0] += 3600.0  # longer than the budget
        return inner(task)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "run_stage", slow)
        patch.setattr(
            evaluation, "time", type("Clock", (), {"monotonic": staticmethod(lambda: time.monotonic() + clock[0])})
        )
        done = run("evaluate", "clinets:make", "clinets:other", *ARGUMENTS, "--budget", "30m")
    assert done.code == 0, done.err
    assert "Out of time: make is not finished; the same call continues it." in done.out
    assert "make: No attack of small has finished yet" in done.out
    assert "other: not started" in done.out
    assert "robust on the" not in done.out
    again = run("evaluate", "clinets:make", "clinets:other", *ARGUMENTS, "--budget", "30m")
    assert "so far" not in again.out.partition("attacks succeed on")[2]
    assert "make and other are equally robust on these images." in again.out
    run("evaluate", "clinets:make", *ARGUMENTS, "--budget", "soon").assert_refused("--budget soon is not a time")


def test_a_budget_that_ends_before_the_first_stage_promises_nothing(run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("maxmahal.evaluate.evaluation.time", type("Late", (), {"monotonic": staticmethod(lambda: 1e12)}))
        done = run("evaluate", "clinets:make", *ARGUMENTS, "--budget", "1s")
    assert done.out.splitlines() == [
        "make: 20 samples",
        "Out of time: make is not finished; the same call continues it.",
        "make: not started; run the same command to continue.",
    ]


@pytest.mark.parametrize(("attacks", "cells"), [(1, r"\S+ % \[\S+, \S+\] so far +\S+%"), (0, "- +-")])
def test_a_table_tells_what_is_known_so_far(run, monkeypatch: pytest.MonkeyPatch, attacks: int, cells: str) -> None:
    found = evaluate_model("clinets:make", out="out", suite="small.toml", data="mine.npz")
    stages = [replace(stage, finished=place <= attacks) for place, stage in enumerate(found.stages)]
    begun = replace(found, finished=False, stages=tuple(stages))
    monkeypatch.setattr("maxmahal.evaluate.evaluate_models", lambda *_, **__: [begun])
    assert re.search(rf"^ *make +\S+% +{cells} *$", run("evaluate", "clinets:make", *ARGUMENTS).out, re.M)


def test_a_folder_of_runs_offers_them(run, here: Path) -> None:
    for name in ("one", "two"):
        (here / "runs" / name).mkdir(parents=True)
        (here / "runs" / name / "last.safetensors").touch()
    (here / "runs" / "notes").mkdir()
    refused = run("evaluate", "runs", "--suite", "quick")
    refused.assert_refused("runs is a folder of runs; evaluate one or more of them: runs/one runs/two.")


class Closed(io.StringIO):
    """What is left of `| head` once it has read enough."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


@pytest.mark.parametrize(("command", "told"), [("evaluate", True), ("suites", False)])
def test_output_that_nobody_reads_ends_only_work_with_a_word(
    run, monkeypatch: pytest.MonkeyPatch, command: str, told: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Closed())
        done = run(command, *(["clinets:make", *ARGUMENTS] if command == "evaluate" else []))
    assert done.code == 1
    work = "finished work is saved; run the same command to continue."
    assert done.err == (f"maxmahal: stopped, because the output was closed; {work}\n" if told else "")
