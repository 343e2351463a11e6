"""The command line as a user meets it: what it prints, and how it answers mistakes."""

import io
import json
import os
import pickle
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import maxmahal
from maxmahal import demo
from maxmahal.cli.common import Console, counted, per_second, print_table
from maxmahal.evaluate import give_verdict, read_evaluations
from maxmahal.evaluate.suite import load_suite
from maxmahal.reproduce import load_grid
from maxmahal.train import load_settings, preset_names

TINY = ["--set", "train.epochs=2", "--set", "train.batch_size=24", "--set", "model.feature_dim=8"]


def test_version_and_help(run) -> None:
    assert run("--version").out.strip() == maxmahal.__version__
    text = run("--help").out
    assert all(
        command in text
        for command in ("train", "presets", "evaluate", "records", "report", "suites", "data", "demo", "doctor")
    )


def test_presets_lists_every_preset_with_its_row(run) -> None:
    out = run("presets").out
    assert all(name in out for name in preset_names())
    assert "Table 1, MMC-10 (rand)" in out


def test_doctor_says_what_the_machine_offers(run, tmp_path: Path) -> None:
    out = run("doctor", "--data-dir", tmp_path).out
    for word in ("maxmahal", "python", "torch", "threads", "cuda", "digits", "embedded", "cifar10", str(tmp_path)):
        assert word in out


def test_train_prints_plain_lines_in_a_pipe(run, tiny_npz: Path, tmp_path: Path) -> None:
    outcome = run("train", "digits-at-mmc", "--out", tmp_path / "run", *TINY, "--set", f"data.source={tiny_npz}",
                  "--set", "data.validation=24", "--set", "method.steps=2")  # fmt: skip
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert re.match(r"epoch 1/2  loss \S+  test \S+%  validation \S+%  PGD-10 \S+%", lines[0])
    assert "\x1b" not in outcome.out
    assert any(line.startswith("last checkpoint (epoch 2): test accuracy") for line in lines)
    assert any(line.startswith("best checkpoint") for line in lines)
    assert (tmp_path / "run" / "result.json").exists()


def test_quiet_is_quiet(run, tiny_npz: Path, tmp_path: Path) -> None:
    outcome = run(
        "train", "digits-mmc", "--quiet", "--out", tmp_path / "run", *TINY, "--set", f"data.source={tiny_npz}"
    )
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "")


def test_mistakes_end_in_one_sentence(run, tmp_path: Path) -> None:
    run("train", "digits-mcm").assert_refused("no preset 'digits-mcm'", "did you mean 'digits-mmc'?")
    run("train", "digits-mmc", "--set", "train.epoch=3").assert_refused("did you mean 'train.epochs'?")
    run("train", "digits-mmc", "--set", "train.epochs=x").assert_refused("must be an integer")
    run("train", "digits-mmc", "--device", "gpu0").assert_refused("use auto, cpu or cuda")
    run("train", "digits-mmc", "--device", "meta").assert_refused("use auto, cpu or cuda")
    run("train", "digits-mmc", "--out", "").assert_refused("name one for it")
    exact = ("--set", "centers.exact=true", "--set", "model.feature_dim=2")
    run("train", "digits-mmc", "--out", tmp_path / "x", *exact).assert_refused("num_classes", "dim")
    run("train", "digits-mmc", "--set", "data.source=cifar11").assert_refused("did you mean 'cifar10'?")
    run("data", "check", "cifar11").assert_refused("did you mean 'cifar10'?")
    toml = tmp_path / "mine.toml"
    toml.write_text("[train]\nepoch = 3\n")
    run("train", toml, "--out", tmp_path / "x").assert_refused("'train.epoch' is not a setting")
    assert not (tmp_path / "x").exists()


def test_missing_data_says_where_to_put_it(run, tmp_path: Path) -> None:
    outcome = run("train", "cifar10-mmc", "--data-dir", tmp_path, "--out", tmp_path / "run")
    outcome.assert_refused("cifar-10-batches-py", "maxmahal data fetch cifar10")
    check = run("data", "check", "cifar10", "--data-dir", tmp_path)
    assert check.code == 2
    assert "missing" in check.out


