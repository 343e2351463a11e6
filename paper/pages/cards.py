"""Model cards for the zoo: what a model is, what was measured on it, how to load it, and what not to use it for."""

from collections.abc import Sequence
from typing import Any

from maxmahal.data.registry import SOURCES
from maxmahal.report.wording import counted, listed, typeset
from paper.pages.balls import in_own_ball
from paper.pages.cards_made import centers, images, made, network, options
from paper.pages.hierarchical import hm_note
from paper.pages.hm_pair import HM
from paper.pages.models import (
    ADVERSARIAL_CIFAR100,
    DATA,
    DISTANCES,
    PGD_8,
    PGD_16,
    SPSA,
    TITLES,
    ZOO,
    data_of,
    title_of,
)
from paper.pages.rates import other_rates, rates_note
from paper.pages.shelf import NOT_RUN, STRONG, Shelf, ours_text, paper_text
from paper.pages.tables import markdown
from paper.pages.undertrained import caution
from paper.summaries import Summary

_RESULTS = "../paper/results/"
_HINT = 5.0  # percent: a model whose worst case is below is not robust by anybody's measure


def card(shelf: Shelf, name: str) -> str:
    """The page of one model of the zoo."""
    model = ZOO[name]
    settings = shelf.settings(model)
    parts = [
        f"# {name}",
        _about(settings) or title_of(shelf, model),
        hm_note(shelf, _RESULTS) if model == HM else "",
        _use(name),
        "## Training",
        _training(shelf, model, settings),
        "## Measured",
        _measured(shelf, model),
        _turned(shelf, model),
        caution(shelf, model),
        *((rates_note(shelf, _RESULTS), other_rates(shelf)) if model in ADVERSARIAL_CIFAR100 else ()),
        *_sentences(shelf, model),
        "## What it is for, and what not",
        _limits(shelf, model),
        f"The weights are under this repository's licence (MIT). They were trained on {DATA[data_of(name)]}, whose "
        "images have terms of their own. Written by `paper/publish.py`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def index(shelf: Shelf, names: Sequence[str]) -> str:
    """The zoo's front page."""
    body = []
    for name in names:
        model = ZOO[name]
        numbers = [shelf.clean(model), *(shelf.robust(model, suite) for suite in STRONG)]
        about = _about(shelf.settings(model)) or title_of(shelf, model)
        data = DATA[data_of(name)]
        body.append([f"[{name}]({name}.md)", data, about, *map(ours_text, numbers)])
    held = list(dict.fromkeys(DATA[data_of(name)] for name in names))
    parts = [
        "# Trained models",
        f'Models of {listed(held)} by name: `maxmahal.load("NAME")` in Python, `zoo:NAME` for `maxmahal evaluate`, and '
        "`maxmahal zoo` lists them. Robust accuracies at Linf 8/255; see [the results](../paper/results/README.md). A "
        "folder of your own checkpoints joins in through `$MAXMAHAL_ZOO`, and wins over shipped "
        "models of the same name.",
        _command(names[0]),
        markdown(["model", "data", "what it is", "clean", *STRONG], body, 3),
        hm_note(shelf, _RESULTS) if HM in names else "",
        *((rates_note(shelf, _RESULTS), other_rates(shelf)) if {*ADVERSARIAL_CIFAR100} <= {*names} else ()),
        "Written by `paper/publish.py`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(settings: dict[str, Any]) -> str:
    """What its preset says of it; earlier ones did not say how large a budget is."""
    epochs = settings.get("train", {}).get("epochs", 0)
    return str(settings.get("about", "")).replace("a large budget on one GPU", f"{epochs} epochs")


def _command(name: str) -> str:
    return f"    maxmahal evaluate zoo:{name} --suite strict --data {data_of(name)} --limit 200 --out runs/eval"


def _use(name: str) -> str:
    data = data_of(name)
    classes = len(SOURCES[data].class_counts["test"])
    return "\n".join(
        [
            "```python",
            "import maxmahal",
            "from maxmahal.attacks import Linf, margin, pgd",
            "from maxmahal.data import load_dataset, to_unit_range",
            "",
            f'test = load_dataset("{data}", "test").first(100)  # `maxmahal data fetch {data}` brings the files once',
            "images, labels = to_unit_range(test.images), test.labels",
            f'model = maxmahal.load("{name}")  # images in [0, 1], of shape (n, 3, 32, 32), to {classes} logits',
            'found = pgd(model, images, labels, objective=margin(), threat=Linf("8/255"), steps=50, step_size=2 / 255, '
            "seed=0)",
            "print(found.accuracy)",
            "```",
            "",
            f"    maxmahal data fetch {data}",
            _command(name),
        ]
    )


def _training(shelf: Shelf, model: str, settings: dict[str, Any]) -> str:
    train, method, loss = (settings.get(key, {}) for key in ("train", "method", "loss"))
    facts = {
        "network": network(shelf, model, settings),
        "loss": options(loss),
        **centers(settings),
        "method": options(method),
        "data": options(settings.get("data", {})),
        "trained on": images(settings),
        "epochs, batch": f"{train.get('epochs', '')}, {train.get('batch_size', '')}",
        "learning rate": f"{train.get('lr', '')}, {train.get('schedule', '')}, warm-up {train.get('warmup', '')}",
        "weight decay": f"{train.get('weight_decay', '')} on {train.get('decay', '')}",
        "seed": f"{train['seed']}; {_alone(shelf, model)}" if "seed" in train else "",
        **made(shelf, model, settings),
        "weights' fingerprint": next((x.model_fingerprint for x in shelf.evaluations if x.name == model), NOT_RUN),
    }
    return markdown(["", ""], [[name, str(value)] for name, value in facts.items()], 2)


def _alone(shelf: Shelf, model: str) -> str:
    """How many trainings there are that differ in their seeds alone."""
    count = len(shelf.seeds(model))
    alone = "one training, so its spread over seeds is not known"
    return alone if count <= 1 else f"one of {counted('training', count)}, a seed each"


def _measured(shelf: Shelf, model: str) -> str:
    body = [["clean", paper_text(shelf.paper(model, "clean")) or "–", ours_text(shelf.clean(model))]]
    for stage in (*PGD_8, *PGD_16):
        paper, ours = paper_text(shelf.paper(model, stage)), shelf.stage(model, stage)
        if paper or ours is not None:  # the rest is nobody's number
            body.append([f"{TITLES[stage]}, paper's protocol", paper or "–", ours_text(ours)])
    clean = shelf.clean(model)
    for stage in (*SPSA, *DISTANCES):
        if (ours := shelf.stage(model, stage)) is not None:
            kind = "paper's protocol, mean distance" if stage in DISTANCES else "paper's protocol"
            few = f", first {ours.samples:,} images" if clean is not None and ours.samples < clean.samples else ""
            body.append(
                [f"{TITLES[stage]}, {kind}{few}", paper_text(shelf.paper(model, stage)) or "–", ours_text(ours)]
            )
    body += [[f"worst case of `{suite}`", "–", ours_text(shelf.robust(model, suite))] for suite in STRONG]
    return markdown(["accuracy", "paper", "ours"], body)


def _turned(shelf: Shelf, model: str) -> str:
    """What the rows of the paper's protocol count; empty where there is none of ours."""
    if all(shelf.stage(model, stage) is None for stage in (*PGD_8, *PGD_16)):
        return ""
    return (
        "Rows of the paper's protocol attack every image, the wrong ones too, and count an image that was wrong and "
        "that the attack turned right as right; worst cases do not."
    )


def _sentences(shelf: Shelf, model: str) -> list[str]:
    found = [summary for suite in STRONG if (summary := shelf.find(model, suite)) is not None]
    return [f"`{summary.suite}`: {_sentence(summary)}" for summary in found]


def _sentence(summary: Summary) -> str:
    if summary.trust != "unchecked":
        return typeset(summary.sentence)
    said = typeset(summary.sentence).partition(";")[0].rstrip(".")
    return f"{said}; the diagnostics for false robustness were not run, so take it as an upper bound."


def _limits(shelf: Shelf, model: str) -> str:
    worst = shelf.strongest(model)
    use = "For comparing attacks, losses and evaluations on a small network with known numbers."
    if worst is None:
        return f"{use} Its robustness has not been measured; rely on none."
    if worst.value < _HINT:
        return f"{use} It is **not robust**: the worst case at Linf 8/255 is {worst.full}."
    return (
        f"{use} Its worst case at Linf 8/255 is {worst.full}. {_beyond(shelf, model)} A model that still errs under "
        "attack is no protection in use."
    )


def _beyond(shelf: Shelf, model: str) -> str:
    """What is known outside of the ball that the worst case is of."""
    others = [each for each in shelf.evaluations if each.name == model and each.suite in STRONG]
    balls = dict.fromkeys(f"{each.norm} {each.epsilon}" for each in others if not in_own_ball(each))
    if balls:
        return f"Worst cases were also measured at {listed(list(balls))}, and nowhere else."
    if any(shelf.stage(model, stage) is not None for stage in PGD_16):
        return (
            "Of larger perturbations only the rows of the paper's protocol at 16/256 are known, weak attacks that "
            "bound its robustness from above; its worst case there and under other norms was not measured."
        )
    return "Its worst case under larger perturbations and other norms was not measured."
