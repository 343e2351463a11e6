"""The page about the clock: where leads end, what times mean, what was chosen; from made-up summaries."""

import importlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from made_up_summaries import published, run, summary

from maxmahal.report.chart import Axis, Chart
from maxmahal.settings import to_table
from maxmahal.train import load_settings
from paper.pages import clock
from paper.pages.clock import ANCHORS, BENCHMARK, best_kinds, clock_pages, tunings
from paper.pages.clock_figures import _label, front
from paper.pages.clock_trials import KINDS, Column, read_trials, recipe, seconds_alone
from paper.pages.pages import results_pages
from paper.summaries import RunSummary, Summary

RATES = json.loads(BENCHMARK.read_text(encoding="utf-8"))
LEVELS = {"sce": 40.0, "sce-mixed": 39.0, "trades": 41.0, "mmc": 43.0, "mmc-mixed": 42.0}
Things = list[Summary | RunSummary]


def trained(
    name: str, kind: str, *overrides: str, last: Mapping[str, float] | None = None, **changes: Any
) -> RunSummary:
    """A run with a preset's settings; only its last epoch was measured."""
    settings = to_table(load_settings(f"cifar10-rn18-{kind}", overrides))
    epochs = [{"epoch": place + 1, "train_seconds": 3.0 * (place + 1)} for place in range(settings["train"]["epochs"])]
    epochs = epochs[: changes.pop("done", len(epochs))]
    if epochs:
        epochs[-1].update(last or {})
    facts = {
        "settings": settings,
        "epochs": tuple(epochs),
        "train_seconds": 3.0 * len(epochs),
        "sharing": 4,
        "result": {},
    }
    return replace(run(name, []), **{**facts, **changes})


def model(kind: str, epochs: int, robust: float, end: str = "", clean: float = 80.0, suite: str = "strict") -> Things:
    """A run and its evaluation on 1,000 images."""
    name = f"clock-{kind}-{epochs}{end}"
    found = trained(name, kind, f"train.epochs={epochs}")
    attacked = summary(name, suite, robust, clean, samples=1000, limited=suite == "strict")
    return [found, replace(attacked, model={"settings": found.settings, "epoch": epochs})]


def budgets(gaps: Mapping[int, float], level: float = 40.0) -> Things:
    """Kinds without MMC-10, and MMC-10, which is so many points more robust at each number of epochs."""
    levels = {"sce": 0.0, "sce-mixed": 0.0, "trades": 0.0}
    return [
        thing
        for epochs, gap in gaps.items()
        for kind, more in {**levels, "mmc": gap}.items()
        for thing in model(kind, epochs, level + more)
    ]


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    def made(*things: Summary | RunSummary) -> dict[str, str]:
        monkeypatch.setattr(clock, "read_published", lambda folder, names: published(*things))
        return clock_pages(Path("nowhere"))

    return made


def message(page: str) -> list[str]:
    return page.split("\n\n")[1].splitlines()


def row(page: str, first: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ({12: 3, 24: 3}, r"^AT \(MMC-10\) is more robust than AT \(SCE\) at 12 and 24 epochs \(\+3\.0 and \+3\.0 "
                         r"points\)\. The end of this lead was not reached\.$"),
        ({12: 3, 24: 0, 48: 0}, r"^AT \(MMC-10\) is more robust than AT \(SCE\) at 12 epochs \(\+3\.0 points\); at 24 "
                                r"and 48 epochs the 95 % interval includes 0 \(\+0\.0 \[.*\] and \+0\.0 .* points\)\. "
                                r"The longest training with a significant lead has 12 epochs and takes {seconds} s on"),
        ({12: 3, 48: -3}, r"at 12 epochs \(\+3\.0 points\), and less robust at 48 epochs \(−3\.0 points\)\. "
                          r"The longest training with a significant lead has 12 epochs"),
        ({12: 0, 24: 0}, r"^No budget decides between AT \(MMC-10\) and AT \(SCE\): every .* \(at 12 and 24 epochs: "),
        ({12: 0, 24: 3}, r"than AT \(SCE\) at 24 epochs \(.*; at 12 epochs the .* end of this lead was not reached"),
        ({12: 3, 24: 0, 96: 3}, r"at 12 and 96 epochs \(.*; at 24 epochs the .* end of this lead was not reached"),
        ({12: -3}, r"^AT \(MMC-10\) is less robust than AT \(SCE\) at 12 epochs \(−3\.0 points\)\.$"),
    ],
)  # fmt: skip
def test_the_message_says_where_the_lead_ends(pages: Any, gaps: dict[int, float], said: str) -> None:
    (rate,) = [each["images_per_second"] for each in RATES["rows"] if each["name"] == "engine PGD-5, batch 256"]
    expected = said.replace("{seconds}", f"{600_000 / rate:.0f}")
    assert re.search(expected, message(pages(*budgets(gaps))["clock.md"])[0])


