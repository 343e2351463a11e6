"""Write the README's tables from the records they report, so that no number is typed by hand.

python tools/readme.py            # writes
python tools/readme.py --check    # exits with 1 if the README says something else than the records
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RECORDS = ROOT / "studies" / "records"


def record(name: str) -> dict[str, Any]:
    """One study's record."""
    content: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
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


BLOCKS = {"honesty": honesty, "convergence": convergence}


def rendered(text: str) -> str:
    """The README with every block between its markers made anew."""
    for name, render in BLOCKS.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"README.md must hold one pair of '{name}' markers.")
        before, rest = text.split(begin)
        text = f"{before}{begin}{render()}\n{end}{rest.split(end)[1]}"
    return text


def main() -> None:
    """Write, or compare."""
    before = README.read_text(encoding="utf-8")
    after = rendered(before)
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if before == after else "README.md does not say what the records say: run tools/readme.py.")
    README.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()
