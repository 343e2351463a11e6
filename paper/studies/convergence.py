"""Does PGD converge at 50 steps, as the paper says? Accuracy against steps and against restarts.

python -m paper.studies.convergence
"""

from typing import Any

import matplotlib as mpl

from maxmahal import Classifier
from maxmahal.attacks import Linf, Objective, cross_entropy, margin, own_loss, pgd
from maxmahal.data import ImageData
from paper.studies.digits import RECORDS, attacked, digits_model, digits_test, save_record

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


def plot(rows: list[dict[str, Any]]) -> str:
    """Accuracy over steps and over restarts."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    panels = ((STEPS, "by_steps", "steps, 1 restart"), (RESTARTS, "by_restarts", "restarts of 50 steps"))
    for axis, (values, key, label) in zip(axes, panels, strict=True):
        for row in rows:
            style = "--" if row["model"].startswith("MMC") else "-"
            axis.semilogx(values, [100 * value for value in row[key]], style, marker="o", ms=3,
                          label=f"{row['model']}, {row['objective']}")  # fmt: skip
        axis.set_xticks(values, [str(value) for value in values])
        axis.set_xlabel(label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy, %")
    axes[1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(RECORDS / "convergence.png", dpi=110)
    return "convergence.png"


def main() -> None:
    """Measure, record and draw."""
    data = digits_test()
    rows = [row for title in ("AT (MMC)", "MMC, scale 1") for row in curves(title, data)]
    protocol = {"threat": str(THREAT), "step_size": STEP_SIZE, "steps": STEPS, "restarts": RESTARTS}
    content = {"images": len(data), **protocol, "rows": rows}
    print("saved", save_record("convergence", content).name, "and", plot(rows))


if __name__ == "__main__":
    main()