def test_a_lead_over_seeds_has_the_interval_of_seeds(pages: Any) -> None:
    """+8 and −2 points: each seed alone would decide, both together do not."""
    levels = {"-seed0": (40, 48), "-seed1": (40, 38)}
    things = [each for end, both in levels.items() for kind, robust in zip(("sce", "mmc"), both, strict=True)
              for each in model(kind, 12, robust, end)]  # fmt: skip
    page = pages(*things)["clock.md"]
    assert message(page)[0].startswith("No budget decides")
    assert row(page, "MMC-10 − SCE, robust")[1].startswith("+3.0 [−")
    assert row(page, "MMC-10 − SCE, robust")[1].endswith(", 2 seeds")
    assert row(page, "AT (MMC-10)")[1] == "80.0 ± 0.0* / 43.0 ± 7.1"


def test_one_seed_decides_nothing_that_seeds_at_other_budgets_leave_open(pages: Any) -> None:
    """+3 points of a single seed, where three seeds of another budget are 8 points apart."""
    levels = {"-seed0": (40, 48), "-seed1": (40, 40), "-seed2": (40, 32)}
    things = [each for end, both in levels.items() for kind, robust in zip(("sce", "mmc"), both, strict=True)
              for each in model(kind, 12, robust, end)]  # fmt: skip
    things += [*model("sce", 24, 40), *model("mmc", 24, 43)]
    page = pages(*things)["clock.md"]
    assert message(page)[0].startswith("No budget decides")
    assert re.match(r"\+3\.0 \[−\d+\.\d, \+\d+\.\d\], 1 seed$", row(page, "MMC-10 − SCE, robust")[2])
    assert row(pages(*things[-4:])["clock.md"], "MMC-10 − SCE, robust")[1].startswith("+3.0 [+")


def test_crafting_with_other_steps_has_a_column_and_does_not_end_a_lead(pages: Any) -> None:
    others = [thing for kind in ("sce", "mmc") for thing in model(kind, 24, 40, "-pgd10")]
    page = pages(*budgets({12: 3, 24: 3}), *others)["clock.md"]
    assert "The end of this lead was not reached" in message(page)[0]
    assert row(page, "clean / strict")[1:] == ["12 epochs", "24 epochs", "24 epochs, PGD-10"]
    assert row(page, "MMC-10 − SCE, robust")[3].startswith("+0.0 [")


def test_the_better_of_two_is_compared_with_the_better_of_the_others(pages: Any) -> None:
    things = [thing for kind, level in LEVELS.items() for thing in model(kind, 12, level)]
    page = pages(*things)["clock.md"]
    assert row(page, "best with MMC-10 − best other, robust")[1].startswith("+2.0 [")
    assert row(page, "best with MMC-10 − best other, robust")[1].endswith("(MMC-10 − TRADES)")
    assert message(page)[1].startswith(
        "The best training with MMC-10 is more robust than the best of SCE, SCE with clean images and TRADES"
    )
    trials = read_trials(published(*things), RATES)
    assert best_kinds(trials, Column(12, "")) == ("trades", "mmc")
    mixed = read_trials(published(*things, *model("mmc-mixed", 12, 44, "-seed1")), RATES)
    mixed["clock-mmc-mixed-12"].worst["strict"].pop("clock-mmc-mixed-12")
    assert best_kinds(mixed, Column(12, "")) == ("trades", "mmc-mixed")
    assert best_kinds({name: each for name, each in trials.items() if name != "clock-mmc-12"}, Column(12, "")) == (
        "trades", "mmc-mixed",
    )  # fmt: skip
    assert best_kinds({name: each for name, each in trials.items() if "trades" not in name}, Column(12, "")) is None


