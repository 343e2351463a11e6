"""Remedies are stages that a suite can run, planned once each, and they put the verdict right."""

import pytest
from masked_models import masked, probe_of, trained
from torch import Tensor

from maxmahal.attacks import apgd, margin, pgd
from maxmahal.evaluate import attack_hard
from maxmahal.evaluate.diagnose.bpda import bpda_model
from maxmahal.evaluate.diagnose.checks import CHECKS
from maxmahal.evaluate.diagnose.probe import Probe
from maxmahal.evaluate.plan import REMEDIES, plan_remedies
from maxmahal.evaluate.suite import stage_from_table
from maxmahal.records import Finding


def finding(*adds: str, flagged: bool = True, sources: tuple[str, ...] = ()) -> Finding:
    return Finding("check", "title", flagged, "sentence", "remedy", adds, {"sources": list(sources)})


@pytest.mark.parametrize("remedy", REMEDIES)
def test_remedies_are_stages_of_a_suite(remedy: str) -> None:
    for table in plan_remedies([finding(remedy, sources=("other",))]):
        stage = stage_from_table(dict(table))
        assert stage.name.startswith("remedy-")
        assert stage.title
        assert stage.scope == "survivors"
        assert stage.remedy == remedy


def test_names_are_unique() -> None:
    names = [table["name"] for stages in REMEDIES.values() for table in stages]
    assert len(set(names)) == len(names)


def test_each_stage_is_planned_once_and_cheap_ones_first() -> None:
    tables = plan_remedies([finding("black-box", "straight-through"), finding("straight-through", "scale-free")])
    wanted = [*REMEDIES["scale-free"], *REMEDIES["straight-through"], *REMEDIES["black-box"]]
    assert [table["name"] for table in tables] == [table["name"] for table in wanted]


def test_nothing_is_planned_for_what_is_not_flagged() -> None:
    assert plan_remedies([finding("eot", flagged=False)]) == []
    assert plan_remedies([]) == []


def test_transfer_comes_from_each_model_that_worked() -> None:
    tables = plan_remedies([finding("transfer", sources=("b", "a"))])
    assert [table["source"] for table in tables] == ["a", "b"]
    assert len({str(table["name"]) for table in tables}) == 2
    assert plan_remedies([finding("transfer")]) == []


@pytest.mark.parametrize(
    "mask",
    ["scaled", pytest.param("quantised", marks=pytest.mark.soak), pytest.param("saw-tooth", marks=pytest.mark.soak)],
)
def test_the_remedies_put_the_verdict_right(mask: str) -> None:
    """The first stage does, so all do."""
    network, model = trained("sce"), masked(trained("sce"))[mask]
    probe = probe_of(model, count=40)
    honest = attack_hard(network, probe.images, probe.labels, threat=probe.threat, seed=0, suite="quick")
    quick = ("zero-gradients", "gradient-direction")
    tables = plan_remedies([CHECKS[name](probe) for name in quick])
    standing = probe.is_right.clone()
    for table in tables:
        if table["attack"] == ("apgd" if mask == "scaled" else "pgd"):
            standing &= ~_run(table, probe)
    assert float(standing.double().mean()) <= honest.accuracy + 0.03


def _run(table: dict[str, object], probe: Probe) -> Tensor:
    search = bpda_model(probe.model, probe.images) if table.get("search") == "straight-through" else probe.fast
    told = {key: table[key] for key in ("steps", "restarts", "targets") if key in table}
    if table["attack"] == "pgd":
        told["step_size"] = 0.05 * probe.threat.radius
    attack = {"pgd": pgd, "apgd": apgd}[str(table["attack"])]
    return attack(search, probe.images, probe.labels, objective=margin(), threat=probe.threat, seed=0, **told).fooled
