"""Write the README's tables from the records they report, so that no number is typed by hand.

python -m paper.readme            # writes
python -m paper.readme --check    # exits with 1 if the README says something else than the records
"""

import json
import math
import sys
from pathlib import Path
from typing import Any

from paper.pages import read_shelf, readme_block
from paper.pages.paired import Difference

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RECORDS = ROOT / "paper" / "studies" / "records"
RESULTS = ROOT / "benchmarks" / "results"
PUBLISHED = ROOT / "paper" / "results"


def record(name: str) -> dict[str, Any]:
    """One study's record."""
    content: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def benchmark(name: str) -> dict[str, Any]:
    """One benchmark's results."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def percent(share: float) -> str:
    """One decimal."""
    return f"{100 * share:.1f}"


def honesty() -> str:
    """MMC without adversarial training under weak and under strong attacks."""
    study = record("honesty")
    lines = [
        f"Digits, {study['images']} test images, {study['norm']} {study['epsilon']}: the smallest epsilon of the grid "
        f"at which SCE's worst case is at most {100 * study['broken_means']:g} %. Accuracies in %.",
        "",
        "| model | clean | PGD-50, cross-entropy | PGD-50, the paper's un,1 | PGD-50, margin | worst case | "
        "epsilon where the worst case is ≤ 1 % |",
        "|---|---|---|---|---|---|---|",
    ]
    columns = ("clean", "cross_entropy_pgd", "un1_pgd", "margin_pgd", "worst_case")
    for row in study["rows"]:
        cells = " | ".join(percent(row[column]) for column in columns)
        lines.append(f"| {row['model']} | {cells} | {row['broken_at']:g} |")
    return "\n".join(lines)


def convergence() -> str:
    """PGD against steps and restarts."""
    study = record("convergence")
    steps, restarts = study["steps"], study["restarts"]
    heads = [f"{value} steps" for value in steps] + [f"50 steps, {value} starts" for value in restarts[1:]]
    lines = [
        f"Accuracy in % under PGD at {study['threat']}, step {study['step_size']:g}:",
        "",
        f"| model, objective | {' | '.join(heads)} |",
        "|---" * (len(heads) + 1) + "|",
    ]
    for row in study["rows"]:
        cells = [percent(value) for value in [*row["by_steps"], *row["by_restarts"][1:]]]
        lines.append(f"| {row['model']}, {row['objective']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def peers() -> str:
    """For every budget and model: ours, and the best of all the peers' attacks that spend as much."""
    study = record("peers_table")
    rows = study["rows"]
    models, budgets = (list(dict.fromkeys(row[key] for row in rows)) for key in ("model", "budget"))
    lines = [
        f"Accuracy in % at {study['threat']} on {study['images']} digits, ours / the best of the peers' attacks that "
        "may spend as much on a sample:",
        "",
        f"| budget | {' | '.join(models)} |",
        "|---" * (len(models) + 1) + "|",
    ]
    for budget in budgets:
        cells = []
        for model in models:
            chosen = [row for row in rows if (row["budget"], row["model"]) == (budget, model)]
            theirs = {name: left for row in chosen for name, left in row["peers"].items()}
            best = min(theirs, key=lambda name: theirs[name])
            ours = percent(chosen[0]["ours"] / study["images"])
            cells.append(f"**{ours}** / {percent(theirs[best] / study['images'])} ({best})")
        lines.append(f"| {budget} | {' | '.join(cells)} |")
    return "\n".join(lines)