def test_without_a_pair_the_message_says_so(pages: Any) -> None:
    page = pages(*model("sce", 12, 40), trained("clock-mmc-12", "mmc", "train.epochs=12", finished=False, done=7))[
        "clock.md"
    ]
    assert message(page)[0].startswith("Where the lead of MMC-10 over SCE and TRADES ends was not measured yet")
    assert message(page)[1].startswith("The most robust training under strict is AT (SCE), 12 epochs: ")
    assert "(clean / strict on the first 1,000 images) after" in message(page)[1]
    assert message(page)[-1] == "Of 2 trainings in the records, 1 diverged or did not finish."
    assert row(page, "AT (MMC-10)")[1] == "7 of 12 epochs"


def test_autoattack_is_told_where_it_was_measured(pages: Any) -> None:
    things = budgets({12: 3})
    more = replace(model("mmc", 12, 42.0, suite="autoattack")[1], samples=2000)  # type: ignore[type-var]
    page = pages(*things, more)["clock.md"]
    assert row(page, "AT (MMC-10)")[1] == "80.0 / 43.0, AutoAttack 42.0"
    assert "The most robust training under AutoAttack is AT (MMC-10), 12 epochs: 80.0 / 42.0 %" in page
    assert f"{ANCHORS[0]['clean']:.2f} / {ANCHORS[0]['autoattack']:.2f} % ({ANCHORS[0]['name']}" in page
    assert ANCHORS[0]["autoattack"] == max(each["autoattack"] for each in ANCHORS)
    fewer = summary("clock-sce-12", "autoattack", 50.0, 80.0, samples=500)
    page = pages(*things, more, fewer)["clock.md"]
    assert "The most robust training under AutoAttack is AT (MMC-10), 12 epochs" in page, "of those on most images"


def test_a_model_that_every_attack_breaks_has_its_bound(pages: Any) -> None:
    page = pages(*model("sce", 12, 0, "-seed0"), *model("sce", 12, 0, "-seed1"))["clock.md"]
    assert row(page, "AT (SCE)")[1].endswith("/ 0.0 (≤ 0.37)")


# Times


def test_a_training_alone_has_its_own_time() -> None:
    alone = trained("clock-sce-12", "sce", "train.epochs=12", sharing=1)
    assert seconds_alone(alone, RATES) == (36.0, "own")
    assert seconds_alone(replace(alone, gpu="NVIDIA A100"), RATES).how == "benchmark"
    assert seconds_alone(replace(alone, gpu=""), RATES).how == "benchmark"  # not finished: who shared is not recorded


@pytest.mark.parametrize(
    ("kind", "overrides", "images", "name"),
    [
        ("sce", ("train.epochs=12",), 600_000, "engine PGD-5, batch 256"),
        ("mmc", ("train.epochs=48", "method.steps=10"), 2_400_000, "engine PGD-10, batch 256"),
        ("mmc", ("data.validation=5000", "train.awp=0.005"), 24 * 45_000, "engine PGD-5 with AWP, batch 256"),
        (
            "mmc",
            ("method.steps=1", "method.noise=2.0", "method.step_size=8/255"),
            1_200_000,
            "engine N-FGSM, batch 256",
        ),
    ],
)
def test_a_training_that_shared_its_gpu_has_the_benchmarks_time(
    kind: str, overrides: tuple[str, ...], images: int, name: str
) -> None:
    (rate,) = [each["images_per_second"] for each in RATES["rows"] if each["name"] == name]
    assert seconds_alone(trained("clock-x", kind, *overrides), RATES) == (pytest.approx(images / rate), "benchmark")


