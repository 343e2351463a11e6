"""Figures: each shows what the records say, is left out where they say nothing, and has the same bytes every time."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from small_evaluations import make_columns, make_evaluation, make_rich_evaluation, make_stage, make_stages

from maxmahal.errors import ArgumentError
from maxmahal.records import Finding
from maxmahal.report import figures
from maxmahal.report.figures import FIGURES, write_figures

STARTS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
BARE = {"findings": (), "pictures": (), "points": (), "training": [], "centers_xy": None}


def drawn(name: str, *evaluations: object) -> Figure:
    """The figure of that name, which must exist."""
    figure = FIGURES[name](list(evaluations))
    assert figure is not None
    return figure


def line(figure: Figure, panel: int = 0, number: int = 0) -> tuple[list[float], list[float]]:
    drawn_line = figure.axes[panel].lines[number]
    return list(drawn_line.get_xdata()), list(drawn_line.get_ydata())


def test_every_figure_in_every_format(tmp_path: Path) -> None:
    paths = write_figures([make_rich_evaluation()], tmp_path / "new", ["png", "svg", "pdf"])
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
    legend = drawn("training", *odd).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text().strip() for text in legend.get_texts()] == ["$x_{$", "_hidden"]


def test_pyplot_stays_out_of_it(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
sys.path.append({str(Path(__file__).parent)!r})
from small_evaluations import make_rich_evaluation
from maxmahal.report.figures import write_figures
write_figures([make_rich_evaluation()], Path({str(tmp_path)!r}), ["svg"])
sys.exit("matplotlib.pyplot" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert list(tmp_path.iterdir())


def test_accuracy_against_epsilon_and_budget() -> None:
    evaluation = make_rich_evaluation()
    assert line(drawn("accuracy-by-epsilon", evaluation)) == ([0.0, 0.03, 0.06], [90.0, 50.0, 10.0])
    figure = drawn("accuracy-by-budget", evaluation)
    x, y = line(figure, 0)
    assert (x, y) == ([10, 50, 100], pytest.approx([60, 55, 50]))
    assert line(figure, 1) == ([1, 5], pytest.approx([55, 50]))


def test_a_finding_without_one_of_its_curves_has_one_panel_less() -> None:
    numbers = {"steps": [10, 50], "accuracy_by_steps": [0.5, 0.4], "restarts": [], "accuracy_by_restarts": []}
    finding = Finding("still-falling", "Budget", False, "Flat.", "", numbers=numbers)
    assert len(drawn("accuracy-by-budget", make_evaluation(findings=(finding,))).axes) == 1
    assert FIGURES["accuracy-by-budget"]([make_evaluation(findings=(replace(finding, numbers={}),))]) is None


def test_training_is_drawn_once_for_a_model_under_two_suites() -> None:
    both = [make_evaluation(), make_evaluation(suite="autoattack"), make_evaluation(name="sce", model_fingerprint="m1")]
    figure = drawn("training", *both)
    assert len(figure.axes[0].lines) == 2
    assert line(figure) == ([2.0, 4.0], pytest.approx([50.0, 10.0]))


def test_epochs_without_a_test_are_left_out_of_the_training() -> None:
    training = [{"epoch": 1, "train_seconds": 2.0}, {"epoch": 2, "train_seconds": 4.0, "test_accuracy": 0.9}]
    assert line(drawn("training", make_evaluation(training=training)))[0] == [4.0]


def test_bars_add_up_to_every_sample() -> None:
    clean, pgd, square, *rest = make_stages()
    twin = make_stage("twin", make_columns([4, 9]), title=pgd.title)
    figure = drawn("broken-by", make_evaluation(stages=(clean, pgd, square, twin, *rest)))
    bars = {each.get_label(): each[0].get_width() for each in figure.axes[0].containers}
    assert bars == {
        "still right": 40.0,
        "PGD-10, untargeted": 40.0,
        "Square": 10.0,
        "wrong before": 10.0,
    }
    assert next(iter(bars)) == "still right"
    assert list(bars)[-1] == "wrong before"


def test_transfer_keeps_the_stronger_of_two_and_leaves_strangers_empty() -> None:
    mine = make_rich_evaluation()
    weaker = make_stage("weaker", make_columns([9]), kind="transfer", settings={"source": "sce"})
    rest = make_stage("rest", make_columns([3], [3, 4]), kind="transfer", settings={"source": "sce"}, scope="survivors")
    other = make_stage("from-mmc", make_columns([0, 1, 9]), kind="transfer", settings={"source": "mmc"})
    sce = make_evaluation(name="sce", stages=(make_stages()[0], other))
    figure = drawn("transfer", replace(mine, stages=(*mine.stages, weaker, rest)), sce)
    grid = np.ma.filled(figure.axes[0].images[0].get_array(), np.nan)
    np.testing.assert_allclose(grid, [[80.0, np.nan], [np.nan, 70.0]])
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["sce", "mmc"]


def test_distortions_are_of_the_images_that_were_turned() -> None:
    figure = drawn("distortion", make_evaluation())
    heights = figure.axes[0].patches[0].get_xy()[:, 1]
    # A step outline passes each bin's height twice: eight samples of ten have a distance and were right before.
    assert heights[1:-1].sum() == pytest.approx(2 * 8)
    assert figure.axes[0].get_title() == "C&W"


def test_feature_space_shows_every_point_and_center() -> None:
    figure = drawn("features", make_rich_evaluation())
    clean, attacked = figure.axes
    np.testing.assert_allclose(clean.collections[0].get_offsets(), make_rich_evaluation().points[0].xy)
    assert len(clean.collections[1].get_offsets()) == 3
    assert attacked.get_title() == "mmc: PGD-10, untargeted"
    without = drawn("features", make_rich_evaluation(centers_xy=None))
    assert len(without.axes[0].collections) == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_gallery_names_what_the_model_saw(channels: int) -> None:
    picture = make_rich_evaluation().pictures[0]
    slim = replace(picture, clean=picture.clean[:channels], adversarial=picture.adversarial[:channels], prediction=7)
    above, below = drawn("gallery", make_rich_evaluation(pictures=(slim,))).axes
    assert (above.get_title(), below.get_title()) == ("cat", "7")
    shown = np.asarray(above.images[0].get_array())
    np.testing.assert_allclose(shown, slim.clean[0] if channels == 1 else slim.clean.transpose(1, 2, 0))


def test_the_gallery_is_cut_and_not_crowded() -> None:
    many = make_rich_evaluation().pictures * 20
    figure = drawn("gallery", make_rich_evaluation(pictures=many))
    assert sum(bool(axis.images) for axis in figure.axes) == 2 * figures._PICTURES


def test_models_of_one_name_are_told_apart() -> None:
    figure = drawn("accuracy-by-epsilon", make_rich_evaluation(), make_rich_evaluation(suite="autoattack"))
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["mmc (standard)", "mmc (autoattack)"]
