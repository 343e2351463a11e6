"""Publish results: collect summaries from a reproduction's folder, and write every page, figure and card from them.

python tools/results.py collect OUT   # OUT/records and OUT/models -> results/evaluations and results/runs
python tools/results.py zoo OUT       # the last checkpoints of finished runs -> zoo
python tools/results.py write         # results/*.md, results/figures, the zoo's cards, the README's block (default)
python tools/results.py write --check # exits with 1 if any of them says something else than the summaries
"""

import argparse
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import readme
from maxmahal.evaluate import read_evaluations
from maxmahal.evaluate.fingerprints import fingerprint_model
from maxmahal.evaluate.records.schema import FILE
from maxmahal.evaluate.summary import summarise, summarise_run, write_summary
from maxmahal.files import write_atomically, write_text_atomically
from maxmahal.report.published import (
    EVALUATIONS,
    RUNS,
    ZOO,
    card,
    claims_page,
    figures,
    index,
    read_shelf,
    results_page,
)
from maxmahal.train import RunFolder, load_model

ROOT = Path(__file__).resolve().parent.parent
RESULTS, FIGURES, MODELS = "results", "figures", "zoo"


def collect(out: Path, root: Path = ROOT) -> list[Path]:
    """Summaries of every finished evaluation and of every run that has finished an epoch."""
    written = []
    records = out / "records"
    known = read_evaluations(records) if (records / FILE).exists() else []
    named = [(_file_name(summary), summary) for summary in (summarise(each) for each in known if each.finished)]
    for name, count in Counter(name for name, _ in named).items():
        if count > 1:
            raise SystemExit(f"{records} holds {count} evaluations for {name}; keep one data set a folder.")
    for name, summary in named:
        written.append(root / RESULTS / EVALUATIONS / name)
        write_summary(written[-1], summary)
    for folder in sorted((out / "models").glob("*")):
        run = RunFolder(folder)
        if run.settings.exists() and run.metrics.exists():
            written.append(root / RESULTS / RUNS / f"{folder.name}.json")
            write_summary(written[-1], summarise_run(folder))
    if not written:
        raise SystemExit(f"{out} holds no finished evaluation and no run; give the folder of `maxmahal reproduce`.")
    return written


def _file_name(summary: dict[str, Any]) -> str:
    """Model and suite; how many images and which seed of the attacks only where these are not the usual ones."""
    size = f"-{summary['samples']}" if summary["limited"] else ""
    seed = f"-seed{summary['seed']}" if summary["seed"] else ""
    return f"{summary['name']}--{summary['suite']}{size}{seed}.json"


def fill_zoo(out: Path, root: Path = ROOT) -> list[Path]:
    """Copy the last checkpoints of finished runs; one that is not the model its numbers are of is refused."""
    shelf = read_shelf(root / RESULTS)
    copied = []
    for name, model in ZOO.items():
        run = RunFolder(out / "models" / model)
        if not run.result.exists():
            continue
        fingerprint = fingerprint_model(load_model(run.last))
        for summary in shelf.evaluations:
            if summary.name == model and summary.model_fingerprint != fingerprint:
                raise SystemExit(f"{run.last} is not the model of {model}--{summary.suite}.json; collect {out} first.")
        copied.append(root / MODELS / f"{name}.safetensors")
        write_atomically(copied[-1], partial(shutil.copyfile, run.last))
    return copied


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file but the README, and what it should say; nothing as long as nothing was collected."""
    wanted: dict[Path, str] = {}
    shelf = read_shelf(root / RESULTS)
    if shelf.evaluations or shelf.runs:
        drawn = figures(shelf)
        wanted[root / RESULTS / "README.md"] = results_page(shelf, list(drawn))
        wanted[root / RESULTS / "claims.md"] = claims_page(shelf)
        wanted |= {root / RESULTS / FIGURES / name: text for name, text in drawn.items()}
    names = [name for name in ZOO if (root / MODELS / f"{name}.safetensors").exists()]
    wanted |= {root / MODELS / f"{name}.md": card(shelf, name) for name in names}
    if names:
        wanted[root / MODELS / "README.md"] = index(shelf, names)
    return wanted


def stale(root: Path, wanted: dict[Path, str]) -> list[Path]:
    """Generated files that nothing stands behind any more."""
    found = [*(root / RESULTS).glob("*.md"), *(root / RESULTS / FIGURES).glob("*.svg"), *(root / MODELS).glob("*.md")]
    return sorted(path for path in found if path not in wanted)


def write(root: Path = ROOT) -> None:
    """Make everything anew, and take away what is stale."""
    wanted = pages(root)
    for path, text in wanted.items():
        write_text_atomically(path, text)
    for path in stale(root, wanted):
        path.unlink()


def check(root: Path = ROOT) -> None:
    """End with 1 at the first file that differs from what the summaries say."""
    wanted = pages(root)
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{path.relative_to(root)} does not say what the summaries say: run tools/results.py.")
    for path in stale(root, wanted):
        raise SystemExit(f"{path.relative_to(root)} stands for nothing any more: run tools/results.py.")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    for name in ("collect", "zoo"):
        commands.add_parser(name).add_argument("out", type=Path)
    commands.add_parser("write").add_argument("--check", action="store_true")
    parser.add_argument("--check", action="store_true", dest="check_all")
    options = parser.parse_args()
    if options.command == "collect":
        print(f"{len(collect(options.out))} summaries in {RESULTS}; `tools/results.py write` makes the pages.")
    elif options.command == "zoo":
        copied = fill_zoo(options.out)
        write()
        print(f"{len(copied)} models in {MODELS}.")
    elif options.check_all or getattr(options, "check", False):
        check()
        readme.check()
    else:
        write()
        readme.write()


if __name__ == "__main__":
    main()
