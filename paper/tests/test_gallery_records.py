"""Records: small JSON, computed once, and all that a drawing needs."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maxmahal.records.schema import RecordsError
from paper.gallery.__main__ import main
from paper.gallery.figure import FigureOptions, GalleryFigure, pack, quantise, restore, square_around, unpack
from paper.gallery.registry import FIGURES, gallery_pages, make_record, read_record, record_path


def refuse(*arguments: object, **options: object) -> Any:
    raise AssertionError("a drawing asked for a computation")


def no_constant(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


def test_every_figure_has_a_record_that_is_small_json(folder: Path) -> None:
    found = sorted(path.stem for path in folder.glob("*.json"))
    assert found == sorted(set(FIGURES) - {"figure3b"})
    for path in folder.glob("*.json"):
        kept = json.loads(path.read_text(encoding="utf-8"), parse_constant=no_constant)
        assert kept["figure"] == path.stem
        assert path.stat().st_size < 200_000


def test_drawings_need_nothing_but_the_record(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(torch.nn.Module, "__call__", refuse)
    monkeypatch.setattr(torch.Tensor, "backward", refuse)
    monkeypatch.setattr(torch.autograd, "grad", refuse)
    monkeypatch.setattr("paper.gallery.models.train_epoch", refuse)
    monkeypatch.setattr("paper.gallery.models.craft", refuse)
    with pytest.raises(AssertionError, match="asked for a computation"):
        make_record(tmp_path, "figure3b-digits", FigureOptions(quick=True))  # the traps are set
    results = tmp_path / "results"
    shutil.copytree(folder, results / "gallery")
    made = gallery_pages(results)
    names = [name for name in FIGURES if name != "figure3b"]
    assert list(made) == ["gallery.md", *(f"figures/{name}.svg" for name in names)]
    assert [line.removeprefix("## ") for line in made["gallery.md"].splitlines() if line.startswith("## ")] == [
        FIGURES[name].title for name in names
    ]
    assert all(f"](figures/{name}.svg)" in made["gallery.md"] for name in names)
    assert "**" in made["gallery.md"]  # the best objective for each goal of figure 6


def test_without_a_record_there_is_no_page(tmp_path: Path) -> None:
    assert gallery_pages(tmp_path) == {}


def test_the_command_computes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[FigureOptions] = []

    def compute(options: FigureOptions) -> dict[str, Any]:
        calls.append(options)
        return {"number": len(calls)}

    monkeypatch.setitem(FIGURES, "made-up", GalleryFigure("Made up", compute, lambda record: []))
    assert read_record(tmp_path, "made-up") is None
    main(["made-up", "--records", str(tmp_path), "--data-dir", str(tmp_path / "data")])
    assert read_record(tmp_path, "made-up") == {"number": 1}
    assert calls == [FigureOptions(tmp_path / "data")]


def test_the_command_refuses_an_unknown_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["figur5", "--records", str(tmp_path)])
    assert "invalid choice: 'figur5'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_record_with_a_nan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = GalleryFigure("Bad", lambda options: {"number": float("nan")}, lambda record: [])
    monkeypatch.setitem(FIGURES, "bad", bad)
    with pytest.raises(ValueError, match="JSON compliant"):
        make_record(tmp_path, "bad", FigureOptions())
    assert not record_path(tmp_path, "bad").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "maxmahal-figure-1", "figure": "figure6", "record": {}}'])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    record_path(tmp_path, "figure5").write_text(text, encoding="utf-8")
    with pytest.raises(RecordsError, match=r"figure5\.json is not a record of figure5 .* makes one"):
        read_record(tmp_path, "figure5")


@given(st.integers(0, 2**32 - 1))
def test_positions_survive_to_half_a_step(seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(5, 7, 2)) * 30 + 4
    view = square_around(points)
    whole = quantise(points, view)
    back = restore(unpack(json.loads(json.dumps(pack(whole)))), view)
    assert np.abs(back - points).max() <= 0.5001 * view[2] / np.iinfo(np.int16).max


def test_positions_outside_the_window_are_moved_to_its_border() -> None:
    whole = quantise(np.array([[100.0, 0.0], [0.0, -100.0]]), [0.0, 0.0, 10.0])
    assert restore(whole, [0.0, 0.0, 10.0]).tolist() == [[10.0, 0.0], [0.0, -10.0]]