def test_a_pickle_that_runs_code_is_refused(run, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self):  # type: ignore[no-untyped-def]
            return os.system, (f"touch {tmp_path}/executed",)

    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in ("batches.meta", "test_batch", *(f"data_batch_{number}" for number in range(1, 6))):
        (folder / name).write_bytes(pickle.dumps(Evil(), protocol=2))
    run("train", "cifar10-mmc", "--data-dir", tmp_path, "--out", tmp_path / "run").assert_refused("cifar-10-batches-py")
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "run").exists()


def test_corrupt_user_data_is_refused(run, tiny_npz: Path, tmp_path: Path) -> None:
    tiny_npz.write_bytes(tiny_npz.read_bytes()[:500])
    outcome = run("train", "digits-mmc", *TINY, "--set", f"data.source={tiny_npz}", "--out", tmp_path / "run")
    outcome.assert_refused("stripes.npz")


def test_a_disk_that_says_no(run, tiny_npz: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = run("train", "digits-mmc", *TINY, "--set", f"data.source={tiny_npz}", "--out", tmp_path / "file" / "run")
    outcome.assert_refused("Cannot write", "Choose another file or folder")
    on_a_file = run("train", "digits-mmc", *TINY, "--set", f"data.source={tiny_npz}", "--out", tmp_path / "file")
    on_a_file.assert_refused("is a file, and a run needs a folder")


def test_what_the_system_refuses_is_one_sentence(run, tiny_npz: Path, tmp_path: Path) -> None:
    outcome = run("train", "digits-mmc", *TINY, "--set", f"data.source={tiny_npz}", "--out", tmp_path / ("x" * 300))
    outcome.assert_refused("File name too long")


def test_users_code_that_fails_is_told_with_its_place(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mycode.py").write_text("def data(split):\n    return 1 / 0\ndef net(shape, dim):\n    return len\n")
    monkeypatch.chdir(tmp_path)
    run("train", "digits-mmc", "--set", "data.source=mycode:data").assert_refused(
        "ZeroDivisionError", "mycode.py, line 2"
    )
    run("train", "digits-mmc", "--set", "model.backbone=mycode:net").assert_refused("must return a torch.nn.Module")
    run("train", "digits-mmc", "--set", "model.backbone=mycode:bet").assert_refused("did you mean 'net'?")
    (tmp_path / "broken.py").write_text("def data(split:\n")
    run("train", "digits-mmc", "--set", "data.source=broken:data").assert_refused("cannot be imported: SyntaxError")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("layer", "name"), [("nn.LazyLinear(dim)", "1.weight"), ("nn.LazyBatchNorm1d(affine=False)", "1.running_mean")]
)
def test_a_network_of_lazy_layers_is_refused_before_training(
    run, layer: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = f"from torch import nn\ndef net(shape, dim):\n    return nn.Sequential(nn.Flatten(), {layer})\n"
    (tmp_path / "lazycode.py").write_text(code)
    monkeypatch.delitem(sys.modules, "lazycode", raising=False)
    monkeypatch.chdir(tmp_path)
    run("train", "digits-mmc", *TINY, "--set", "model.backbone=lazycode:net").assert_refused(
        f"'{name}' does not; give its lazy layers their widths"
    )
    assert not (tmp_path / "runs").exists()


def test_users_code_that_takes_other_arguments_is_told_its_own(run, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "othercode.py").write_text(
        "from torch import nn\n"
        "def net(): return 1\n"
        "def narrow(shape, dim): return nn.Sequential(nn.Flatten(), nn.Linear(64, 5))\n"
        "def data(): return 1\n"
        "def model(size): return 1\n"
    )
    monkeypatch.chdir(tmp_path)
    run("train", "digits-mmc", "--set", "model.backbone=othercode:net").assert_refused(
        "othercode:net is called with (image_shape, feature_dim), and net() cannot take that"
    )
    run("train", "digits-mmc", "--set", "model.backbone=othercode:narrow").assert_refused(
        "got (2, 5)", "--set model.feature_dim=5"
    )
    run("train", "digits-mmc", "--set", "data.source=othercode:data").assert_refused("is called with 'train' or 'test'")
    run("evaluate", "othercode:model", "--data", "digits", "--out", "out").assert_refused("called with no arguments")


def test_floats_that_are_rounded_are_noticed_in_one_sentence(run, tmp_path: Path) -> None:
    images = np.full((8, 8, 8), 0.5)  # 127.5 of 255
    labels = np.arange(8) % 2
    np.savez(tmp_path / "mine.npz", images=images, labels=labels, test_images=images * 0, test_labels=labels)
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as outside of tests
        done = run("data", "check", tmp_path / "mine.npz")
    assert done.code == 0
    assert (
        done.err
        == f"maxmahal: {tmp_path / 'mine.npz'}: images are stored as bytes: pixels were rounded by up to 0.5/255.\n"
    )


def test_a_resumed_run_goes_on_with_its_own_settings(run, tiny_npz: Path, tmp_path: Path) -> None:
    begun = ("train", "digits-mmc", "--out", tmp_path / "run", "--quiet")
    assert run(*begun, *TINY, "--set", f"data.source={tiny_npz}").code == 0
    run(*begun).assert_refused("already holds a run", "--resume")
    for words in ([], ["--set", "train.epochs=2"]):
        done = run(*begun, "--resume", *words)
        assert done.code == 0, done.err
    assert json.loads((tmp_path / "run" / "result.json").read_text())["settings"]["train"]["epochs"] == 2
    refused = run(*begun, "--resume", "--set", "train.epochs=1")
    refused.assert_refused("train.epochs was 2 and is now 1", "settings.toml")
    run(*begun, "--resume", "--set", "train.epochs=3").assert_refused("A cosine schedule ends at a learning rate of 0")
    other = run("train", "digits-sce", "--out", tmp_path / "run", "--resume", "--set", f"data.source={tiny_npz}")
    other.assert_refused("loss.name was 'mmc' and is now 'sce'")


def test_a_file_that_was_changed_is_not_resumed_in_silence(run, tiny_npz: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    text = f'extends = "digits-mmc"\n[data]\nsource = "{tiny_npz}"\n[train]\nbatch_size = 24\nepochs = '
    mine.write_text(text + "1\n")
    assert run("train", mine, "--out", tmp_path / "run", "--quiet").code == 0
    mine.write_text(text + "2\n")
    refused = run("train", mine, "--out", tmp_path / "run", "--resume")
    refused.assert_refused("train.epochs was 1 and is now 2")


def test_files_to_start_from_are_shown(run, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(run("presets", "--show", "cifar10-mmc").out)
    assert load_settings(mine) == load_settings("cifar10-mmc")
    mine.write_text(run("suites", "--show", "quick").out)
    assert load_suite(mine).stages == load_suite("quick").stages
    mine.write_text(run("reproduce", "--show", "digits").out)
    assert load_grid(mine).models == load_grid("digits").models
    run("presets", "--show", "digits-mcm").assert_refused("did you mean 'digits-mmc'?")
    run("suites", "--show", "quik").assert_refused("no suite 'quik'", "did you mean 'quick'?")
    run("reproduce", "--show", "digit").assert_refused("no grid 'digit'", "did you mean 'digits'?")


def test_data_commands(run, tmp_path: Path) -> None:
    listed = run("data", "list", "--data-dir", tmp_path)
    assert listed.code == 0
    assert "embedded" in listed.out
    assert "0 of 7 files here" in listed.out
    assert "embedded, with nothing to fetch" in run("data", "fetch", "digits").out
    run("data", "fetch", "cifar1").assert_refused("did you mean 'cifar10'?")
    assert run("data", "check", "digits").code == 0


def test_ctrl_c_ends_with_130(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("maxmahal.train.train_model", interrupted)
    outcome = run("train", "digits-mmc", "--out", "runs/a b", "--set", "train.epochs=6")
    assert outcome.code == 130
    assert outcome.err.count("\n") == 1
    assert "`maxmahal train digits-mmc --out 'runs/a b' --set train.epochs=6 --resume` to continue" in outcome.err
    assert outcome.err == run("train", "digits-mmc", "--out", "runs/a b", "--set", "train.epochs=6", "--resume").err
    monkeypatch.setattr("maxmahal.evaluate.evaluate_models", interrupted)
    assert "run the same command to continue" in run("evaluate", "runs/x", "--out", "runs/eval").err
    monkeypatch.setattr("maxmahal.density.compare_models", interrupted)
    assert "run the same command to start again" in run("density", "runs/x").err


def test_a_bug_keeps_its_traceback(run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("maxmahal.train.train_model", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        run("train", "digits-mmc")


SMALL_DEMO = "version = 1\nabout = 'small'\nepsilon = '0.1'\n" + "".join(
    f"""
[[stage]]
name = "{name}"
attack = "{attack}"
scope = "all"
{options}
"""
    for name, attack, options in (
        ("own-loss", "pgd", "objective = 'own'\nsteps = 2"),
        ("cross-entropy", "pgd", "objective = 'cross-entropy'\nsteps = 2"),
        ("margin", "pgd", "objective = 'margin'\nsteps = 2"),
        ("noise", "noise", "counts = false"),
        ("rotation", "rotation", "counts = false"),
    )
)


def test_the_demo_refuses_a_limit_before_it_trains(run, tmp_path: Path) -> None:
    run("demo", "--out", tmp_path / "demo", "--limit", 0).assert_refused("--limit")
    assert not (tmp_path / "demo").exists()


def test_the_demo_ends_with_a_report_of_what_it_prints(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = tmp_path / "small.toml"
    suite.write_text(SMALL_DEMO)
    monkeypatch.setattr(demo, "SUITE", str(suite))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        outcome = run("demo", "--out", tmp_path / "demo", "--epochs", 1, "--limit", 40, "--quiet")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)
    assert outcome.code == 0, outcome.err
    evaluations = {each.name: each for each in read_evaluations(tmp_path / "demo" / "records")}
    assert list(evaluations) == ["SCE", "MMC", "AT (MMC)", "SCE, 2 features", "MMC, 2 features"]
    for name in demo.ROWS:
        verdict = give_verdict(evaluations[name])
        assert verdict.robust.value <= min(
            each.accuracy.value for each in verdict.stages if each.stage.counts and each.accuracy
        )
        assert f"{100 * verdict.robust.value:.1f}" in outcome.out
        assert f"{name}: {verdict.headline}" in " ".join(outcome.out.split())
    page = tmp_path / "demo" / "report.html"
    assert str(page) in outcome.out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "demo" / "digits-at-mmc" / "best.safetensors").exists()


@pytest.mark.parametrize("words", [(), ("train",), ("evaluate",), ("records",), ("data", "fetch"), ("reproduce",)])
def test_help_shows_flags_as_flags(run, words: tuple[str, ...]) -> None:
    text = run(*words, "--help").out
    assert "--help" in text
    assert "<bool>" not in text
    assert "--no-" not in text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("maxmahal train digits-at", ["digits-at-mmc", "digits-at-sce"]),
        ("maxmahal evaluate runs/x --suite autoat", ["autoattack"]),
        ("maxmahal reproduce table5", ["table5-cifar10", "table5-cifar100"]),
        ("maxmahal evaluate some-", ["some-model"]),
        ("maxmahal eval", ["evaluate"]),
    ],
)
def test_shells_complete_names(
    run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, expected: list[str]
) -> None:
    (tmp_path / "some-model.safetensors").touch()
    monkeypatch.setenv("MAXMAHAL_ZOO", str(tmp_path))
    monkeypatch.setenv("_MAXMAHAL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert run().out.split() == expected


def test_a_narrow_table_keeps_names_whole() -> None:
    rows = [("mmc", "apgd-cross-entropy-restarts", "12"), ("sce", "apgd-margin", "3")]
    for width in (20, 30, 60):
        stream = io.StringIO()
        console = Console(file=stream, width=width)
        print_table(console, ("model", "attack", "broken"), rows, right=("broken",))
        words = stream.getvalue().replace(",", " ").split()
        assert {cell for row in rows for cell in row} <= set(words)
        assert ("broken 12" in stream.getvalue()) == (width < 60)


@pytest.mark.parametrize(("count", "text"), [(0, "0 samples"), (1, "1 sample"), (2000, "2,000 samples")])
def test_counts_have_their_number(count: int, text: str) -> None:
    assert counted(count, "sample") == text


@pytest.mark.parametrize(("rate", "text"), [(3680.4, "3,680/s"), (12.3, "12/s"), (1.44, "1.4/s"), (0.031, "0.031/s")])
def test_rates_are_short(rate: float, text: str) -> None:
    assert per_second(rate) == text
