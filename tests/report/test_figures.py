"""Figures: each shows what the records say, is left out where they say nothing, and has the same bytes every time."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from small_evaluations import make_columns, make_evaluation, make_rich_evaluation, make_stage, make_stages

from maxmahal.errors import ArgumentError
from maxmahal.records import Finding
from maxmahal.report import figures
from maxmahal.report.chart import Area, Dots, Drawing, Line, Mark, Pixels, Text, palette
from maxmahal.report.figures import FIGURES, paint, write_figures
from maxmahal.report.layout import reported_models

STARTS = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}
BARE = {"findings": (), "pictures": (), "points": (), "training": [], "centers_xy": None}


def drawn(name: str, *evaluations: object) -> Drawing:
    """The figure of that name, which must exist."""
    drawing = FIGURES[name](reported_models(list(evaluations)))
    assert drawing is not None
    return drawing


def texts(drawing: Drawing) -> list[str]:
    return [part.text for part in drawing.parts if isinstance(part, Text)]


def tips(drawing: Drawing) -> list[str]:
    return [part.tip for part in drawing.parts if isinstance(part, Mark | Area) and part.tip]


def legend(drawing: Drawing) -> list[str]:
    """The texts right of the legend's lines."""
    starts = [part.points[-1] for part in drawing.parts if isinstance(part, Line) and part.width == 3]
    return [
        part.text
        for x, y in starts
        for part in drawing.parts
        if isinstance(part, Text) and (part.x, part.y) == (x + 7, y + 4)
    ]


def test_every_figure_in_every_format(tmp_path: Path) -> None:
    several = [make_rich_evaluation(), make_rich_evaluation(name="sce", model_fingerprint="m1")]
    paths = write_figures(several, tmp_path / "new", ["png", "svg", "pdf"])
    assert [path.name for path in paths] == [f"{name}.{each}" for name in FIGURES for each in STARTS]
    assert sorted(paths) == sorted((tmp_path / "new").iterdir())
    for path in paths:
        assert path.read_bytes().startswith(STARTS[path.suffix[1:]])


def test_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    first = write_figures([make_rich_evaluation()], tmp_path / "a", ["png", "svg", "pdf"])
    with matplotlib.rc_context({"lines.linewidth": 9, "svg.hashsalt": "other", "savefig.dpi": 30}):
        second = write_figures([make_rich_evaluation()], tmp_path / "b", ["png", "svg", "pdf"])
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_a_figure_with_nothing_to_show_is_not_written(tmp_path: Path) -> None:
    bare = make_evaluation(stages=make_stages()[:1], **BARE)
    assert write_figures([bare], tmp_path, ["png"]) == []
    assert write_figures([make_evaluation(stages=(), **BARE)], tmp_path, ["png"]) == []
    assert write_figures([], tmp_path, ["png"]) == []
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_format_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot be written as 'pgn'; did you mean 'png'"):
        write_figures([make_rich_evaluation()], tmp_path, ["svg", "pgn"])
    assert list(tmp_path.iterdir()) == []


def test_a_failing_figure_leaves_no_half_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(figure: Figure, path: Path, **options: object) -> None:
        Path(path).write_bytes(b"half")
        raise RuntimeError("full")

    monkeypatch.setattr(Figure, "savefig", fail)
    with pytest.raises(RuntimeError, match="full"):
        write_figures([make_rich_evaluation()], tmp_path, ["png"])
    assert list(tmp_path.iterdir()) == []


def test_odd_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    odd = [make_rich_evaluation(name="$x_{$"), make_rich_evaluation(name="_hidden", model_fingerprint="m1")]
    write_figures(odd, tmp_path, ["svg"])
    assert legend(drawn("training", *odd)) == ["$x_{$", "_hidden"]
    painted = paint(drawn("training", *odd)).axes[0].texts
    assert {"$x_{$", "_hidden"} <= {text.get_text() for text in painted}


