"""Published figures: runs that can be compared on one axis, and models of one seed paired with each other."""

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_up_summaries import published, run, summary
from scipy import stats

from maxmahal.records.statistics import Comparison
from paper.pages.compare import of_images
from paper.pages.figures import budgets, figures, training
from paper.pages.models import ADVERSARIAL_CIFAR100, TABLE_1, TABLE_4
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
        ({"settings": SETTINGS}, "the batches differ"),
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


def test_the_end_of_long_trainings_is_drawn_again_on_axes_of_its_own() -> None:
    falls = [90.0, 70.0, 50.0, *[45.0] * 17]
    svg = training(
        published(*(run(name, [*falls, *[end] * 20]) for name, end in ((SCE, 29.0), (MMC, 31.0)))), (SCE, MMC)
    )
    drawn = texts(svg)
    assert {"30", "35", "40", "50", "70"} <= {*drawn[: drawn.index("test error in %")]}, "ticks that can be read"
    below = drawn[drawn.index("The last half, enlarged") :]
    assert {"29.5", "30", "30.5"} <= {*below}
    assert "70" not in below
    assert drawn_slots(svg) == ["0", "1"] * 2
    assert drawn_slots(svg, legend=True) == ["0", "1"], "one legend is enough"
    lines = re.findall(r'd="([^"]+)" fill="none" stroke="var\(--s\d\)" stroke-width="2"', svg)
    paths = [re.findall(r"[ML]([\d.]+) ([\d.]+)", path) for path in lines]
    ends = [float(path[-1][1]) for path in paths]
    assert ends[2] - ends[3] > 3 * (ends[0] - ends[1]) > 0
    assert "The last half, enlarged" not in texts(curves(run(SCE, ERRORS), run(MMC, ERRORS)))


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


def test_budgets_are_paired_differences_with_the_interval_that_each_allows() -> None:
    long = [at("sce", 0, 43.0, "long"), at("mmc", 0, 44.0, "long")]
    svg = budgets(published(*long, *short((40.0, 41.0), (40.5, 42.5), (41.0, 41.0))))
    drawn, row_names = texts(svg), ["seed 0", "seed 1", "seed 2", "mean"]
    assert "Long: 80 epochs, one training seed, all 2,000 images" in drawn
    assert "Short: 25 epochs, 3 training seeds, first 1,000 images" in drawn
    assert [text for text in drawn if re.fullmatch(r"seed \d|mean", text)] == ["seed 0", *row_names]
    said = " ".join(drawn)
    assert "Long: 95 % interval for the sampling of images, paired." in said
    assert "Short: 95 % t interval over the training seeds." in said
    assert "At Linf 8/255, last checkpoints." in said


def test_only_a_budget_of_enough_seeds_has_an_interval_over_them() -> None:
    both = texts(budgets(published(*short((40.0, 41.0), (40.5, 42.5)))))
    assert "mean" not in both
    assert "t interval" not in " ".join(both)


def test_what_has_no_partner_or_is_still_in_training_is_not_drawn() -> None:
    assert budgets(published(at("mmc", 0, 44.0, "long"), at("sce", 1, 40.0))) == ""
    pair = short((40.0, 41.0))
    whole = run("cifar10-at-mmc-short", [30.0])
    assert budgets(published(*pair, whole)) != ""
    assert budgets(published(*pair, replace(whole, finished=False))) == ""
    elsewhere = replace(pair[1], data_fingerprint="other images")
    assert budgets(published(pair[0], elsewhere)) == ""


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


def test_dots_and_intervals_are_where_the_axis_says() -> None:
    svg = budgets(published(*short((40.0, 39.0), (40.0, 41.0), (40.0, 40.0))))
    first, second, third, mean = (float(x) for x in re.findall(r"translate\(([\d.]+) ", svg))
    zero = float(re.search(r'd="M([\d.]+) [^>]*stroke-dasharray', svg)[1])  # type: ignore[index]
    assert first < zero < second
    assert third == pytest.approx(zero, abs=0.02)
    assert mean == pytest.approx(zero, abs=0.02)
    line = re.search(r'd="M([\d.]+) [\d.]+L([\d.]+) [\d.]+" fill="none" stroke="var\(--s1', svg)
    low, high = (float(end) for end in line.groups())  # type: ignore[union-attr]
    points = (second - first) / 2
    reach = stats.t.ppf(0.975, 2) / 3**0.5  # the deviation of -1, 1 and 0 is one point
    assert (low - zero) / points == pytest.approx(-reach, abs=0.01)
    assert (high - zero) / points == pytest.approx(reach, abs=0.01)


def test_no_text_leaves_its_figure() -> None:
    drawn = figures(
        published(
            *short((40.0, 41.0), (40.5, 42.5), (41.0, 41.0)),
            run(SCE, [*ERRORS, *[8.0] * 30], sharing=2),
            run(MMC, ERRORS, finished=False),
        )
    )
    assert "The last half" in drawn["training.svg"]
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
