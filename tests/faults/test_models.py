"""Models that misbehave: every one ends in one sentence and exit code 2, and none gets a verdict without a warning."""

from pathlib import Path

import pytest
from disturbed import assert_one_sentence

from maxmahal.evaluate import read_evaluations
from processes import COMMAND_LINE, Ended, run

MODELS = """
import sys
import torch
from torch import nn

class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(64, 10)
        self.calls = 0
    def forward(self, images):
        self.calls += 1
        return self.answer(self.layer(images.flatten(1)), images)
    def answer(self, logits, images):
        return logits

def model(answer):
    return type("Odd", (Small,), {"answer": answer})().eval()

def out_of_memory(self, logits, images):
    if self.calls in (3, 9) and len(images) > 1:
        open("was_short", "w").close()
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    return logits

def not_enough(self, logits, images):
    if self.calls in (6, 15) and len(images) > 1:
        open("was_short", "w").close()
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: not enough memory")
    return logits

def raises(self, logits, images):
    raise KeyError("no such layer")

def raises_later(self, logits, images):
    if self.calls > 5:
        raise ValueError("line one\\nline two \\x1b[31m" + "x" * 5000)
    return logits

def exits(self, logits, images):
    sys.exit(0)

def exits_later(self, logits, images):
    if self.calls > 5:
        raise SystemExit
    return logits

def whole(self, logits, images):
    return (logits * 100).long()

def infinite(self, logits, images):
    return torch.where(logits > 0, torch.inf, logits)

def missing(self, logits, images):
    return logits * torch.nan

def by_company(self, logits, images):
    return logits - logits.mean(dim=0) * 3

def too_few(self, logits, images):
    return logits[:-1]

def text(self, logits, images):
    return "logits"

def recursing(self, logits, images):
    return self.answer(logits, images)

def __getattr__(name):
    answers = {key: value for key, value in globals().items() if callable(value)}
    return lambda: model(answers[name.removeprefix("make_")])

def make_honest():
    return Small().eval()
"""
SUITE = (
    "version = 1\nabout = 'small'\nepsilon = '0.1'\nchunk = 20\n[[stage]]\nname = 'pgd'\nattack = 'pgd'\nsteps = 5\n"
)
REFUSED = ["raises", "raises_later", "exits", "exits_later", "whole", "infinite", "missing", "too_few", "text",
           "recursing"]  # fmt: skip


@pytest.fixture
def evaluate(tmp_path: Path):  # type: ignore[no-untyped-def]
    (tmp_path / "odd_models.py").write_text(MODELS)
    (tmp_path / "small.toml").write_text(SUITE)
    here = f"import os; os.chdir({str(tmp_path)!r}); "

    def call(name: str) -> Ended:
        words = ["evaluate", f"odd_models:make_{name}", "--data", "digits", "--suite", "small.toml", "--limit", "60"]
        return run(here + COMMAND_LINE, *words, "--out", name)

    return call


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_one_sentence(evaluate, tmp_path: Path, name: str) -> None:  # type: ignore[no-untyped-def]
    done = evaluate(name)
    assert_one_sentence(done, "model")
    assert len(done.stderr) < 350
    assert "\x1b" not in done.stderr
    if (tmp_path / name).exists():
        assert not any(each.finished for each in read_evaluations(tmp_path / name))


def test_an_answer_that_depends_on_the_rest_of_the_batch_is_told(evaluate, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = evaluate("by_company")
    assert "batch" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["out_of_memory", "not_enough"])
def test_memory_that_is_short_once_changes_nothing(evaluate, tmp_path: Path, name: str) -> None:  # type: ignore[no-untyped-def]
    for each in (name, "honest"):
        done = evaluate(each)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "was_short").exists()
    (short,), (honest,) = read_evaluations(tmp_path / name), read_evaluations(tmp_path / "honest")
    assert short.finished
    for disturbed, expected in zip(short.stages, honest.stages, strict=True):
        for column in ("sample", "label", "clean_prediction", "prediction", "right_before", "broken", "iterations"):
            assert getattr(disturbed.columns, column).tolist() == getattr(expected.columns, column).tolist(), column
