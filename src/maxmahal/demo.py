"""The demo: train three models on the embedded digits, attack them, record the results, and write a report."""

from collections.abc import Mapping
from pathlib import Path

from maxmahal.evaluate import Evaluation, EvaluationReporter, Verdict, evaluate_models, read_evaluations
from maxmahal.report import write_page
from maxmahal.train import Reporter, load_settings, train_model

ROWS = {"SCE": "digits-sce", "MMC": "digits-mmc", "AT (MMC)": "digits-at-mmc"}
FLAT_ROWS = {"SCE, 2 features": "digits-sce", "MMC, 2 features": "digits-mmc"}
SUITE, FLAT_SUITE = "demo", "quick"
CLAIMS = ("own-loss", "cross-entropy", "margin")  # attacks after which a weaker evaluation would stop
LOOKS_ROBUST = 0.25  # below this, an attack has shown that the model is not robust
MASKED_BY = 0.1  # an attack this far above the worst case has failed: the model masks its gradients


def train_demo(
    out: Path, *, epochs: int | None = None, seed: int = 0, reporter: Reporter | None = None
) -> dict[str, Path]:
    """The run folders by title; finished runs are kept, and an interrupted run is resumed."""
    rows: dict[str, tuple[str, str, list[str]]] = {title: (preset, preset, []) for title, preset in ROWS.items()}
    # With two features, a plot shows the whole feature space.
    rows |= {title: (preset, f"{preset}-2d", ["model.feature_dim=2"]) for title, preset in FLAT_ROWS.items()}
    always = [f"train.seed={seed}", *([] if epochs is None else [f"train.epochs={epochs}"])]
    runs = {}
    for title, (preset, name, changes) in rows.items():
        if reporter is not None:
            reporter.note(f"Training {name}.")
        runs[title] = out / name
        train_model(load_settings(preset, [*changes, *always]), runs[title], resume=True, reporter=reporter)
    return runs


def attack_demo(
    out: Path, runs: Mapping[str, Path], *, limit: int | None = None, reporter: EvaluationReporter | None = None
) -> list[Evaluation]:
    """Attack the models of ``train_demo`` and write ``report.html``; an interrupted evaluation is resumed."""
    records = out / "records"
    main, flat = ({title: runs[title] for title in rows} for rows in (ROWS, FLAT_ROWS))
    found = evaluate_models(
        main, out=records, suite=SUITE, data="digits", limit=limit, transfer=True, reporter=reporter
    )
    evaluate_models(flat, out=records, suite=FLAT_SUITE, data="digits", limit=limit, epsilon="0.15", reporter=reporter)
    write_page(read_evaluations(records), out / "report.html")
    return found


def describe(verdict: Verdict, baseline_clean: float) -> str:
    """One sentence about a row, from its numbers."""
    clean, worst = verdict.clean.value, verdict.robust.value
    claims = {
        each.stage.title: each.accuracy.value
        for each in verdict.stages
        if each.stage.name in CLAIMS and each.accuracy is not None
    }
    misled = max(claims, key=lambda title: claims[title])
    if claims[misled] > LOOKS_ROBUST and claims[misled] - worst > MASKED_BY:
        return (
            f"Looks robust to {misled} ({claims[misled]:.1%}), but the worst case is {worst:.1%}: "
            f"the weaker attack failed, and the model is not robust."
        )
    if worst < 0.5 * clean:
        return f"Correct on {clean:.1%} of clean and {worst:.1%} of attacked images: not robust at this epsilon."
    cost = baseline_clean - clean
    price = (
        f"at a cost of {100 * cost:.1f} points of clean accuracy" if cost > 0 else "at no cost in clean accuracy here"
    )
    return f"{worst:.1%} under all attacks, {price}; stronger attacks may lower it."
