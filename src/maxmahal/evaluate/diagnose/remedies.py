"""Which attacks to add for which warning, as stages in the form of a suite's TOML."""

from collections.abc import Sequence
from pathlib import Path

from maxmahal.records import Finding
from maxmahal.settings import Table, read_toml

REMEDIES: dict[str, list[Table]] = read_toml(Path(__file__).with_name("remedies.toml"))


def plan_remedies(findings: Sequence[Finding]) -> list[Table]:
    """The stages that the warnings call for, each once, cheap ones first; ``remedy`` names the reason."""
    flagged = [finding for finding in findings if finding.flagged]
    wanted = {name for finding in flagged for name in finding.adds}
    tables: list[Table] = []
    for remedy, stages in REMEDIES.items():
        if remedy == "transfer" and remedy in wanted:
            transferred = sorted({name for finding in flagged for name in finding.numbers.get("sources", [])})
            for stage in stages:
                for source in transferred:
                    own = {"title": f"MIM-10 crafted on {source}", "source": source, "remedy": remedy}
                    tables.append({**stage, "name": f"{stage['name']}-{source}", **own})
        elif remedy in wanted:
            tables += [{**stage, "remedy": remedy} for stage in stages]
    return tables