def every_peer() -> str:
    """The whole table of peers, as a page of its own."""
    study = record("peers_table")
    libraries = ", ".join(f"{name} {version}" for name, version in study["versions"].items())
    lines = [
        f"# Our attacks beside {len(study['versions'])} libraries'",
        "",
        f"Samples of {study['images']} digits that are left at {study['threat']}; fewer is stronger. *Same kind* is "
        "our attack of the same algorithm and settings, from several seeds where it draws random numbers; *ours* is "
        "what we would spend the budget on.",
        "",
        f"Measured against {libraries}; no peer's attack leaves more than {study['largest_lead_of_a_peer']} samples "
        "fewer than ours. Written by `paper/readme.py` from `peers_table.json`.",
        "",
        "| model | attack | budget a sample | ours | same kind | peers |",
        "|---|---|---|---|---|---|",
    ]
    for row in study["rows"]:
        same_kind = ", ".join(map(str, row["same_kind"]))
        theirs = ", ".join(f"{name} {left}" for name, left in row["peers"].items())
        first = f"| {row['model']} | {row['attack']} | {row['budget']} "
        lines.append(f"{first}| {row['ours']} | {same_kind} | {theirs} |")
    return "\n".join(lines) + "\n"


def speed() -> str:
    """Each benchmark against other libraries: ours, and the fastest of theirs, with what either achieved."""
    lines = [
        "| case | ours | fastest peer | times faster |",
        "|---|---|---|---|",
    ]
    for name in ("attack_peers_pgd10_cpu", "attack_peers_pgd50_cpu", "attack_peers_carlini_cpu"):
        for case in benchmark(name)["cases"]:
            ours, *others = sorted(case["rows"], key=lambda row: row["library"] != "maxmahal")
            peer = min(others, key=lambda row: row["seconds"])
            title = f"{case['case']}, {case['model']}, {case['images']} images, CPU"
            cells = f"{scored(ours)} | {peer['library']}: {scored(peer)}"
            lines.append(f"| {title} | {cells} | {peer['ours_is_faster_by']:.1f} |")
    for name, which in (("attack_pgd10_cuda", "all"), ("attack_pgd10_right_cuda", "those it gets right")):
        study = benchmark(name)
        rows = sorted(study["rows"], key=lambda row: row["seconds"])
        ours, peer = (
            next(row for row in rows if row["who"].startswith("maxmahal") == is_ours) for is_ours in (True, False)
        )
        title = f"PGD-10, {study['run']}, {study['images']} CIFAR-10 images ({which}), {study['device']}"
        cells = f"{scored(ours)} | {peer['who']}: {scored(peer)}"
        lines.append(f"| {title} | {cells} | {peer['slower_than_our_best']:.1f} |")
    return "\n".join(lines)


def engine(results: Path = RESULTS, published: Path = PUBLISHED) -> str:
    """How fast training is on a GPU, beside the plain float32 loop in the same run."""
    path = results / "train_engine_cuda.json"
    if not path.exists():
        return "`python benchmarks/train_engine.py --device cuda --processes 3` measures it."
    study = json.loads(path.read_text(encoding="utf-8"))
    limit = study["bandwidth_limit_images_per_second"]
    lines = [
        f"ResNet-32 with 256 features on {study['device']}, torch {study['torch']}, {study['date']} "
        f"(`{study['command']}`); the limit is what memory bandwidth would allow, {limit:,.0f} images/s:",
        "",
        "| training | images/s | times the plain float32 loop at its batch | "
        "times the fastest plain loop of its kind | share of the limit |",
        "|---|---:|---:|---:|---:|",
    ]
    fastest = fastest_plain(study["rows"])
    for row in study["rows"]:
        speed, best = row["images_per_second"], fastest.get(kind_of(row["name"], "engine"))
        same, share = row.get("times_faster_than_plain"), row.get("share_of_bandwidth_limit")
        factors = (same, None if best is None else speed / best)
        cells = [f"{speed:,.0f}", *("–" if each is None else f"{each:.1f}" for each in factors)]
        lines.append(f"| {row['name']} | {' | '.join(cells)} | {'–' if share is None else f'{percent(share)} %'} |")
    for row in study.get("processes", []):
        title = f"{row['name']}, {row['processes']} processes together"
        lines.append(f"| {title} | {row['images_per_second']:,.0f} | – | – | – |")
    pgd = study["pgd50"]
    lines += [
        "",
        f"A step of MMC takes {study['mmc_over_sce']:.3f} times as long as one of SCE. PGD-50 on {pgd['images']:,} "
        f"images that never break takes {pgd['seconds']:.1f} s, the first time, with compilation, "
        f"{pgd['first_seconds']:.0f} s.{bfloat16_cost(published)}",
    ]
    return "\n".join(lines)


