"""The tool that publishes, and quick records of every figure that needs no download, computed once."""

from pathlib import Path
from types import ModuleType

import jaxtyping
import pytest

from paper import publish
from paper.gallery.figure import FigureOptions, FigureRecord
from paper.gallery.registry import FIGURES, make_record, read_record

DOWNLOADS = {"figure3b"}  # MNIST; figure3b-digits is the same figure on embedded data


@pytest.fixture
def tool() -> ModuleType:
    return publish


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gallery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # checking every step's shapes would double the time
        for name in FIGURES:
            if name not in DOWNLOADS:
                make_record(out, name, FigureOptions(quick=True))
    return out


@pytest.fixture(scope="session")
def records(folder: Path) -> dict[str, FigureRecord]:
    return {name: record for name in FIGURES if (record := read_record(folder, name)) is not None}