def test_pyplot_stays_out_of_it(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
sys.path += {sys.path!r}
from small_evaluations import make_rich_evaluation
from maxmahal.report.figures import write_figures
write_figures([make_rich_evaluation()], Path({str(tmp_path)!r}), ["svg"])
sys.exit("matplotlib.pyplot" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert list(tmp_path.iterdir())


def test_clean_against_robust_accuracy_has_a_mark_and_a_label_per_model() -> None:
    clean, pgd, *_ = make_stages()
    weak = make_evaluation(name="weak", stages=(clean, replace(pgd, columns=make_columns(range(10)))))
    twin = replace(make_evaluation(name="twin"), model_fingerprint="m1")
    drawing = drawn("clean-robust", make_evaluation(), twin, weak)
    assert tips(drawing) == [
        "weak: clean 90.0 % [55.5, 99.7], robust 0.0 % (≤ 30.85)",
        "mmc: clean 90.0 % [55.5, 99.7], robust 50.0 % [18.7, 81.3]",
        "twin: clean 90.0 % [55.5, 99.7], robust 50.0 % [18.7, 81.3]",
    ]
    low, first, second = [part for part in drawing.parts if isinstance(part, Mark)]
    assert (first.x, first.y) == (second.x, second.y)
    assert low.y > first.y, "a more robust model is higher"
    named = {part.text: part.y for part in drawing.parts if isinstance(part, Text) and part.halo}
    assert sorted(named) == ["mmc", "twin", "weak"]
    assert abs(named["mmc"] - named["twin"]) >= 16, "labels do not overlap"
    long = replace(twin, name="a name that is longer than its place in the chart")
    assert "a name that is longer …" in texts(drawn("clean-robust", weak, long))
    assert FIGURES["clean-robust"](reported_models([weak])) is None


def test_accuracy_against_epsilon_and_budget() -> None:
    evaluation = make_rich_evaluation()
    assert tips(drawn("accuracy-by-epsilon", evaluation)) == [
        "mmc: 90.0 % at epsilon 0", "mmc: 50.0 % at epsilon 0.03", "mmc: 10.0 % at epsilon 0.06"
    ]  # fmt: skip
    assert [tip.split(": ")[1] for tip in tips(drawn("accuracy-by-budget", evaluation))] == [
        "60.0 % at steps 10", "55.0 % at steps 50", "50.0 % at steps 100",
        "55.0 % at restarts 1", "50.0 % at restarts 5",
    ]  # fmt: skip


def test_a_finding_without_one_of_its_curves_has_one_chart_less() -> None:
    numbers = {"steps": [10, 50], "accuracy_by_steps": [0.5, 0.4], "restarts": [], "accuracy_by_restarts": []}
    finding = Finding("still-falling", "Budget", False, "Flat.", "", numbers=numbers)
    shown = texts(drawn("accuracy-by-budget", make_evaluation(findings=(finding,))))
    assert "Accuracy against steps" in shown
    assert "Accuracy against restarts" not in shown
    nothing = reported_models([make_evaluation(findings=(replace(finding, numbers={}),))])
    assert FIGURES["accuracy-by-budget"](nothing) is None


def test_training_is_drawn_once_for_a_model_under_two_suites() -> None:
    both = [make_evaluation(), make_evaluation(suite="autoattack"), make_evaluation(name="sce", model_fingerprint="m1")]
    drawing = drawn("training", *both)
    assert legend(drawing) == ["mmc", "sce"]
    assert [tip.rpartition(", ")[2] for tip in tips(drawing)[:2]] == [
        "2.0 s: test error 50.0 %",
        "4.0 s: test error 10.0 %",
    ]


def test_epochs_without_a_test_are_left_out_of_the_training() -> None:
    training = [{"epoch": 1, "train_seconds": 2.0}, {"epoch": 2, "train_seconds": 4.0, "test_accuracy": 0.9}]
    assert tips(drawn("training", make_evaluation(training=training))) == ["mmc, epoch 2, 4.0 s: test error 10.0 %"]


def test_bars_add_up_to_every_sample() -> None:
    clean, pgd, square, *rest = make_stages()
    twin = make_stage("twin", make_columns([4, 9]), title=pgd.title)
    drawing = drawn("broken-by", make_evaluation(stages=(clean, pgd, square, twin, *rest)))
    assert sum(float(tip.rpartition(": ")[2].removesuffix(" %")) for tip in tips(drawing)) == pytest.approx(100)
    assert tips(drawing)[0] == "wrong without an attack: 10.0 %"
    assert tips(drawing)[-1] == "robust: 40.0 %"
    assert {"PGD-10, untargeted: 30.0 %", "Square: 10.0 %"} <= {*tips(drawing)}
    assert legend(drawing) == ["wrong without an attack", "PGD-10, untargeted", "Square", "robust"]


def test_transfer_says_what_was_not_run() -> None:
    mine = make_rich_evaluation()
    other = make_stage("from-mmc", make_columns([0, 1, 9]), kind="transfer", settings={"source": "mmc"}, title="mmc")
    sce = make_evaluation(name="sce", stages=(make_stages()[0], other))
    shown = texts(drawn("transfer", mine, sce))
    assert shown.count("not run") == 2
    assert {"80.0", "70.0", "mmc", "sce"} <= {*shown}


def test_distortions_are_those_of_the_broken_images() -> None:
    drawing = drawn("distortion", make_evaluation())
    # Eight samples of ten have a distance and were classified correctly before.
    assert sum(int(tip.split(": ")[1].split()[0]) for tip in tips(drawing)) == 8
    assert "mmc, C&W: distortions" in texts(drawing)


def test_feature_space_shows_every_point_and_center() -> None:
    evaluation = make_rich_evaluation()
    drawing = drawn("features", evaluation)
    dots = [part for part in drawing.parts if isinstance(part, Dots)]
    assert sum(len(part.points) for part in dots) == sum(len(points.sample) for points in evaluation.points)
    assert "mmc: PGD-10, untargeted" in texts(drawing)
    crosses = [part for part in drawing.parts if isinstance(part, Line) and part.ink == "ink"]
    assert len(crosses) == 2 * 3 * len(evaluation.points)
    without = drawn("features", make_rich_evaluation(centers_xy=None))
    assert not [part for part in without.parts if isinstance(part, Line) and part.ink == "ink"]


@pytest.mark.parametrize("channels", [1, 3])
def test_images_are_those_of_the_record_with_the_predicted_classes(channels: int) -> None:
    picture = make_rich_evaluation().pictures[0]
    slim = replace(picture, clean=picture.clean[:channels], adversarial=picture.adversarial[:channels], prediction=7)
    drawing = drawn("gallery", make_rich_evaluation(pictures=(slim,)))
    assert texts(drawing)[-2:] == ["cat", "class 7"]
    shown = np.asarray(paint(drawing).axes[0].images[0].get_array())
    np.testing.assert_allclose(shown, slim.clean[0] if channels == 1 else slim.clean.transpose(1, 2, 0))


def test_images_are_limited_to_some_per_model() -> None:
    picture = make_rich_evaluation().pictures[0]
    many = tuple(replace(picture, sample=sample) for sample in range(20))
    parts = drawn("gallery", make_rich_evaluation(pictures=many)).parts
    assert sum(isinstance(part, Pixels) for part in parts) == 2 * figures._PICTURES


def test_models_of_one_name_are_told_apart() -> None:
    drawing = drawn("accuracy-by-epsilon", make_rich_evaluation(), make_rich_evaluation(suite="autoattack"))
    assert legend(drawing) == ["mmc (standard)", "mmc (autoattack)"]


def test_what_matplotlib_paints_has_the_drawings_colours(tmp_path: Path) -> None:
    corner = [(10.0, 10.0), (30.0, 10.0), (30.0, 30.0), (10.0, 30.0)]
    parts = [Area(corner, "c1"), Dots([(60.0, 20.0)], "c2", 5.0), Line([(0.0, 50.0), (80.0, 50.0)], "bad", 4.0)]
    figures.write_drawing(Drawing("Parts", 80.0, 60.0, parts), tmp_path / "parts.png", "png")
    image = Image.open(tmp_path / "parts.png").convert("RGB")
    assert image.size == (160, 120)
    shown = {ink: "#{:02x}{:02x}{:02x}".format(*image.getpixel(at)) for ink, at in  # type: ignore[misc]
             {"c1": (40, 40), "c2": (120, 40), "bad": (80, 100), "card": (140, 80)}.items()}  # fmt: skip
    assert shown == {ink: palette()[ink] for ink in shown}
