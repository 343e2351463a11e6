"""Worst cases in balls smaller than those of the suites: where all models stand at zero in these, they may differ."""

from paper.pages.judging import tested
from paper.pages.leads import of_images
from paper.pages.models import BEYOND, LONG, PLAIN, TABLE_1, title_of
from paper.pages.shelf import NOT_RUN, Shelf, widest_pair, worst_case
from paper.pages.tables import markdown
from paper.summaries import Summary, pair_up

_ABOUT = (
    "Worst cases in smaller balls than 8/255. One training of each model, on the images that its cell names: intervals "
    "and tests are over these images, and do not say how far another training would move a model."
)
_PAIRS = ((PLAIN[0], PLAIN[-1]), LONG)  # SCE and MMC-10, without and with adversarial training
Place = tuple[str, float]  # a suite and a radius


def smaller_section(shelf: Shelf, data: str = "cifar10") -> list[str]:
    """A table of models and epsilons, and MMC-10 against SCE at each of them; nothing where none was measured."""
    found = shelf.smaller(data)
    if not found:
        return []
    return ["### Smaller epsilons", _ABOUT, _table(shelf, found), *_pairs(shelf, found)]


def _table(shelf: Shelf, found: list[Summary]) -> str:
    places = _places(found)
    measured = {each.name for each in found}
    names = [name for name in dict.fromkeys([*TABLE_1, *BEYOND, *sorted(measured)]) if name in measured]
    body = []
    for name in names:
        cells = [worst_case(_at(found, name, place)) for place in places]
        body.append([title_of(shelf, name), *(NOT_RUN if each is None else each.full for each in cells)])
    return markdown(["worst case", *places.values()], body)


def _pairs(shelf: Shelf, found: list[Summary]) -> list[str]:
    body = []
    for sce, mmc in _PAIRS:
        for place, words in _places(found).items():
            pair = widest_pair(_at(found, mmc, place), _at(found, sce, place))
            if pair is not None:
                split = pair_up(*pair)
                gap = of_images(split)
                names = f"{title_of(shelf, mmc)} less {title_of(shelf, sce)}"
                body.append([names, words, gap.told, tested(split)])
    header = ["on the same images", "attacked by", "difference [95 %]", "exact McNemar test"]
    return [markdown(header, body, 2)] if body else []


def _places(found: list[Summary]) -> dict[Place, str]:
    """Each suite and ball, as people read it, the smallest first."""
    return {(each.suite, each.radius): f"{each.suite} at {each.norm} {each.epsilon}" for each in found}


def _at(found: list[Summary], model: str, place: Place) -> list[Summary]:
    return [each for each in found if each.name == model and (each.suite, each.radius) == place]
