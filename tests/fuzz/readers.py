"""Every reader of a user's file, with valid files and how to change them. A new reader is one entry of READERS."""

import contextlib
import gzip
import io
import math
import shutil
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

import maxmahal
from maxmahal import cli
from maxmahal.attacks import Linf, parse_epsilon
from maxmahal.centers import ClassTree
from maxmahal.centers.trees import load_tree, write_tree
from maxmahal.data import check_dataset, load_dataset
from maxmahal.evaluate import evaluate_model
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.evaluate.suite import load_suite
from maxmahal.records import read_evaluations
from maxmahal.records.export import write_records
from maxmahal.report import results_tables, to_csv, to_latex, to_markdown
from maxmahal.reproduce import make_plan
from maxmahal.reproduce.grid import load_grid
from maxmahal.reproduce.states import read_recorded, training_state
from maxmahal.train import RunFolder, load_card, load_model, load_settings, train_model
from maxmahal.train.checkpoint import load_progress
from maxmahal.train.presets import resumed_settings
from maxmahal.uncertainty.record import Detection, ModelUncertainty, ScoreResult, UncertaintyRecord, read_record
from maxmahal.uncertainty.record import write_record as write_uncertainty
from tests.cli.untrusted_files import PRESET, SETTINGS, make_files
from tests.data.conftest import idx_bytes, write_pickle
from tests.fuzz import corpus
from tests.fuzz.mutate import (
    Mutator,
    also_bytes,
    change_bytes,
    change_idx,
    change_image,
    change_json,
    change_lines,
    change_npz,
    change_pickle,
    change_records,
    change_safetensors,
    change_text,
    change_toml,
)  # fmt: skip

SUITE = """
version = 1
about = "one stage of two kinds, and the diagnostics"
epsilon = "0.3"
diagnose = true
stage = [{name = "pgd", attack = "pgd", steps = 2}, {name = "square", attack = "square", queries = 5}]
"""
OPTIONS = ["train.lr=0.1", "train.epochs=3", "data.source=digits", "loss.name=mmc", "model.feature_dim=8", "data={}",
           "method.name=adversarial", "centers.scale=10", "model.backbone='cnn'", "loss={name='sce'}"]  # fmt: skip
EPSILONS = ["8/255", "0.3", "1e-3", "1", "0.031", "16/255"]
NAMES = ["digits", "mnist", "stripes.npz", "images@8-4", "run", "tree.toml", "in.toml", "eval", "zoo:cifar10-mmc"]


@dataclass(frozen=True)
class Reader:
    """What is read, and the files of which one is changed for each input."""

    files: Mapping[str, Mutator]
    reads: tuple[Callable[[], object], ...]
    beside: tuple[str, ...] = ()
    """Files and folders that are needed and stay as they are."""
    known: Mapping[str, corpus.Content] = field(default_factory=dict)
    """Inputs by name, for the first of the files."""
    share: float = 1.0
    """Of the inputs; less where one takes long."""
    seconds: int = 10
    """The longest that reading an input may take."""
    names_code: bool = False
    """Whether it is a request, which may name code and files outside."""


def make_examples(path: str | Path) -> None:
    """A valid file of every kind, made by the library itself where it writes such files."""
    folder = Path(path)
    make_files(folder)
    with contextlib.chdir(folder):
        Path("small.toml").write_text(SUITE)
        shutil.rmtree("eval")
        evaluate_model("run", out="eval", suite="small.toml", limit=12)
        shutil.copy("run/settings.toml", "in.toml")
        Path("run/diverged.json").write_text('{"epoch": 2, "settings": {"train": {"lr": 0.1}}}')
        for name, lines in (("set.txt", OPTIONS), ("epsilon.txt", EPSILONS), ("name.txt", NAMES)):
            Path(name).write_text("\n".join(lines))
        write_tree(Path("tree.toml"), ClassTree((0, 0, 1), ("a", "b", "c"), "a tree"))
        write_uncertainty(Path("uncertainty.json"), uncertainty_record())
        Path("zoo").mkdir()
        shutil.copy("run/last.safetensors", "zoo/own.safetensors")
        Path("zoo/own.md").write_text("| clean | x | 97.0 |\n| worst case of `strict` | y | 40.1 |\n")
        write_published(Path("data"))
        for split in ("train", "test"):
            for label in ("cat", "dog"):
                Path(f"images/{split}/{label}").mkdir(parents=True)
                Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(f"images/{split}/{label}/0.png")
        Path("0.cls").write_text("1")
        with tarfile.open("shard.tar", "w") as tar:
            tar.add("images/test/cat/0.png", "a/0.png")
            tar.add("0.cls", "a/0.cls")