def test_a_teacher_costs_one_more_pass() -> None:
    alone, taught = (seconds_alone(trained("clock-x", "mmc", *more), RATES) for more in ((), ("method.distill=0.4",)))
    assert taught == (pytest.approx(alone.value * 14 / 13), "estimated")


def test_a_training_that_ended_early_has_the_time_of_its_epochs() -> None:
    early = trained("clock-sce-12", "sce", "train.epochs=12", done=3, finished=False, diverged=4, gpu="")
    whole = trained("clock-sce-12", "sce", "train.epochs=12")
    assert seconds_alone(early, RATES).value == pytest.approx(seconds_alone(whole, RATES).value / 4)


@pytest.mark.parametrize(
    ("kind", "overrides"),
    [("trades", ()), ("mmc-mixed", ()), ("mmc", ("method.steps=10",)), ("mmc", ("train.awp=0.005",))],
)
def test_an_estimate_is_by_the_benchmarks_own_count_of_passes(
    monkeypatch: pytest.MonkeyPatch, kind: str, overrides: tuple[str, ...]
) -> None:
    """On a machine that is equally fast in every step, the estimate is what the benchmark would measure."""
    monkeypatch.syspath_prepend(str(BENCHMARK.parent.parent))
    engine = importlib.import_module("train_resnet18").contestants("engine")
    rows = [{"name": one.name, "images_per_second": 9e4 / one.passes, "gigaflop_per_image": 2.0 * one.passes}
            for one in engine]  # fmt: skip
    some = trained("clock-x", kind, *overrides)
    measured = seconds_alone(some, {**RATES, "forward_gigaflop": 2.0, "rows": rows})
    assert measured.how == "benchmark"
    known = [each for each in rows if each["name"] == "engine PGD-5, batch 256"]
    estimated = seconds_alone(some, {**RATES, "forward_gigaflop": 2.0, "rows": known})
    assert estimated == (pytest.approx(measured.value), "estimated")


def test_the_page_marks_estimates_and_says_how_times_were_obtained(pages: Any, tmp_path: Path) -> None:
    some = [
        *model("trades", 12, 40),
        *model("sce", 12, 40),
        trained("clock-try-a", "sce", "train.epochs=12", sharing=1),
    ]
    without = {**RATES, "rows": [each for each in RATES["rows"] if "TRADES" not in each["name"]]}
    (tmp_path / "rates.json").write_text(json.dumps(without))
    pages(*some)
    page = clock_pages(tmp_path, tmp_path / "rates.json")["clock.md"]
    assert re.fullmatch(r"≈ \d+", row(page, "`clock-trades-12`")[3])
    assert row(page, "`clock-sce-12`")[3] == f"{seconds_alone(some[2], RATES).value:.0f}"  # type: ignore[arg-type]
    assert row(page, "`clock-try-a`")[3] == "36"
    assert "1 training had a GPU alone and has its own time; " in page
    assert "≈ marks estimates" in page
    assert "≈" not in pages(*model("sce", 12, 40))["clock.md"]


# Every training


def test_every_training_is_listed_with_what_became_of_it(pages: Any) -> None:
    things = [
        *model("sce", 12, 40, "-seed0"),
        trained("clock-sce-12-seed1", "sce", "train.epochs=12", finished=False, done=2, diverged=3),
        trained("clock-sce-12-seed2", "sce", "train.epochs=12", finished=False, done=7),
        trained("clock-try-hot", "sce", "train.epochs=12", "train.lr=9", finished=False, done=0, diverged=1),
        *model("mmc", 192, 45),
        *model("mmc", 96, 45),
    ]
    page = pages(*things)["clock.md"]
    assert row(page, "`clock-sce-12`")[-1] == "1 (seed 1: diverged in epoch 3; seed 2: 7 of 12 epochs)"
    assert row(page, "`clock-try-hot`")[1:] == ["AT (SCE), `train.lr = 9.0`", "12", "–", "–", "–", "–", "–",
                                                "0 (diverged in epoch 1)"]  # fmt: skip
    assert re.findall(r"^\| `(\S+)`", page, re.MULTILINE) == [
        "clock-sce-12", "clock-mmc-96", "clock-mmc-192", "clock-try-hot",
    ]  # fmt: skip
    assert message(page)[-1] == "Of 6 trainings in the records, 3 diverged or did not finish."


