"""Records: small JSON, computed once, and all that a drawing needs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from paper.gallery import (
    FIGURES,
    FigureOptions,
    GalleryFigure,
    make_record,
    obtain_record,
    read_record,
    render_gallery,
    write_figure,
)
from paper.gallery.figure import pack, quantise, restore, square_around, unpack
from paper.gallery.registry import FigureRecordError, record_path


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
    records = {}
    for name in sorted(path.stem for path in folder.glob("*.json")):
        records[name] = obtain_record(folder, name, FigureOptions())
        write_figure(name, records[name], tmp_path / f"{name}.svg")
    assert "</html>" in render_gallery(records)


def test_a_record_is_computed_when_missing_or_asked_for_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[FigureOptions] = []

    def compute(options: FigureOptions) -> dict[str, Any]:
        calls.append(options)
        return {"number": len(calls)}

    monkeypatch.setitem(FIGURES, "made-up", GalleryFigure("Made up", "A number.", compute, lambda record, frame: []))
    assert read_record(tmp_path, "made-up") is None
    assert obtain_record(tmp_path, "made-up", FigureOptions(seed=3)) == {"number": 1}
    assert obtain_record(tmp_path, "made-up", FigureOptions()) == {"number": 1}
    assert obtain_record(tmp_path, "made-up", FigureOptions(), fresh=True) == {"number": 2}
    assert [each.seed for each in calls] == [3, 0]


def test_a_record_with_a_nan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = GalleryFigure("Bad", "Not a number.", lambda options: {"number": float("nan")}, lambda record, frame: [])
    monkeypatch.setitem(FIGURES, "bad", bad)
    with pytest.raises(ValueError, match="JSON compliant"):
        make_record(tmp_path, "bad", FigureOptions())
    assert not record_path(tmp_path, "bad").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": "maxmahal-figure-1", "figure": "figure6", "record": {}}'])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    record_path(tmp_path, "figure5").write_text(text, encoding="utf-8")
    with pytest.raises(FigureRecordError, match=r"figure5\.json is not a record of figure5 .* --fresh"):
        read_record(tmp_path, "figure5")


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.int8, np.int16]))
def test_positions_survive_to_half_a_step(seed: int, dtype: type) -> None:
    points = np.random.default_rng(seed).normal(size=(5, 7, 2)) * 30 + 4
    view = square_around(points)
    whole = quantise(points, view, dtype)
    back = restore(unpack(json.loads(json.dumps(pack(whole)))), view)
    assert np.abs(back - points).max() <= 0.5001 * view[2] / np.iinfo(dtype).max


def test_positions_outside_the_window_come_to_its_rim() -> None:
    whole = quantise(np.array([[100.0, 0.0], [0.0, -100.0]]), [0.0, 0.0, 10.0], np.int8)
    assert restore(whole, [0.0, 0.0, 10.0]).tolist() == [[10.0, 0.0], [0.0, -10.0]]
