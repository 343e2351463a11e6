"""The paper's claims with the rules that judge them: words from ``assets/claims.toml``, verdicts from numbers alone."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paper.pages import accuracy, adversarial, blackbox, curves, draws, rules, threats
from paper.pages.judging import Judgement
from paper.pages.shelf import Shelf

RULES: dict[str, Callable[[Shelf], Judgement]] = {
    "at": adversarial.at,
    "reliable": rules.reliable,
    "clean": accuracy.clean,
    "cost": curves.cost,
    "convergence": curves.convergence,
    "white-box": rules.white_box,
    "centers": draws.centers,
    "threats": threats.threats,
    "spsa": blackbox.spsa,
    "capacity": rules.capacity,
    "beyond": rules.beyond,
    "rotation": rules.rotation,
}


@dataclass(frozen=True)
class Claim:
    """What the paper says, in our words."""

    key: str
    title: str
    where: str
    says: str
    change: str
    """What would change the verdict."""

    def judge(self, shelf: Shelf) -> Judgement:
        """By the rule of its name."""
        return RULES[self.key](shelf)

    @property
    def rule(self) -> str:
        """What the rule asks for, as its own docstring says it."""
        return " ".join((RULES[self.key].__doc__ or "").split())


def claims() -> list[Claim]:
    """In the order of the page."""
    text = (Path(__file__).parent / "claims.toml").read_text(encoding="utf-8")
    return [Claim(key, **words) for key, words in tomllib.loads(text).items()]
