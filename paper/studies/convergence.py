"""Does PGD converge at 50 steps, as the paper says? Accuracy against steps and against restarts.

python -m paper.studies.convergence
"""

from typing import Any

from maxmahal import Classifier
from maxmahal.attacks import Linf, Objective, cross_entropy, margin, own_loss, pgd
from maxmahal.data import ImageData
from paper.studies.digits import attacked, digits_model, digits_test, save_record

THREAT = Linf(0.15)
STEPS = (10, 20, 50, 100, 200)
RESTARTS = (1, 2, 5, 10, 20)
STEP_SIZE = 0.015


def accuracy(model: Classifier, data: ImageData, objective: Objective, steps: int, restarts: int) -> float:
    """Under PGD with a fixed step size; the best iterate of all restarts counts."""
    settings: dict[str, Any] = {"threat": THREAT, "steps": steps, "step_size": STEP_SIZE, "restarts": restarts}
    return attacked(pgd, model, data, objective=objective, **settings).accuracy


def curves(title: str, data: ImageData) -> list[dict[str, Any]]:
    """Both curves of one model for each objective."""
    model = digits_model(title)
    objectives = {"cross-entropy": cross_entropy(), "un,1": own_loss(model.head), "margin": margin()}
    rows = []
    for name, objective in objectives.items():
        by_steps = [accuracy(model, data, objective, steps, restarts=1) for steps in STEPS]
        by_restarts = [accuracy(model, data, objective, 50, restarts) for restarts in RESTARTS]
        rows.append({"model": title, "objective": name, "by_steps": by_steps, "by_restarts": by_restarts})
        print(title, name, "steps:", by_steps, "restarts of 50 steps:", by_restarts, flush=True)
    return rows


def main() -> None:
    """Measure and record."""
    data = digits_test()
    rows = [row for title in ("AT (MMC)", "MMC, scale 1") for row in curves(title, data)]
    protocol = {"threat": str(THREAT), "step_size": STEP_SIZE, "steps": STEPS, "restarts": RESTARTS}
    content = {"images": len(data), **protocol, "rows": rows}
    print("saved", save_record("convergence", content).name)


if __name__ == "__main__":
    main()