def uncertainty_record() -> UncertaintyRecord:
    found = Detection(0.5, 0.6, math.nan)
    score = ScoreResult("msp", 0.9, 0.1, {"noise": 0.9}, found, found)
    model = ModelUncertainty("own", "mmc", 0, "digits", 10, 0.9, 0.1, 0.01, "ab12", (score,))
    return UncertaintyRecord("8/255", 0, 10, ("noise",), (model,))


def write_published(folder: Path) -> None:
    """CIFAR-10, CIFAR-100 and MNIST in their own formats, of three images each."""
    rows, labels = np.arange(3 * 3072, dtype=np.uint8).reshape(3, 3072), [0, 1, 2]
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        write_pickle(folder / "cifar-10-batches-py" / name, {b"data": rows, b"labels": labels})
    write_pickle(folder / "cifar-10-batches-py/batches.meta", {b"label_names": [b"name"] * 10})
    for name in ("train", "test"):
        both = {b"fine_labels": labels, b"coarse_labels": labels}
        write_pickle(folder / "cifar-100-python" / name, {b"data": rows, **both})
    names = {b"fine_label_names": [b"name"] * 100, b"coarse_label_names": [b"name"] * 20}
    write_pickle(folder / "cifar-100-python/meta", names)
    (folder / "MNIST/raw").mkdir(parents=True)
    for prefix in ("train", "t10k"):
        for kind, values in (("images-idx3", np.zeros((3, 28, 28))), ("labels-idx1", np.arange(3))):
            (folder / f"MNIST/raw/{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx_bytes(values)))


def change_option(random: Random, data: bytes) -> bytes:
    """One of several lines, changed."""
    return change_text(random, random.choice(data.splitlines()))


def given(name: str) -> str:
    """A text as the user gave it; a file keeps it here so that it can be repeated."""
    return Path(name).read_bytes().decode(errors="surrogatepass")


def command(*words: str, codes: tuple[int, ...] = (0, 2)) -> None:
    """A command as a user types it: only these exit codes, nothing but text printed."""
    shown, before = io.StringIO(), sys.argv
    sys.argv = ["maxmahal", *words]
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            cli.main()
    except SystemExit as stop:
        if (stop.code or 0) not in codes:
            raise
    finally:
        sys.argv = before
    odd = [char for char in shown.getvalue() if char != "\n" and not char.isprintable()]
    assert not odd, f"{odd[0]!r} is printed"


def tables() -> None:
    """As the commands report and records do."""
    evaluations = read_evaluations("eval")
    for table in results_tables(evaluations):
        to_markdown(table), to_csv(table), to_latex(table)
    for kind in ("csv", "json"):
        write_records(evaluations, Path(f"out.{kind}"), kind)


def resume() -> None:
    folder = RunFolder("run")
    # Compiling, which a run may ask for, writes the caches of torch's compiler.
    settings = resumed_settings(PRESET, [*SETTINGS, "cpu.compile=false"], folder)
    train_model(settings, folder.path, resume=True)


RUN = ("run", "stripes.npz")
READERS = {
    "preset": Reader({"in.toml": also_bytes(change_toml)}, (lambda: load_settings("in.toml"),), (), corpus.TOML,
                     names_code=True),
    "set": Reader({"set.txt": change_option}, (lambda: load_settings(PRESET, [given("set.txt")]),), (), corpus.OPTIONS,
                  names_code=True),
    "suite": Reader({"small.toml": also_bytes(change_toml)}, (lambda: load_suite("small.toml"),), (), corpus.TOML,
                    names_code=True),
    "grid": Reader({"grid.toml": also_bytes(change_toml)}, (lambda: make_plan(load_grid("grid.toml"), "grid"),),
                   ("small.toml", "stripes.npz"), corpus.GRIDS,
                   names_code=True),
    "tree": Reader({"tree.toml": also_bytes(change_toml)}, (lambda: load_tree("tree.toml").groups(),), (), corpus.TOML),
    "epsilon": Reader({"epsilon.txt": change_option},
                      (lambda: parse_epsilon(given("epsilon.txt")), lambda: Linf(given("epsilon.txt"))), (),
                      corpus.OPTIONS),
    "records": Reader({"eval/records.sqlite": also_bytes(change_records)},
                      (tables, lambda: read_recorded(Path("eval"))), (), corpus.RECORDS),
    "page": Reader({"eval/records.sqlite": change_records},
                   (lambda: command("report", "eval", "--out", "page.html"), lambda: command("records", "eval")), (),
                   corpus.RECORDS, share=0.05),
    "continue": Reader({"eval/records.sqlite": change_records},
                       (lambda: evaluate_model("run", out="eval", suite="small.toml", limit=12),),
                       (*RUN, "small.toml"), corpus.CONTINUED, share=0.05, seconds=60),
    "metrics": Reader({"run/metrics.jsonl": also_bytes(change_lines)},
                      (lambda: load_target("run"), lambda: training_state(Path("run"), load_settings(PRESET, SETTINGS)),
                       lambda: RunFolder("run").keep_metrics(1)),
                      ("run/last.safetensors", "run/state.safetensors", "run/settings.toml", "stripes.npz"),
                      corpus.LINES),
    "run": Reader({"run/settings.toml": also_bytes(change_toml), "run/result.json": also_bytes(change_json),
                   "run/diverged.json": also_bytes(change_json)},
                  (lambda: training_state(Path("run"), load_settings(PRESET, SETTINGS)), lambda: load_target("run")),
                  RUN, corpus.TOML),
    "checkpoint": Reader({"run/last.safetensors": also_bytes(change_safetensors)},
                         (lambda: load_model("run"), lambda: load_card(Path("run/last.safetensors"))), RUN,
                         corpus.CHECKPOINTS),
    "state": Reader({"run/state.safetensors": also_bytes(change_safetensors)},
                    (lambda: load_progress(Path("run/state.safetensors")), resume), RUN, corpus.STATES, share=0.3),
    "npz": Reader({"stripes.npz": also_bytes(change_npz)},
                  (lambda: load_dataset("stripes.npz", "train"), lambda: load_dataset("stripes.npz", "test")), (),
                  corpus.NPZ),
    "cifar10": Reader({f"data/cifar-10-batches-py/{name}": also_bytes(change_pickle)
                       for name in ("test_batch", "batches.meta")},
                      (lambda: load_dataset("cifar10", "test", "data"),), (), corpus.PICKLES),
    "cifar100": Reader({f"data/cifar-100-python/{name}": also_bytes(change_pickle) for name in ("train", "meta")},
                       (lambda: load_dataset("cifar100", "train", "data"),), (), corpus.PICKLES),
    "mnist": Reader({f"data/MNIST/raw/t10k-{kind}-ubyte.gz": also_bytes(change_idx)
                     for kind in ("images-idx3", "labels-idx1")},
                    (lambda: load_dataset("mnist", "test", "data"), lambda: check_dataset("mnist", "data")), (),
                    corpus.GZIP),
    "tar": Reader({"shard.tar": change_bytes}, (lambda: load_dataset("shard.tar", "test"),), (), corpus.TARS),
    "images": Reader({"images/train/cat/0.png": also_bytes(change_image), "images/test/dog/0.png": change_image},
                     (lambda: load_dataset("images", "train"), lambda: load_dataset("images", "test")), ("images",),
                     corpus.IMAGES),
    "uncertainty": Reader({"uncertainty.json": also_bytes(change_json)},
                          (lambda: read_record(Path("uncertainty.json")),), (), corpus.JSON),
    "zoo": Reader({"zoo/own.safetensors": also_bytes(change_safetensors), "zoo/own.md": change_bytes},
                  (lambda: command("zoo", codes=(0, 1, 2)),), (), corpus.CHECKPOINTS, share=0.3),
    "names": Reader({"name.txt": change_option},
                    tuple(lambda read=read: read(given("name.txt")) for read in (  # type: ignore[misc]
                        load_dataset, maxmahal.load, load_settings, load_suite, load_grid, load_tree, read_evaluations,
                        lambda name: read_record(Path(name)), load_target)),
                    ("images", "tree.toml"), corpus.OPTIONS, names_code=True),
    "train": Reader({"set.txt": change_option},
                    (lambda: train_model(load_settings(PRESET, [*SETTINGS, given("set.txt")]), "new"),),
                    ("stripes.npz",), corpus.OPTIONS, share=0.02, names_code=True),
}  # fmt: skip