def test_a_recipe_is_the_nearest_preset_and_what_differs() -> None:
    for kind, title in KINDS.items():
        assert recipe(to_table(load_settings(f"cifar10-rn18-{kind}", ["train.epochs=96", "train.seed=2"]))) == title
    other = to_table(load_settings("cifar10-rn18-mmc-mixed", ["method.mix=0.5", "data.validation=5000"]))
    assert recipe(other) == "AT (MMC-10) with clean images, `method.mix = 0.5`"


# Tuning


def trial(kind: str, lr: float, decay: str, pgd: float | None, clean: float = 0.7, **changes: Any) -> RunSummary:
    scores = {} if pgd is None else {"validation_pgd10": pgd, "validation_accuracy": clean}
    overrides = (f"train.lr={lr}", f"train.weight_decay={decay}", "data.validation=5000", "data.test_limit=1000")
    return trained(f"clock-tune-{kind}-lr{lr:g}-wd{decay}", kind, *overrides, last=scores, **changes)


def test_the_best_trial_is_chosen_by_pgd_and_its_edges_are_told(pages: Any) -> None:
    preset = load_settings("cifar10-rn18-mmc").train
    rate, decay = preset.lr, f"{preset.weight_decay:g}"
    runs = [
        trial("mmc", rate / 2, decay, 0.50, 0.75),
        trial("mmc", rate, decay, 0.50, 0.76),
        trial("mmc", 2 * rate, decay, 0.45, 0.80),
        trial("mmc", rate, f"{preset.weight_decay / 2:g}", 0.49),
        trial("mmc-mixed", rate, decay, 0.52),
    ]
    ((_, found), (_, mixed)) = tunings(published(*runs))
    assert [mixed.best] == mixed.runs == runs[4:]
    assert found.best == runs[1]
    assert found.edges == {"lr": None, "weight_decay": "highest"}
    assert len(found.runs) == 4
    page = pages(*runs)["clock.md"]
    table = page[page.index("## Tuning") : page.index("## Protocol")]
    (line,) = [line for line in table.splitlines() if "**best**" in line and "AT (MMC-10) |" in line]
    assert f"| 24 | {rate:g} | {decay} | 76.0 % [74.8, 77.2] | 50.0 % [48.6, 51.4] |" in line
    assert line.endswith("| **best**, highest weight decay tried, in the preset |")
    assert row(page, f"`{runs[2].name}`")[4:6] == ["–", "45.0"]
    assert "clean / strict" not in page
    assert "![" not in page


@pytest.mark.parametrize(
    ("changes", "edge"),
    [({"pgd": 0.4}, None), ({"pgd": None, "finished": False, "diverged": 2, "done": 1}, None),
     ({"pgd": None, "finished": False, "done": 9}, "highest")],
)  # fmt: skip
def test_a_rate_that_diverged_was_tried_and_one_that_still_trains_was_not(changes: dict[str, Any], edge: str) -> None:
    runs = [trial("sce", 0.05, "5e-4", 0.4), trial("sce", 0.1, "5e-4", 0.5), trial("sce", 0.2, "5e-4", **changes)]
    ((_, found),) = tunings(published(*runs))
    assert found.best == runs[1]
    assert found.edges["lr"] == edge


def test_trials_of_another_length_choose_among_themselves(pages: Any) -> None:
    short = [trial("sce", lr, "5e-4", pgd) for lr, pgd in ((0.1, 0.4), (0.2, 0.5), (0.4, 0.45))]
    long = [
        replace(each, name=each.name.replace("-sce-", "-sce-96-"),
                settings={**each.settings, "train": {**each.settings["train"], "epochs": 96}})
        for each in (short[0], short[2])
    ]  # fmt: skip
    found = tunings(published(*short, *long))
    assert [(kind, each.best) for kind, each in found] == [("sce", short[1]), ("sce", long[1])]
    page = pages(*short, *long)["clock.md"]
    assert "| AT (SCE) | 96 | 0.4 |" in page
    assert page.count("**best**") == 2


