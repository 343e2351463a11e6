"""Which attacks to add for which warning, as stages in the form of a suite's TOML."""

from collections.abc import Sequence
from pathlib import Path

from maxmahal.records import Finding
from maxmahal.settings import Table, read_toml

REMEDIES: dict[str, list[Table]] = read_toml(Path(__file__).with_name("remedies.toml"))


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
