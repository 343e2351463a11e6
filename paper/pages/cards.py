"""Model cards of the zoo: values for ``templates/card.md.j2`` and ``templates/zoo.md.j2``."""

import hashlib
import inspect
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from maxmahal.centers import CENTERS
from maxmahal.data.registry import SOURCES
from maxmahal.losses import LOSSES, takes_centers
from maxmahal.train.checkpoint import read_tensors
from paper.pages.compare import hm_beside_mmc, other_rates
from paper.pages.models import ANCHORS, DATA, DISTANCES, HM, PGD_8, PGD_16, SPSA, TITLES, ZOO, data_of
from paper.pages.results import STRONG, Published, has_own_threat, ours_text, paper_text
from paper.pages.text import listed, markdown_table, render
from paper.pages.training import constant_loss, training_losses
from paper.summaries import RunSummary

_UNKNOWN = "unknown"
_TRUST = {
    "held": "found no sign",
    "mended": "found signs and answered them with added attacks",
    "unresolved": "left signs open",
    "unchecked": "has no diagnostics",
}


def card(results: Published, name: str, checkpoint: Path | None = None) -> str:
    """The page of one model of the zoo."""
    model, data = ZOO[name], data_of(name)
    settings = results.settings(model)
    run, evaluations = results.run(model), [each for each in results.evaluations if each.name == model]
    others = [each for each in evaluations if each.suite in STRONG]
    machines = [each.environment for each in evaluations]
    return render(
        "card",
        name=name,
        about=about(results, model),
        data=data,
        data_title=DATA[data],
        classes=len(SOURCES[data].class_counts["test"]),
        hm=hm_beside_mmc(results) if model == HM else None,
        measured=_measured(results, model),
        trust={suite: _TRUST[found.trust] for suite in STRONG if (found := results.find(model, suite)) is not None},
        protocol=any(results.measured(model, stage) for stage in (*PGD_8, *PGD_16)),
        rates=[each for each in other_rates(results) if each.second == model],
        rate=lambda each: results.settings(each).get("train", {}).get("lr"),
        title=results.title,
        anchors=ANCHORS if data == "cifar10" and settings.get("method", {}).get("name") == "adversarial" else (),
        worst=results.strongest(model),
        threats=list(dict.fromkeys(f"{each.norm} {each.epsilon}" for each in others if not has_own_threat(each))),
        settings=settings,
        train=settings.get("train", {}),
        run=run,
        seeds=max(len(results.seeds(re.sub(r"-seed\d+$", "", model))), 1),
        evaluated=next(iter(evaluations), None),
        centers=_centers(settings),
        images=_images(settings),
        options=options,
        losses=None if run is None else _constant_loss(run),
        precision=None if run is None else run.settings.get(run.device.partition(":")[0], {}).get("precision"),
        trained_by=_UNKNOWN if run is None else _code(run.result),
        measured_by=list(dict.fromkeys(_code(env.get("versions", {}) | env) for env in machines)),
        half=_is_half(checkpoint),
        sha256=hashlib.sha256(checkpoint.read_bytes()).hexdigest() if checkpoint else "",
    )


def index(results: Published, names: Sequence[str]) -> str:
    """The zoo's front page."""
    body = []
    for name in names:
        model = ZOO[name]
        numbers = [results.clean(model), *(results.robust(model, suite) for suite in STRONG)]
        body.append([f"[{name}]({name}.md)", DATA[data_of(name)], about(results, model), *map(ours_text, numbers)])
    return render(
        "zoo",
        data=list(dict.fromkeys(DATA[data_of(name)] for name in names)),
        first=names[0],
        first_data=data_of(names[0]),
        table=markdown_table(["model", "data", "what it is", "clean", *STRONG], body, 3),
        hm=hm_beside_mmc(results) if HM in names else None,
    )


def about(results: Published, model: str) -> str:
    """What its preset says of it, with the epochs and the learning rate that it was trained with."""
    settings = results.settings(model)
    text, train = str(settings.get("about", "")) or results.title(model), settings.get("train", {})
    text = re.sub(r"a large budget on one GPU|\d+ epochs", f"{train.get('epochs', 0)} epochs", text)
    return re.sub(r"(?<=at learning rate )[\d.]+\d", lambda found: str(train.get("lr", found[0])), text)


def _measured(results: Published, model: str) -> str:
    clean = results.clean(model)
    body = [["clean", paper_text(results.paper(model, "clean")), ours_text(clean)]]
    for stage in (*PGD_8, *PGD_16, *SPSA, *DISTANCES):
        paper, ours = paper_text(results.paper(model, stage)), results.measured(model, stage)
        if ours is not None or (paper != "–" and stage in (*PGD_8, *PGD_16)):
            few = clean is not None and ours is not None and ours.samples < clean.samples
            first = f", first {ours.samples:,} images" if few and ours is not None else ""
            body.append([f"{TITLES[stage]}, paper's protocol{first}", paper, ours_text(ours)])
    body += [[f"worst case of `{suite}`", "–", ours_text(results.robust(model, suite))] for suite in STRONG]
    return markdown_table(["accuracy", "paper", "ours"], body)


def _centers(settings: Mapping[str, Any]) -> str:
    """The preset centers; empty of a loss without centers."""
    name, dim = settings.get("loss", {}).get("name", ""), settings.get("model", {}).get("feature_dim")
    if name not in LOSSES or not takes_centers(name):
        return ""
    table = settings.get("centers", {})
    shown = {key: value for key, value in table.items() if not _is_default(table.get("name", ""), key, value)}
    return f"{options(shown)}{f', in {dim} dimensions' if dim else ''}"


def _is_default(name: str, key: str, value: object) -> bool:
    """An option of these centers that was not set; norms and seeds are always shown."""
    if name not in CENTERS or key in ("norm", "norms", "seed"):
        return False
    known = inspect.signature(CENTERS[name]).parameters
    return key in known and known[key].default == value


def _images(settings: Mapping[str, Any]) -> str:
    """How many of the training images were used for training."""
    data = settings.get("data", {})
    if data.get("source") not in SOURCES:
        return _UNKNOWN
    every, held = sum(SOURCES[data["source"]].class_counts["train"]), int(data.get("validation", 0))
    return f"{every - held:,} of {every:,} images, {held:,} held out for validation" if held else f"{every:,} images"


def options(table: Mapping[str, Any]) -> str:
    """A component's name and its options, except empty ones."""
    first = [str(table["name"])] if "name" in table else []
    rest = {key: value for key, value in table.items() if key != "name" and value not in ("", [], None)}
    texts = {
        key: listed([str(each) for each in value]) if isinstance(value, list) else value for key, value in rest.items()
    }
    return ", ".join(first + [f"{key} {value}" for key, value in texts.items()])


def _constant_loss(run: RunSummary) -> tuple[float, float] | None:
    """Of adversarial training: its loss at the end, and that of a constant model."""
    losses, constant = training_losses(run), constant_loss(run)
    adversarial = run.settings.get("method", {}).get("name") == "adversarial"
    return (losses[1], constant) if adversarial and losses is not None and constant is not None else None


def _is_half(checkpoint: Path | None) -> bool:
    return checkpoint is not None and torch.float16 in {each.dtype for each in read_tensors(checkpoint)[0].values()}


def _code(result: Mapping[str, Any]) -> str:
    facts = [f"{name} {result[name]}" for name in ("maxmahal", "torch", "commit") if result.get(name)]
    return ", ".join(facts) or _UNKNOWN
