"""The results pages: values for the templates, from summaries alone."""

from collections import Counter
from collections.abc import Sequence

from maxmahal.records.types import AND
from paper.pages import tables, training
from paper.pages.claims import Claim, Judgement, claims
from paper.pages.compare import budgets, clean_pairs, hm_beside_mmc, of_images, other_rates
from paper.pages.models import (
    ADVERSARIAL_CIFAR100,
    DATA,
    DISTANCES,
    SPSA,
    TABLE_1,
    TABLE_4,
    TABLE_5,
    TABLE_5_CIFAR100,
    TITLES,
)
from paper.pages.narrow import narrow_runs, narrow_tables, silent_classes
from paper.pages.results import ENOUGH_IMAGES, PROTOCOL, Published
from paper.pages.text import render

Judged = list[tuple[Claim, Judgement]]
_CURVES = {
    "training.svg": "Test error during training, CIFAR-10",
    "training-cifar100.svg": "Test error during training, CIFAR-100",
    "training-cifar100-at.svg": "Test error during adversarial training, CIFAR-100",
}


def results_pages(results: Published, figures: Sequence[str]) -> dict[str, str]:
    """Every page by its file's name."""
    judged = judge_all(results)
    return {
        "README.md": results_page(results, figures, judged),
        "claims.md": claims_page(judged),
        "tables.md": tables_page(results, figures),
        "training.md": training_page(results, figures),
    }


def results_page(results: Published, figures: Sequence[str], judged: Judged) -> str:
    """The message, one table, one figure, the verdicts, and what is missing."""
    places = [(each.name, str(each.environment.get("device", ""))) for each in results.evaluations]
    versions = {str(each.environment.get("versions", {}).get("torch", "")) for each in results.evaluations}
    pairs = {name: clean_pairs(results, f"{data}-mmc", f"{data}-sce") for data, name in DATA.items()}
    return render(
        "results",
        judged_claims=judged,
        verdicts=Counter(each.verdict for _, each in judged),
        plain={
            "worst_mmc": results.robust("cifar10-mmc", "autoattack"),
            "worst_sce": results.robust("cifar10-sce", "autoattack"),
            "pgd_mmc": results.measured("cifar10-mmc", "pgd50-un-8"),
            "pgd_sce": results.measured("cifar10-sce", "pgd50-un-8"),
        },
        budgets=budgets(results),
        clean={name: of_images(found[0]) for name, found in pairs.items() if found},
        summary=tables.summary_table(results),
        figures=figures,
        cells=tables.coverage(results),
        missing=tables.missing_list(results),
        devices=sorted({device for _, place in places for device in place.split(AND)} - {""}),
        moved=list(dict.fromkeys(f"`{name}`" for name, place in places if AND in place)),
        versions=sorted(versions - {""}),
        days=sorted(str(each.environment.get("started", ""))[:10] for each in results.evaluations) or ["never"],
    )


def claims_page(judged: Judged) -> str:
    """Each claim: what the paper says, the verdict with its numbers, the rule, and what would change it."""
    return render("claims", judged_claims=judged, enough_images=ENOUGH_IMAGES)


def judge_all(results: Published) -> Judged:
    """Every claim with its judgement, from evaluations of enough images."""
    enough = results.with_enough_images()
    return [(claim, claim.judge(enough)) for claim in claims()]


def tables_page(results: Published, figures: Sequence[str]) -> str:
    """Every table: the paper's, adversarial training, smaller epsilons, narrow networks, other models."""
    narrow = {run.name for run in narrow_runs(results)}
    shown = {
        *TABLE_1,
        *TABLE_4,
        *TABLE_5,
        *TABLE_5_CIFAR100,
        *tables.budget_models(results),
        *tables.loss_models(results),
        *narrow,
    }
    data = dict.fromkeys(each.data for each in results.evaluations)
    others = {DATA.get(each, each): models for each in data if (models := tables.other_models(results, each, shown))}
    return render(
        "tables",
        results=results,
        table1=tables.paper_table(results, tables.WHITE_BOX),
        turned=tables.turned_right(results, TABLE_1, "pgd50-un-8"),
        far1=tables.far_from_paper(results, tables.WHITE_BOX),
        table2=tables.paper_table(results, tables.THREATS),
        few2=_limited(results, tables.THREATS.models),
        far2=tables.far_from_paper(results, tables.THREATS),
        table3=tables.spsa_table(results),
        table4=tables.paper_table(results, tables.HUNDRED),
        few4=_limited(results, tables.HUNDRED.models),
        far4=tables.far_from_paper(results, tables.HUNDRED),
        hm=hm_beside_mmc(results),
        table5=tables.paper_table(results, tables.DEPTH),
        table5_cifar100=tables.paper_table(results, tables.DEPTH_CIFAR100),
        parameters=training.parameters,
        budget_models=tables.model_table(results, tables.budget_models(results)),
        budget_pairs=tables.budget_pairs(results),
        spreads=tables.seed_spreads(results),
        loss_models=tables.model_table(results, tables.loss_models(results)),
        loss_pairs=tables.loss_pair_table(results),
        other_rates=other_rates(results),
        rate=lambda model: results.settings(model).get("train", {}).get("lr"),
        underfitting=tables.underfitting_table(results),
        small=tables.small_epsilon_tables(results),
        narrow=narrow_tables(results),
        silent=silent_classes(results),
        others={name: tables.model_table(results, models) for name, models in others.items()},
        transfers=[name for name in figures if name.startswith("transfer-")],
    )


def _limited(results: Published, models: Sequence[str]) -> list[str]:
    """Attacks that took only the first of the images that the others took: "SPSA on the first 1,000"."""
    found: dict[str, set[int]] = {}
    for each in results.evaluations:
        if each.name in models and each.suite in PROTOCOL:
            for name in (*SPSA, *DISTANCES):
                stage = each.stage(name)
                if stage is not None and not stage.skipped and stage.samples < each.samples:
                    found.setdefault(TITLES[name].partition(" ")[0], set()).add(stage.samples)
    return [f"{kind} on the first {' or '.join(f'{n:,}' for n in sorted(sizes))}" for kind, sizes in found.items()]


def training_page(results: Published, figures: Sequence[str]) -> str:
    """Schedules, curves, cost and tuning."""
    models = dict.fromkeys([*TABLE_1, *TABLE_5, *TABLE_4, *TABLE_5_CIFAR100, *ADVERSARIAL_CIFAR100])
    return render(
        "training",
        schedules={model: found for model in models if (found := results.settings(model)).get("train")},
        curves=_CURVES,
        figures=figures,
        runs=training.finished_runs(results),
        training=training,
        unfinished=training.unfinished(results),
        tuning=training.tuning_table(results),
        untuned=training.untuned(results, list(models)),
        one_decay=training.one_weight_decay(results),
    )
