"""The plan of an evaluation: a pure function of its settings and of the records of earlier stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxmahal.attacks.objectives import find_objective
from maxmahal.attacks.registry import find_attack
from maxmahal.evaluate.evaluated_model import EvaluatedModel
from maxmahal.evaluate.suite import Stage, Suite, stage_from_table, stage_to_table
from maxmahal.records.types import Columns, Finding
from maxmahal.records.verdict import NO_GRADIENTS
from maxmahal.settings import Component, Table, read_toml

REMEDIES: dict[str, list[Table]] = read_toml(Path(__file__).parent / "diagnose" / "remedies.toml")
"""The attacks to add for each warning, as stages in the form of a suite's TOML."""
CLEAN = Stage(name="clean", title="clean", attack=Component("clean"), scope="all")


@dataclass(frozen=True)
class Traits:
    """What decides which attacks apply to a model."""

    classes: int
    stochastic: bool  # whether the model is stochastic, and attacks made for that are in the plan
    differentiable: bool  # whether any gradient reaches the images, even if it is zero
    bpda: bool  # whether steps without a useful gradient can be passed straight through
    sources: frozenset[str] = frozenset()
    """The models of the evaluation that have gradients, as sources of transfer attacks."""


def plan_stages(
    suite: Suite, findings: Sequence[Finding], others: Mapping[str, EvaluatedModel], *, transfer: bool
) -> list[Stage]:
    """The clean images, the suite's attacks, transfer from each model, then the attacks that warnings call for."""
    stages = [CLEAN, *suite.stages]
    if transfer:
        stages += [transfer_stage(name) for name in others]
    if suite.mend:
        taken = {stage.name for stage in stages}
        stages += [stage_from_table(table) for table in plan_remedies(findings) if table["name"] not in taken]
    return stages


def transfer_stage(source: str) -> Stage:
    """MIM-10 on another model, as in the paper's Fig. 4, but with true labels and the suite's threat."""
    options = {"name": f"transfer-{source}", "title": f"MIM-10 crafted on {source}", "attack": "transfer"}
    table: Table = {**options, "source": source, "scope": "all", "origin": "transfer"}
    return stage_from_table(table)


def plan_remedies(findings: Sequence[Finding]) -> list[Table]:
    """The stages that the warnings call for, each once, cheap ones first; ``because`` names the checks."""
    flagged = [finding for finding in findings if finding.flagged]
    sources = sorted({name for finding in flagged for name in finding.numbers.get("sources", [])})
    tables: list[Table] = []
    for remedy, stages in REMEDIES.items():
        because = ", ".join(finding.check for finding in flagged if remedy in finding.adds)
        own = {"remedy": remedy, "origin": "diagnosis", "because": because}
        for stage in stages if because else ():
            for source in sources if remedy == "transfer" else ():
                named = {"name": f"{stage['name']}-{source}", "title": f"MIM-10 crafted on {source}"}
                tables.append({**stage, **named, "source": source, **own})
            tables += [] if remedy == "transfer" else [{**stage, **own}]
    return tables


def why_not(stage: Stage, target: EvaluatedModel, traits: Traits, others: Mapping[str, EvaluatedModel]) -> str:
    """Why a stage cannot run on a model, as a sentence; empty if it can."""
    attack, options = find_attack(stage.attack.name), dict(stage.attack.options)
    if stage.search == "straight-through":
        if not traits.bpda:
            return "No step of the model can be passed straight through."
    elif attack.needs_gradients and not traits.differentiable:
        return NO_GRADIENTS
    if traits.stochastic and not stage.with_draws:
        return "It is too expensive for a stochastic model; other attacks average over its draws instead."
    if attack.crafts_on_source and options["source"] not in others:
        return f"There is no model '{options['source']}' in this evaluation to attack."
    if attack.crafts_on_source and options["source"] not in traits.sources:
        return f"It needs gradients of '{options['source']}', and none reaches the images through that model."
    if traits.classes < (fewest := attack.fewest_classes(options)):
        return f"It compares {fewest} classes, and this model has {traits.classes}."
    if "objective" not in options:
        return ""
    owner = others[options["source"]] if attack.crafts_on_source else target
    objective, head = find_objective(options["objective"]), owner.head
    if objective.needs_head and head is None:
        return "It follows the loss the model was trained with, and this model's loss is not known."
    if objective.needs_preset_centers and not (head is not None and head.has_preset_centers):
        return "It follows class centers, and this model has none."
    if traits.classes < objective.fewest_classes:
        return f"It compares four classes, and this model has {traits.classes}."
    return ""


def describe_stage(stage: Stage, suite: Suite, seed: int) -> dict[str, Any]:
    """A stage as the records keep it."""
    table = stage_to_table(stage)
    # Minimum-norm attacks, noise and rotation stay in no ball.
    threat = f"{suite.norm} {suite.epsilon_of(stage)}" if find_attack(stage.attack.name).stays_in_ball else ""
    own = ("name", "title", "scope", "counts", "origin", "attack")
    settings = {key: value for key, value in table.items() if key not in own}
    return {
        "title": stage.title,
        "kind": stage.attack.name,
        "settings": {**settings, "threat": threat, "seed": seed},
        "threat": threat,
        "scope": stage.scope,
        "origin": stage.origin,
        "counts": stage.counts,
    }


def blocks(stage: Stage, count: int, size: int) -> list[range]:
    """The samples of a stage in blocks; one chunk is what earlier stages left of a block.

    It depends on no other block, so chunks can be computed anywhere and in any order that keeps the stages of a block.
    """
    last = count if stage.limit is None else min(count, stage.limit)
    return [range(start, min(start + size, last)) for start in range(0, last, size)]


def samples_of(stage: Stage, rows: range, shares: Mapping[int, float], ids: Sequence[int]) -> list[int]:
    """Which of these rows of the data a stage attacks, in order.

    A stochastic model counts as broken on a sample only if it is never correct.
    """
    if stage.scope == "all":
        return list(rows)
    return [row for row in rows if shares.get(ids[row], 1.0) > 0]


def lower_shares(shares: dict[int, float], columns: Columns) -> None:
    """Keep each sample's smallest share of draws in which the model is right."""
    for sample, share in zip(columns.sample.tolist(), columns.right_share.tolist(), strict=True):
        shares[sample] = min(share, shares.get(sample, 1.0))


def split(rows: Sequence[int], chunk: int) -> list[list[int]]:
    """Chunks as in records of earlier versions: consecutive rows, from any block."""
    return [list(rows[start : start + chunk]) for start in range(0, len(rows), chunk)]
