"""``python -m paper.gallery``, figure by figure and as a page."""

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from commands import Outcome, runner
from maxmahal.report.chart import Dots, Drawing
from paper.gallery import FIGURES, FigureOptions, GalleryFigure
from paper.gallery.__main__ import app


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    return runner(monkeypatch, capfd, app)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[FigureOptions]:
    """A figure that counts how often it is computed, and moves."""
    calls: list[FigureOptions] = []

    def compute(options: FigureOptions) -> dict[str, Any]:
        calls.append(options)
        return {"computed": len(calls), "quick": options.quick}

    def panels(record: dict[str, Any], frame: int | None) -> list[Drawing]:
        return [Drawing(f"number {record['computed']}", 150.0, 50.0, [Dots([(5.0 * (frame or 0), 9.0)], "c1", 3.0)])]

    counted = GalleryFigure("Counted", "How often.", compute, panels, frames=lambda record: 3)
    monkeypatch.setitem(FIGURES, "counted", counted)
    return calls


def test_without_a_name_the_figures_are_listed(gallery, tmp_path: Path) -> None:
    gallery("figure", "figure5", "--records", tmp_path, "--out", tmp_path / "x.svg")
    done = gallery("figure", "--records", tmp_path)
    assert done.code == 0, done.err
    lines = {line.split()[0]: line for line in done.out.splitlines() if line.split()[0] in FIGURES}
    assert set(lines) == set(FIGURES)
    assert "has a record" in lines["figure5"]
    assert "no record yet" in lines["figure3b"]


def test_a_figure_is_computed_once_and_drawn_in_every_format(
    gallery, asked: list[FigureOptions], tmp_path: Path
) -> None:
    first = gallery(
        "figure", "counted", "--records", tmp_path / "r", "--out", tmp_path / "f.svg", "--data-dir", tmp_path
    )
    assert first.code == 0, first.err
    assert "Computing counted." in first.out
    assert asked == [FigureOptions(tmp_path, quick=False)]
    for ending in ("svg", "png", "gif", "html"):
        done = gallery("figure", "counted", "--records", tmp_path / "r", "--out", tmp_path / f"f.{ending}")
        assert done.code == 0, done.err
        assert "Computing" not in done.out
    assert len(asked) == 1
    assert "number 1" in "".join(ET.parse(tmp_path / "f.svg").getroot().itertext())
    with Image.open(tmp_path / "f.png") as still:
        assert still.format == "PNG"
    with Image.open(tmp_path / "f.gif") as film:
        assert film.n_frames == 3
    assert "number 1" in (tmp_path / "f.html").read_text(encoding="utf-8")


def test_fresh_computes_again_and_quick_is_passed_on(gallery, asked: list[FigureOptions], tmp_path: Path) -> None:
    gallery("figure", "counted", "--records", tmp_path, "--out", tmp_path / "f.svg")
    done = gallery("figure", "counted", "--records", tmp_path, "--out", tmp_path / "f.html", "--fresh", "--quick")
    assert done.code == 0, done.err
    assert [each.quick for each in asked] == [False, True]
    text = (tmp_path / "f.html").read_text(encoding="utf-8")
    assert "number 2" in text
    assert "A quick computation" in text


def test_the_default_file_is_named_after_the_figure(
    gallery, asked: list[FigureOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    done = gallery("figure", "counted")
    assert done.code == 0, done.err
    kept = tmp_path / "cache" / "maxmahal" / "gallery" / "counted.json"
    assert kept.exists()
    assert str(kept) in done.out
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "counted.svg"}
    (tmp_path / "paper/results/gallery").mkdir(parents=True)
    assert gallery("figure", "counted").code == 0
    assert (tmp_path / "paper/results/gallery" / "counted.json").exists()


def test_mistakes_are_refused_before_anything_is_computed(gallery, asked: list[FigureOptions], tmp_path: Path) -> None:
    gallery("figure", "figur5", "--records", tmp_path).assert_refused("no figure 'figur5'", "did you mean 'figure5'?")
    wrong = gallery("figure", "counted", "--records", tmp_path, "--out", tmp_path / "f.bmp")
    wrong.assert_refused("f.bmp", ".svg, .png, .gif, .html")
    gallery("figure", "figure5", "--records", tmp_path, "--out", "f.gif").assert_refused("figure5 has no animation")
    (tmp_path / "counted.json").write_text("{", encoding="utf-8")
    gallery("figure", "counted", "--records", tmp_path).assert_refused("counted.json is not a record", "--fresh")
    assert asked == []
    assert not list(tmp_path.glob("f.*"))


def test_a_gallery_holds_every_figure_that_has_a_record(gallery, asked: list[FigureOptions], tmp_path: Path) -> None:
    page = tmp_path / "gallery.html"
    for name in ("counted", "figure5"):
        gallery("figure", name, "--records", tmp_path, "--out", tmp_path / f"{name}.svg")
    done = gallery("page", "--records", tmp_path, "--out", page)
    assert done.code == 0, done.err
    text = page.read_text(encoding="utf-8")
    assert [name for name in FIGURES if f'<section id="{name}"' in text] == ["figure5", "counted"]
    assert "figure3b" in done.out.split("no record:")[1]
    assert len(asked) == 1
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_a_gallery_without_any_record_makes_the_cheap_ones(gallery, asked: list[FigureOptions], tmp_path: Path) -> None:
    page = tmp_path / "gallery.html"
    done = gallery("page", "--records", tmp_path / "records", "--out", page)
    assert done.code == 0, done.err
    assert f"{tmp_path / 'records'} holds no figure's record yet" in done.out
    text = page.read_text(encoding="utf-8")
    shown = {name for name in FIGURES if f'<section id="{name}"' in text}
    assert shown == {"figure1", "figure2", "figure5", "figure6", "densities"}
    assert asked == []


def test_a_page_that_cannot_be_written_leaves_no_records(gallery: Callable[..., Outcome], tmp_path: Path) -> None:
    gallery("page", "--records", tmp_path / "records", "--out", tmp_path).assert_refused(
        "it is a folder, not a plain file"
    )
    assert not (tmp_path / "records").exists()
