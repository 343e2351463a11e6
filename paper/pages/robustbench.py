"""RobustBench's entry of a model of the zoo, from summaries; ``maxmahal.records.export`` makes it from records."""

import json
from typing import Any

from maxmahal.records.statistics import Rate
from paper.pages.models import ZOO
from paper.pages.results import STRONG, Published

AUTOATTACK, STRICT = STRONG


def robustbench_entry(results: Published, name: str) -> str:
    """JSON, in which the author fills in what is null; empty unless all of AutoAttack ran on all images.

    ``external`` is the worst case over ``autoattack`` and ``strict``, where both saw all images and it is lower.
    """
    model = ZOO[name]
    found, strict, worst = results.find(model, AUTOATTACK), results.find(model, STRICT), results.strongest(model)
    if found is None or found.limited or any(stage.counts and stage.skipped for stage in found.stages):
        return ""
    lowest, suites = found.robust, [found]
    if strict and worst and worst.rate and not worst.note and worst.samples == found.samples:
        lowest, suites = worst.rate, [found, strict]
    told = " and ".join(f"{each.suite} (version {each.suite_version}, seed {each.seed})" for each in suites)
    suite = "suites" if len(suites) > 1 else "suite"
    settings = results.settings(model)
    one_pass = found.model.get("kind") == "classifier" and not found.model.get("stochastic")
    entry: dict[str, Any] = {
        "link": None,
        "name": name,
        "authors": None,
        "additional_data": False if settings.get("data", {}).get("source") == found.data else None,
        "number_forward_passes": 1 if one_pass else None,
        "dataset": found.data,
        "venue": None,
        "architecture": settings.get("model", {}).get("backbone"),
        "eps": found.epsilon,
        "clean_acc": _percent(found.clean),
        "reported": None,
        "autoattack_acc": _percent(found.robust),
        "external": None if lowest == found.robust else _percent(lowest),
        "footnote": f"{_percent(lowest)}% is the worst case per sample over every attack of maxmahal's {suite} {told} "
        f"on {found.samples} samples.",
        "unreliable": {"held": False, "mended": False, "unresolved": True}.get((strict or found).trust),
    }
    return json.dumps(entry, indent=2, ensure_ascii=False) + "\n"


def _percent(rate: Rate) -> str:
    return f"{100 * rate.value:.2f}"