def test_without_a_finished_trial_none_is_best(pages: Any) -> None:
    page = pages(trial("sce", 0.2, "5e-4", None, finished=False, diverged=2, done=1))["clock.md"]
    assert "**best**" not in page
    assert page.count("diverged in epoch 2") == 2


# Figures and links


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_figures_show_every_series_seed_and_anchor(pages: Any) -> None:
    things = [each for epochs in (12, 24) for kind, level in LEVELS.items() for seed in (0, 1)
              for each in model(kind, epochs, level + epochs / 12 + seed, f"-seed{seed}", 70 + level / 5)]  # fmt: skip
    made = pages(*things)
    time, front = (made[f"figures/clock-{name}.svg"] for name in ("time", "front"))
    for slot, title in enumerate(KINDS.values()):
        assert title in texts(time)
        assert title in texts(front)
        assert len(re.findall(rf'fill="var\(--s{slot}\)"', time)) == 4
        assert len(re.findall(rf'fill="var\(--s{slot}\)"', front)) == 2
    assert {each["name"] for each in ANCHORS} <= {*texts(front)}
    assert {"12 epochs", "24 epochs"} <= {*texts(front)}
    for name in ("time", "front"):
        assert f"(figures/clock-{name}.svg)" in made["clock.md"]


def test_only_what_was_measured_is_drawn(pages: Any) -> None:
    made = pages(*model("sce", 12, 40), *model("mmc", 12, 42), *model("mmc", 12, 41, suite="autoattack")[1:])
    assert KINDS["trades"] not in texts(made["figures/clock-time.svg"])
    assert "12 epochs" in texts(made["figures/clock-front.svg"])
    both = pages(*(thing for suite in ("strict", "autoattack") for thing in model("sce", 12, 40, suite=suite)))
    assert "12 epochs (AA)" in texts(both["figures/clock-front.svg"])
    without_times = pages(*model("sce", 12, 40)[1:])
    assert [*without_times] == ["clock.md", "figures/clock-front.svg"]


def test_the_front_leaves_out_what_another_kind_exceeds_in_both() -> None:
    assert front([(70.0, 40.0, 0), (71.0, 43.0, 1), (72.0, 42.0, 2), (73.0, 42.0, 3), (74.0, 39.0, 4)]) == [
        (71.0, 43.0, 1), (73.0, 42.0, 3), (74.0, 39.0, 4),
    ]  # fmt: skip


def test_a_label_takes_a_free_place_inside_the_chart() -> None:
    chart = Chart("", Axis("", 0.0, 1.0), Axis("", 0.0, 1.0))
    here, taken = chart.place(0.5, 0.5), [(0.0, 0.0, 1.0, 1.0)]
    labels = [_label(chart, "some words", here, taken) for _ in range(6)]
    assert [label.anchor for label in labels[:2]] == ["start", "end"]
    assert labels[0].x > here[0] > labels[1].x
    for place, (left, top, right, bottom) in enumerate(taken):
        for others in taken[:place]:
            assert right <= others[0] or others[2] <= left or bottom <= others[1] or others[3] <= top
    assert _label(chart, "some words", chart.place(0.95, 0.5), []).anchor == "end"
    x, y = chart.place(0.05, 0.5)
    above = _label(chart, "some words", (x, y), [(x, y, chart.width, y + 1)])
    assert (above.anchor, above.y < y) == ("start", True)


def test_nothing_is_written_without_data(tmp_path: Path) -> None:
    assert clock_pages(tmp_path) == {}
    names = {"README.md", "claims.md", "tables.md", "training.md"}
    bare = results_pages(published(), [])
    assert {*bare} == names
    assert "clock.md" not in bare["README.md"]


def test_the_results_page_leads_to_it(pages: Any) -> None:
    page = pages(*budgets({12: 3}))["clock.md"]
    told = results_pages(published(), [], {"Variants": "# V\n\nvaried\n", "Clock": page})["README.md"]
    assert "## Variants and clock\n" in told
    assert f"- [Clock](clock.md): {' '.join(message(page))}\n" in told
