"""Published figures: runs that can be compared on one axis, and models of one seed paired with each other."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_up_summaries import published, run, summary

from maxmahal.records.statistics import Comparison
from paper.pages.compare import of_images
from paper.pages.figures import figures, trade, training
from paper.pages.models import ADVERSARIAL_CIFAR100, TABLE_1, TABLE_4, TUNED
from paper.pages.training import medians, why_not_timed
from paper.summaries import RunSummary, Summary

SCE, MMC = "cifar10-sce", "cifar10-mmc"
ERRORS = [29.0, 19.0, 9.0]
SETTINGS = {"train": {"epochs": 3, "batch_size": 128}, "model": {"backbone": "resnet32"}}


def curves(*runs: RunSummary) -> str:
    return training(published(*runs), (SCE, MMC))


def drawn_slots(svg: str, *, legend: bool = False) -> list[str]:
    """The colours of the curves, or of the legend."""
    return re.findall(rf'stroke="var\(--s(\d)\)" stroke-width="{3 if legend else 2}"', svg)


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_runs_alone_on_one_kind_of_gpu_with_one_batch_are_drawn_against_time() -> None:
    drawn = texts(curves(run(SCE, ERRORS, 60), run(MMC, ERRORS, 90)))
    assert "training time in minutes" in drawn
    assert drawn[drawn.index("SCE") + 1] == "MMC-10"
    assert not any("By epoch" in text for text in drawn)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sharing": 2}, "not every training was alone on its GPU"),
        ({"gpu": ""}, "on which GPU the training ran is not known"),
        ({"gpu": "NVIDIA A100"}, "the devices or networks differ"),
    ],
)
def test_other_runs_are_drawn_against_epochs_and_the_figure_says_why(changes: dict[str, Any], why: str) -> None:
    drawn = texts(curves(run(SCE, ERRORS), run(MMC, ERRORS, **changes)))
    assert "epoch" in drawn
    assert "training time in minutes" not in drawn
    assert f"By epoch and not by time: {why}." in " ".join(drawn)


def test_points_are_medians_of_neighbouring_epochs() -> None:
    assert medians([9.0, 1.0, 8.0, 2.0, 7.0, 3.0]) == [9.0, 8.0, 7.0, 3.0, 3.0, 3.0]
    assert medians([]) == []
    assert any("median of 5 epochs" in text for text in texts(curves(run(SCE, ERRORS))))


@pytest.mark.parametrize(
    "names", [TABLE_4, ADVERSARIAL_CIFAR100, [name for name in TABLE_1 if "at-un" not in name], [MMC, SCE]]
)
def test_every_curve_has_a_colour_of_its_own_and_a_loss_the_same_everywhere(names: list[str]) -> None:
    svg = training(published(*(run(name, ERRORS) for name in names)), names)
    slots = drawn_slots(svg)
    assert len(set(slots)) == len(slots) == len(names)
    assert drawn_slots(svg, legend=True) == slots
    for name, slot in zip(names, slots, strict=True):
        assert slot == {"sce": "0", "mmc": "1"}.get(name.partition("-")[2], slot)


def test_a_run_that_shared_its_gpu_is_not_timed_on_its_own_either() -> None:
    assert why_not_timed([run(SCE, ERRORS, sharing=2)]) == "the training was not alone on its GPU"
    assert why_not_timed([run(SCE, ERRORS)]) == ""


def test_batches_are_named_where_they_differ() -> None:
    assert {"SCE, batch 50", "MMC-10, batch 128"} <= {
        *texts(curves(run(SCE, ERRORS), run(MMC, ERRORS, settings=SETTINGS)))
    }


def test_a_run_that_is_not_finished_is_named_but_not_drawn() -> None:
    late = run(MMC, [30.0, 20.0], finished=False, settings=SETTINGS)
    svg = curves(run(SCE, ERRORS), late)
    assert len(drawn_slots(svg)) == 1
    assert "Not drawn, as not finished: MMC-10 (2 of 3 epochs)." in " ".join(texts(svg))
    assert curves(late) == ""


def at(loss: str, seed: int, robust: float, budget: str = "short", **changes: Any) -> Summary:
    name = f"cifar10-at-un-{loss}" if budget == "long" else f"cifar10-at-{loss}-short"
    settings = {"train": {"epochs": 80 if budget == "long" else 25, "seed": seed}}
    model = {"settings": settings, "epoch": settings["train"]["epochs"], "table": ""}
    made = summary(f"{name}-seed{seed}" if seed else name, "autoattack", robust=robust, **changes)
    return replace(made, model=model)


def short(*pairs: tuple[float, float]) -> list[Summary]:
    few = {"samples": 1000, "limited": True}
    return [
        at(loss, seed, value, **few)
        for seed, pair in enumerate(pairs)
        for loss, value in zip(("sce", "mmc"), pair, strict=True)
    ]


def test_adversarial_training_is_drawn_beside_public_results() -> None:
    models = [at("sce", 0, 43.0, "long", clean=75), at("mmc", 0, 44.0, "long", clean=74)]
    tuned = [replace(summary(f"{base}-seed0", "strict", robust=44, clean=73)) for base in TUNED]
    drawn = texts(trade(published(*models, *tuned, *short((40.0, 41.0), (40.5, 42.5)))))
    assert drawn.count("un") == drawn.count("un, tuned (strict)") == drawn.count("un, short") == 2
    assert {"80.89", "76.60"} <= {*drawn}
    assert trade(published(summary(SCE, "autoattack"))) == ""


def test_dots_are_where_the_axes_say() -> None:
    svg = trade(published(at("sce", 0, 40.0, "long", clean=70), at("mmc", 0, 45.0, "long", clean=75)))
    (x0, y0), (x1, y1) = ((float(x), float(y)) for x, y in re.findall(r"translate\(([\d.]+) ([\d.]+)\)", svg))
    assert x0 < x1
    assert y0 > y1


def test_repetitions_alone_on_the_gpu_are_drawn_against_time_whatever_their_batches() -> None:
    runs = [
        run(f"{SCE}-alone", ERRORS),
        run("cifar10-at-tar-sce-alone", ERRORS, settings=SETTINGS),
        run(SCE, ERRORS, sharing=3),
    ]
    drawn = figures(published(*runs))
    assert {"training time in minutes", "SCE, batch 50", "AT tar 10 (SCE), batch 128"} <= {
        *texts(drawn["training.svg"])
    }
    assert "epoch" in texts(drawn["training-epochs.svg"])


@pytest.mark.parametrize(
    ("first", "second", "total"), [(60, 40, 1000), (30, 90, 500), (500, 480, 10_000), (20, 0, 200)]
)
def test_the_interval_of_images_agrees_with_drawing_them_again(first: int, second: int, total: int) -> None:
    drawn = np.random.default_rng(0).multinomial(
        total, [first / total, second / total, 1 - (first + second) / total], size=20_000
    )
    again = np.quantile(100 * (drawn[:, 0] - drawn[:, 1]) / total, [0.025, 0.975])
    assert of_images(Comparison(first, second, total)).interval() == pytest.approx(
        again, abs=0.12 * (again[1] - again[0])
    )


def test_no_text_leaves_its_figure() -> None:
    drawn = figures(
        published(
            *short((40.0, 41.0), (40.5, 42.5), (41.0, 41.0)),
            run(SCE, [*ERRORS, *[8.0] * 30], sharing=2),
            run(MMC, ERRORS, finished=False),
        )
    )
    for svg in drawn.values():
        root = ElementTree.fromstring(svg)
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        assert width <= 430  # a telephone shows it almost unscaled
        for node in root.findall("{http://www.w3.org/2000/svg}text"):
            long = (7.0 if "font-weight" in node.attrib else 6.2) * len(node.text or "")
            if "transform" in node.attrib:
                continue  # the name of the vertical axis
            x, middle = float(node.attrib["x"]), node.attrib.get("text-anchor", "start")
            left = x - {"start": 0.0, "middle": long / 2, "end": long}[middle]
            assert 0 <= left <= width - long, node.text
            assert 0 < float(node.attrib["y"]) < height, node.text
