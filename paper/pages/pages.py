"""The results pages: values for the templates, from summaries alone."""

from collections.abc import Mapping, Sequence

from maxmahal.records.types import AND
from paper.pages import tables, training
from paper.pages.claims import Claim, Judgement, claims, unfair_models
from paper.pages.compare import budgets, by_epsilon, clean_gaps, hm_beside_mmc, other_rates, over_seeds
from paper.pages.models import (
    ADVERSARIAL_CIFAR100,
    ANCHORS,
    DATA,
    DISTANCES,
    LONG,
    SPSA,
    TABLE_1,
    TABLE_4,
    TABLE_5,
    TABLE_5_CIFAR100,
    TITLES,
    TUNED,
)
from paper.pages.narrow import narrow_runs, narrow_tables, silent_classes
from paper.pages.results import ENOUGH_IMAGES, PROTOCOL, Published
from paper.pages.text import anchor, markdown_table, render

Judged = list[tuple[Claim, Judgement]]
_OPEN = {"undecided", "not measured"}
_CURVES = {
    "training.svg": "Test error against training time, each training alone on its GPU, CIFAR-10 (Figure 3a)",
    "training-epochs.svg": "Test error during training, CIFAR-10",
    "training-cifar100.svg": "Test error during training, CIFAR-100",
    "training-cifar100-at.svg": "Test error during adversarial training, CIFAR-100",
}


def results_pages(
    results: Published, figures: Sequence[str], others: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Every page by its file's name; other pages hand over their messages, which are their first paragraphs."""
    judged = judge_all(results)
    messages = {name: page.split("\n\n")[1].replace("\n", " ") for name, page in (others or {}).items()}
    return {
        "README.md": results_page(results, figures, judged, messages),
        "claims.md": claims_page(judged),
        "tables.md": tables_page(results, figures),
        "training.md": training_page(results, figures),
    }


def results_page(results: Published, figures: Sequence[str], judged: Judged, messages: Mapping[str, str]) -> str:
    """The message, one table, one figure, the verdicts, and what is missing."""
    gaps = {name: over_seeds(results, f"{data}-mmc", f"{data}-sce", clean_gaps) for data, name in DATA.items()}
    tuned = [name for base in TUNED for name in results.seeds(base)[:1]]
    open_claims = [claim for claim, each in judged if {each.reproduced, each.strong} & _OPEN and claim.gap]
    return render(
        "results",
        plain={
            "worst_mmc": results.robust("cifar10-mmc", "autoattack"),
            "worst_sce": results.robust("cifar10-sce", "autoattack"),
            "pgd_mmc": results.measured("cifar10-mmc", "pgd50-un-8"),
            "pgd_sce": results.measured("cifar10-sce", "pgd50-un-8"),
        },
        small={
            epsilon: gap for epsilon, gap in by_epsilon(results, "cifar10-mmc", "cifar10-sce").items() if epsilon < 8
        },
        budgets=budgets(results),
        unfair=unfair_models(results, LONG),
        own={results.title(name): found for name in LONG if (found := results.clean(name)) is not None},
        anchors=ANCHORS,
        released=(results.clean(ANCHORS[0].ours), results.robust(ANCHORS[0].ours, "autoattack")),
        edges={results.title(name): edge for name in tuned if (edge := training.rate_edge(results, name))},
        tuned_seeds=min(len(results.seeds(base)) for base in TUNED),
        trials=training.longest_trials(results, tuned[0]) if tuned else [],
        ratio=next((each.facts.get("ratio") for claim, each in judged if claim.key == "cost"), None),
        clean={name: gap for name, gap in gaps.items() if gap is not None},
        summary=tables.summary_table(results),
        figures=figures,
        verdict_table=verdict_table(judged, "claims.md"),
        messages=messages,
        cells=tables.coverage(results),
        open_claims=open_claims,
    )


def verdict_table(judged: Judged, page: str = "") -> str:
    """Each claim with its two verdicts."""
    body = [
        [f"[{claim.title}]({page}#{anchor(claim.title)})", f"**{each.reproduced}**", f"**{each.strong}**"]
        for claim, each in judged
    ]
    return markdown_table(["claim", "reproduced under the paper's attacks?", "true under strong attacks?"], body, 3)


def claims_page(judged: Judged) -> str:
    """Each claim: what the paper says, the verdicts with their numbers, the rules, and what would change them."""
    return render("claims", judged_claims=judged, verdict_table=verdict_table(judged), enough_images=ENOUGH_IMAGES)


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
    places = [(each.name, str(each.environment.get("device", ""))) for each in results.evaluations]
    versions = {str(each.environment.get("versions", {}).get("torch", "")) for each in results.evaluations}
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
        budgets=budgets(results),
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
        missing=tables.missing_list(results),
        devices=sorted({device for _, place in places for device in place.split(AND)} - {""}),
        moved=list(dict.fromkeys(f"`{name}`" for name, place in places if AND in place)),
        versions=sorted(versions - {""}),
        days=sorted(str(each.environment.get("started", ""))[:10] for each in results.evaluations) or ["never"],
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
        runs=[run for run in training.longer(results) if training.is_finished(run)],
        training=training,
        unfinished=training.unfinished(results),
        tuning=training.tuning_table(results),
        untuned=training.untuned(results, list(models)),
        one_decay=training.one_weight_decay(results),
    )
