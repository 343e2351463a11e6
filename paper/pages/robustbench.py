"""RobustBench's entry of a model of the zoo, from summaries; ``maxmahal.records.export`` makes it from records."""

import json

from maxmahal.records import export
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
    entry = export.robustbench_entry(
        name, found.data, found.epsilon, {**found.model, "settings": results.settings(model)}, clean=found.clean,
        autoattack=found.robust, worst=lowest, trust=(strict or found).trust,
        over=f"{'suites' if len(suites) > 1 else 'suite'} {told} on {found.samples} samples",
    )  # fmt: skip
    return json.dumps(entry, indent=2, ensure_ascii=False) + "\n"
