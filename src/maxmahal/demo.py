"""The demo: train three models on the embedded digits, attack them, record the results, and write a report."""

from collections.abc import Mapping
from pathlib import Path

from maxmahal.evaluate import Evaluation, EvaluationReporter, evaluate_models, read_evaluations
from maxmahal.report import write_page
from maxmahal.train import Reporter, load_settings, train_model

ROWS = {"SCE": "digits-sce", "MMC": "digits-mmc", "AT (MMC)": "digits-at-mmc"}
FLAT_ROWS = {"SCE, 2 features": "digits-sce", "MMC, 2 features": "digits-mmc"}
SUITE, FLAT_SUITE = "demo", "quick"


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
