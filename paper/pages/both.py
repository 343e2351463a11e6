"""One rule on both data sets: CIFAR-100 speaks where it was measured, and changes nothing where it was not."""

from collections.abc import Callable
from dataclasses import dataclass

from paper.pages.judging import Judgement, Verdict
from paper.pages.models import DATA, OTHER_LOSSES, PGD_8, PGD_16, SPSA, TABLE_4
from paper.pages.shelf import Shelf


@dataclass(frozen=True)
class Scene:
    """A data set as a rule sees it."""

    data: str
    guessing: float
    """Percent that a guess among its classes gets right."""
    others: tuple[str, ...]
    """The models of the losses that MMC is compared with."""
    columns: tuple[str, ...]
    """The PGD attacks that the paper reports for all of them."""
    levels: tuple[float, ...]
    """Test errors in percent that a curve passes on its way."""
    black_box: tuple[str, ...]
    """The SPSA attacks that the paper reports for all of them."""
    transfer: bool = False
    """Whether the paper shows models images that were crafted on others."""

    @property
    def sce(self) -> str:
        """The model trained with softmax cross-entropy."""
        return f"{self.data}-sce"

    @property
    def mmc(self) -> str:
        """The model trained with MMC-10."""
        return f"{self.data}-mmc"


TEN = Scene("cifar10", 10.0, OTHER_LOSSES, (*PGD_8, *PGD_16), (30.0, 20.0, 15.0, 10.0, 8.0), SPSA, True)
HUNDRED = Scene("cifar100", 1.0, TABLE_4[:4], PGD_8[:2], (60.0, 50.0, 40.0, 35.0, 32.0), SPSA[:2])
JOINED = (
    "A rule that speaks of CIFAR-100 too is judged on each data set by itself. Where the two differ, the claim *holds "
    "in part* if one of them says at least that, and is *undecided* if not; where only CIFAR-100 was measured, it "
    "never says more than *holds in part*."
)


def on_both(shelf: Shelf, judge: Callable[[Shelf, Scene], Judgement]) -> Judgement:
    """CIFAR-10's judgement alone where CIFAR-100 was not measured; else both, each with its own verdict (JOINED)."""
    ten, hundred = judge(shelf, TEN), judge(shelf, HUNDRED)
    if hundred.verdict == "not measured":
        return ten
    seen = {ten.verdict, hundred.verdict}
    verdict: Verdict = ten.verdict
    if len(seen) > 1:
        verdict = "holds in part" if seen & {"holds", "holds in part"} else "undecided"
    if ten.verdict == "not measured":  # half of what the claim is about
        verdict = "holds in part" if hundred.verdict == "holds" else hundred.verdict
    told = {DATA[TEN.data]: ten, DATA[HUNDRED.data]: hundred}
    reason = " ".join(f"{name}: {each.verdict}. {each.reason}" for name, each in told.items())
    return Judgement(verdict, reason, "\n\n".join(f"{name}:\n\n{each.evidence}" for name, each in told.items()))
