"""MMC without adversarial training: accuracy under weak attacks, under the paper's attack, and in the worst case.

    python -m paper.studies.honesty

First the smallest epsilon of a grid at which SCE's worst case is at most 1 %. At this epsilon, MMC with heads of both
scales under cross-entropy PGD, under the paper's un,1 and in the worst case; and the epsilon that breaks MMC.
"""

from typing import Any

from maxmahal import Classifier
from maxmahal.attacks import Linf, Objective, cross_entropy, margin, own_loss, pgd
from maxmahal.data import ImageData
from maxmahal.evaluate import attack_hard
from paper.studies.digits import attacked, digits_model, digits_test, save_record

GRID = [round(0.01 * step, 2) for step in range(5, 31)]
BROKEN = 0.01


def worst_case(model: Classifier, data: ImageData, epsilon: float) -> float:
    """Accuracy under all attacks together."""
    return attacked(attack_hard, model, data, threat=Linf(epsilon)).accuracy


def under_pgd(model: Classifier, data: ImageData, epsilon: float, objective: Objective) -> float:
    """Accuracy under PGD-50 with the paper's ratio of step size to epsilon."""
    settings: dict[str, Any] = {"threat": Linf(epsilon), "steps": 50, "step_size": epsilon / 4}
    return attacked(pgd, model, data, objective=objective, **settings).accuracy


def breaking_point(model: Classifier, data: ImageData) -> float:
    """The smallest epsilon of the grid at which the worst case is broken, by bisection: it falls with epsilon."""
    low, high = 0, len(GRID) - 1
    if worst_case(model, data, GRID[high]) > BROKEN:
        raise SystemExit(f"Not broken at {GRID[high]}: extend the grid.")
    while low < high:
        middle = (low + high) // 2
        if worst_case(model, data, GRID[middle]) <= BROKEN:
            high = middle
        else:
            low = middle + 1
    return GRID[low]


def row(title: str, data: ImageData, epsilon: float) -> dict[str, Any]:
    """One line of the table."""
    model = digits_model(title)
    measured = {
        "model": title,
        "clean": float((model(data.float_images()).argmax(dim=1) == data.labels).double().mean()),
        "cross_entropy_pgd": under_pgd(model, data, epsilon, cross_entropy()),
        "un1_pgd": under_pgd(model, data, epsilon, own_loss(model.head)),
        "margin_pgd": under_pgd(model, data, epsilon, margin()),
        "worst_case": worst_case(model, data, epsilon),
        "broken_at": breaking_point(model, data),
    }
    print(measured, flush=True)
    return measured


def main() -> None:
    """Measure and record."""
    data = digits_test()
    epsilon = breaking_point(digits_model("SCE"), data)
    print("SCE is broken at", epsilon, flush=True)
    rows = [row(title, data, epsilon) for title in ("SCE", "MMC, scale 1", "MMC, scale 2")]
    content = {
        "images": len(data),
        "norm": "Linf",
        "epsilon": epsilon,
        "broken_means": BROKEN,
        "suite": "strict",
        "rows": rows,
    }
    print("saved", save_record("honesty", content).name)


if __name__ == "__main__":
    main()