def kind_of(name: str, who: str) -> str | None:
    """ "PGD-10" of "engine PGD-10, batch 256", and "" of "engine, batch 256"; None of what somebody else did."""
    first, _, rest = name.partition(",")[0].partition(" ")
    return rest if first == who else None


def fastest_plain(rows: list[dict[str, Any]]) -> dict[str | None, float]:
    """Images a second of the best plain loop of each kind, whatever its batch."""
    found: dict[str | None, float] = {}
    for row in rows:
        if (kind := kind_of(row["name"], "plain")) is not None:
            found[kind] = max(found.get(kind, 0.0), row["images_per_second"])
    return found


def bfloat16_cost(published: Path) -> str:
    """What bfloat16 changes in the clean accuracy, seed by seed; empty where it was not measured.

    Empty too where the runs differ in more than their precision and seed: that would be another comparison.
    """
    ends: dict[str, dict[str, float]] = {"bfloat16": {}, "float32": {}}
    known, ways = [], set()
    for run in read_shelf(published).runs:
        name, _, seed = run.name.removeprefix("precision-").partition("-seed")
        if run.name.startswith("precision-") and name in ends and run.finished:
            ends[name][seed] = 100 * run.epochs[-1]["test_accuracy"]
            known.append(run.settings)
            ways.add((len(run.epochs), without_precision(run.settings)))
    seeds = sorted(ends["bfloat16"].keys() & ends["float32"].keys())
    if len(seeds) < 2 or len(ways) != 1:
        return ""
    found = Difference(tuple(ends["bfloat16"][seed] - ends["float32"][seed] for seed in seeds))
    coarse, fine = (math.fsum(ends[name][seed] for seed in seeds) / len(seeds) for name in ends)
    low, high = found.interval
    train, loss = known[0]["train"], known[0]["loss"]["name"].upper()
    return (
        f" Training {loss} in bfloat16 instead of float32 (batch {train['batch_size']}, learning rate {train['lr']:g}, "
        f"{ways.pop()[0]} epochs, {found.n} paired seeds) moves the accuracy on clean images by {found.mean:+.2f} "
        f"points [{low:+.2f}, {high:+.2f}], a 95 % t interval over seeds: {coarse:.1f} % instead of {fine:.1f} % on "
        "average. Robust accuracy was not compared."
    )


def without_precision(settings: dict[str, Any]) -> str:
    """What two trainings share that differ in their precision and their seed alone."""
    left_out = {"cuda": "precision", "train": "seed"}
    return json.dumps(
        {
            name: {key: each for key, each in table.items() if key != left_out.get(name)}
            if isinstance(table, dict)
            else table
            for name, table in settings.items()
        },
        sort_keys=True,
    )


def classes() -> str:
    """What a hundred thousand classes cost, and how far apart their centers are."""
    study = benchmark("many_classes_cpu")
    most = max(row["num_classes"] for row in study["rows"])
    rows = {row["what"]: row for row in study["rows"] if row["num_classes"] == most}
    slopes = {row["what"]: row for row in study["exponents"] if row["of"] == "ms"}
    found = next(row for row in study["quality"] if row["num_classes"] == most)
    lines = [
        f"With {most:,} classes in {study['dim']} dimensions, batches of {study['batch_size']}, "
        f"{study['threads']} CPU thread{'s' if study['threads'] > 1 else ''}:",
        "",
        "| training, the head alone | milliseconds | grows with the classes as | memory of a call, MB |",
        "|---|---:|---:|---:|",
    ]
    for title, what in (("MMC", "mmc_loss"), ("SCE", "sce_step"), ("ArcFace", "arcface_step")):
        slope = f"L^{slopes[what]['exponent']:.2f} ± {slopes[what]['standard_error']:.2f}"
        lines.append(f"| {title} | {rows[what]['ms']:,.1f} | {slope} | {rows[what]['peak_mb']:,.0f} |")
    lines += [
        "",
        "MMC's loss reads the center of the true class and no other: a whole training step with so many takes "
        f"{study['step']['ratio']:.2f} times as long as with {min(row['num_classes'] for row in study['rows'])}. The "
        f"centers, {rows['mmc_loss']['held_mb']:,.0f} MB, are made in {rows['centers']['ms'] / 1000:.1f} s and are at "
        f"least {found['smallest_angle']:.1f}° apart; random ones {found['random_smallest_angle']:.1f}°, and no code "
        f"can have more than {found['bound_smallest_angle']:.1f}°.",
    ]
    return "\n".join(lines)


