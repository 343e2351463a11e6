"""What a call that nobody disturbs makes of a small grid."""

from pathlib import Path

import pytest
from small_grids import write_grid

from maxmahal.reproduce import GridOutcome, GridPlan, load_grid, make_plan, run_plan


@pytest.fixture
def grid_file(tmp_path: Path) -> Path:
    return write_grid(tmp_path)


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[GridPlan, GridOutcome]:
    """The plan of a call before it ran, and its outcome."""
    folder = tmp_path_factory.mktemp("undisturbed")
    plan = make_plan(load_grid(write_grid(folder)), folder / "out")
    return plan, run_plan(plan, jobs=2)