def scored(row: dict[str, Any]) -> str:
    """Seconds, and what the attack achieved in them."""
    if "mean_distortion" in row:
        return f"{row['seconds']:.3g} s, mean L2 distance {row['mean_distortion']:.3f}"
    return f"{row['seconds']:.3g} s, {percent(row['accuracy'])} % left"


def masked() -> str:
    """Masked models before and after, and how strict compares with AutoAttack."""
    study = record("false_robustness")
    rows, ordinary = study["rows"], study["ordinary"]
    unmasked = rows[study["unmasked"]]["robust"]
    lines = [
        f"One ordinary network (worst case {percent(unmasked)} %) behind several masks, and MMC; digits, "
        f"Linf {study['epsilon']}, accuracies in %:",
        "",
        "| model | clean | PGD-20 on cross-entropy | worst case of `strict` | what was seen |",
        "|---|---|---|---|---|",
    ]
    for title, row in rows.items():
        if title not in ordinary:
            gap = row["numbers"].get("objective-gap", {}).get("cross_entropy")
            naive = "no gradient" if gap is None else percent(gap)
            cells = (percent(row["clean"]), naive, f"**{percent(row['robust'])}**", ", ".join(row["flags"]))
            lines.append(f"| {title.removeprefix('masked: ')} | {' | '.join(cells)} |")
    flagged = sum(bool(rows[title]["flags"]) for title in ordinary)
    lines += [
        "",
        f"Of {len(ordinary)} ordinary models (SCE, center loss, adversarial training; seeds that no threshold was "
        f"chosen on) {flagged or 'none'} {'were' if flagged > 1 else 'was'} flagged. "
        "Beside AutoAttack's standard suite:",
        "",
        "| model | `strict` | AutoAttack | time of `strict` over AutoAttack's |",
        "|---|---|---|---|",
    ]
    for title, both in study["beside"].items():
        ours, theirs = both["strict"], both["autoattack"]
        ratio = f"{ours['seconds'] / theirs['seconds']:.2f}"
        lines.append(f"| {title} | {percent(ours['robust'])} | {percent(theirs['robust'])} | {ratio} |")
    return "\n".join(lines)


def results() -> str:
    """The paper's rows on CIFAR-10 and its claims, from the published summaries."""
    return readme_block(read_shelf(PUBLISHED, RESULTS))


BLOCKS = {
    "honesty": honesty,
    "convergence": convergence,
    "peers": peers,
    "speed": speed,
    "engine": engine,
    "classes": classes,
    "masked": masked,
    "results": results,
}
PAGES = {RECORDS / "peers_table.md": every_peer}


def rendered(text: str) -> str:
    """The README with every block between its markers made anew."""
    for name, render in BLOCKS.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"README.md must hold one pair of '{name}' markers.")
        before, rest = text.split(begin)
        text = f"{before}{begin}{render()}\n{end}{rest.split(end)[1]}"
    return text


def wanted() -> dict[Path, str]:
    """What the README and the pages beside it should say."""
    return {README: rendered(README.read_text(encoding="utf-8"))} | {path: page() for path, page in PAGES.items()}


def write() -> None:
    """Make them say it."""
    for path, text in wanted().items():
        path.write_text(text, encoding="utf-8")


def check() -> None:
    """End with 1 at the first that says something else."""
    for path, text in wanted().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{path.name} does not say what the records say: run paper/readme.py.")


def main() -> None:
    """Write, or compare."""
    check() if "--check" in sys.argv[1:] else write()


if __name__ == "__main__":
    main()
