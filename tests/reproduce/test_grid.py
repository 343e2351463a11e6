"""Grids: what is shipped is whole, and mistakes in a user's own are told."""

from pathlib import Path

import pytest

from maxmahal.errors import SettingsError
from maxmahal.evaluate.suite import load_suite
from maxmahal.report.tables import paper_number
from maxmahal.reproduce import grid_names, load_grid, make_plan
from maxmahal.settings import to_table

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.mark.parametrize("name", grid_names())
def test_a_shipped_grid_can_be_planned(name: str, tmp_path: Path) -> None:
    """So every preset, checkpoint and suite that it names exists."""
    grid = load_grid(name)
    assert grid.about
    plan = make_plan(grid, tmp_path / "out", device="cuda")
    assert all(cell.seconds > 0 and cell.state.kind == "missing" for cell in plan.cells)
    assert len({cell.key for cell in plan.cells}) == len(plan.cells)
    assert not (tmp_path / "out").exists()


def test_a_model_that_several_grids_name_is_one_model() -> None:
    found: dict[str, dict[str, object]] = {}
    for name in grid_names():
        for model in load_grid(name).models:
            table = to_table(model.settings())
            assert found.setdefault(model.name, table) == table, f"{model.name} in {name}"
    names = {len(load_grid(name).models) for name in ("table1", "table2", "table3")}
    assert names == {10, 9, 1}


def test_two_grids_do_not_fill_one_place_in_the_records_differently(tmp_path: Path) -> None:
    transfers: dict[object, bool] = {}
    for name in grid_names():
        for cell in make_plan(load_grid(name), tmp_path).cells:
            for key in cell.evaluations:
                transfer = cell.job.arguments.get("transfer", False)
                assert transfers.setdefault(key, transfer) == transfer, f"{key} in {name}"


@pytest.mark.parametrize(
    ("grid", "suite", "table"),
    [
        ("table1", "paper-table1", "Table 1"),
        ("table2", "paper-table2", "Table 2"),
        ("table3", "spsa-sizes", "Table 3"),
        ("table5-cifar10", "paper-table1", "Table 5"),
    ],
)
def test_every_cell_stands_beside_one_of_the_papers(grid: str, suite: str, table: str) -> None:
    for model in load_grid(grid).models:
        for stage in load_suite(suite).stages:
            numbers = paper_number(model.settings().table, stage.name)
            assert any(number.source.startswith(f"{table}, ") for number in numbers), (model.name, stage.name)


def test_the_papers_suite_is_its_tables_suites_together() -> None:
    paper, *parts = (load_suite(name) for name in ("paper", "paper-table1", "paper-table2"))
    assert paper.stages == parts[0].stages + parts[1].stages
    assert [len(part.stages) for part in parts] == [8, 8]
    assert all((part.epsilon, part.chunk) == (paper.epsilon, paper.chunk) for part in parts)


def test_a_suite_takes_stages_of_its_neighbour_and_never_of_itself(tmp_path: Path) -> None:
    stage = '[[stage]]\nname = "{0}"\nattack = "fgsm"\n'
    about = 'version = 1\nabout = "x"\n'
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    one.write_text(about + stage.format("a") + stage.format("b"))
    two.write_text(about + 'include = ["one.toml"]\n' + stage.format("c"))
    assert [each.name for each in load_suite(two).stages] == ["a", "b", "c"]
    two.write_text(about + 'include = ["one.toml"]\nstages = ["c", "a"]\n' + stage.format("c"))
    assert [each.name for each in load_suite(two).stages] == ["c", "a"]
    two.write_text(about + 'include = ["one.toml"]\nstages = ["pgd"]\n' + stage.format("pgf"))
    with pytest.raises(SettingsError, match="no stage 'pgd' to take; did you mean 'pgf'"):
        load_suite(two)
    one.write_text(about + 'include = ["two.toml"]\n')
    with pytest.raises(SettingsError, match="circle: two -> one -> two"):
        load_suite(two)


def test_a_grid_takes_from_another_the_models_that_it_names(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('[[model]]\nname = "digits-sce"\n[[model]]\nname = "digits-mmc"\n')
    path = tmp_path / "mine.toml"
    path.write_text(
        'include = ["base.toml"]\nmodels = ["digits-mmc", "own"]\n[[model]]\nname = "own"\npreset="x.toml"\n'
    )
    grid = load_grid(path)
    assert [model.name for model in grid.models] == ["digits-mmc", "own"]
    assert grid.models[1].preset == str(tmp_path / "x.toml")
    assert (grid.name, grid.evaluations) == ("mine", ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no models"),
        ('abuot = "x"\n[[model]]\nname = "a"', "did you mean 'about'"),
        ("[[model]]\npreset = 'a'", "needs a name"),
        ("[[model]]\nname = 'a/b'", "cannot name a model"),
        ("[[model]]\nname = 'a'\n[[model]]\nname = 'a'", "two models called 'a'"),
        ("[[model]]\nname = 'a'\ncheckpoints = []", "checkpoints is empty"),
        ("[[model]]\nname = 'a'\ncheckpoints = ['bset']", "did you mean 'best'"),
        ("[[model]]\nname = 'a'\n[[evaluation]]\nmodels = ['a']", "needs a suite"),
        ("[[model]]\nname = 'abc'\n[[evaluation]]\nsuite = 'quick'\nmodels = ['abd']", "did you mean 'abc'"),
        ("[[model]]\nname = 'a'\n[[evaluation]]\nsuite = 'quick'\nlimit = 0", "at least 1"),
        ("[model]\nname = 'a'", r"as a \[\[model\]\] section"),
        ("include = ['mine.toml']", "circle: mine -> mine"),
        ("include = ['tabel1']", "did you mean 'table1'"),
        ("[[model]]\nname = 'a-{x}'\nvary = ['x']", "vary must be a table"),
        ("[[model]]\nname = 'a-{x}'\nvary.x = 'b'", r"model.vary.x must be"),
        ("[[model]]\nname = 'a'\nvary.x = [1, 2]", "two models called 'a'"),
        (
            "[[model]]\nname = '{a}{b}'\nvary = {" + ", ".join(f"{k} = {[*range(50)]}" for k in "abcd") + "}",
            "6250000 comb",
        ),
    ],
)
def test_mistakes_in_a_grid(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_grid(path)


def test_seeds_make_a_model_each_and_the_name_stands_for_all(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(
        '[[model]]\nname = "many"\npreset = "digits-mmc-rand"\nseeds = 3\nset = ["centers.seed={seed}"]\n'
        '[[model]]\nname = "digits-sce"\nseeds = 2\n[[model]]\nname = "many-seeded"\npreset = "digits-mmc"\n'
        '[[evaluation]]\nsuite = "quick"\nmodels = ["many"]\n'
    )
    grid = load_grid(path)
    names = [model.name for model in grid.models]
    assert names == ["many-seed0", "many-seed1", "many-seed2", "digits-sce-seed0", "digits-sce-seed1", "many-seeded"]
    settings = [model.settings() for model in grid.models]
    assert [each.train.seed for each in settings] == [0, 1, 2, 0, 1, 0]
    assert [dict(each.centers.options)["seed"] for each in settings[:3]] == [0, 1, 2]
    assert settings[4].loss.name == "sce"
    assert [model.name for model in grid.chosen(grid.evaluations[0])] == names[:3]
    included = tmp_path / "other.toml"
    included.write_text('include = ["grid.toml"]\nmodels = ["several"]\n')
    path.write_text('[[model]]\nname = "several"\npreset = "digits-sce"\nseeds = 2\n')
    assert [model.name for model in load_grid(included).models] == ["several-seed0", "several-seed1"]
    path.write_text('[[model]]\nname = "several"\npreset = "digits-sce"\nseeds = -1\n')
    with pytest.raises(SettingsError, match="seeds is the number of models"):
        load_grid(path)


def test_vary_makes_a_model_of_each_combination(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(
        '[[model]]\nname = "{loss}-{epochs}-wd{decay}"\npreset = "digits-{loss}"\nseeds = 2\n'
        'set = ["train.epochs={epochs}", "train.weight_decay={decay}"]\n'
        'vary = { epochs = [3, 4], loss = ["sce", "mmc"], decay = ["5e-4"] }\n'
        '[[evaluation]]\nsuite = "quick"\nmodels = ["mmc-3-wd5e-4"]\n'
    )
    grid = load_grid(path)
    names = [f"{loss}-{epochs}-wd5e-4-seed{seed}" for epochs in (3, 4) for loss in ("sce", "mmc") for seed in (0, 1)]
    assert [model.name for model in grid.models] == names
    last = grid.models[-1].settings()
    assert (last.loss.name, last.train.epochs, last.train.weight_decay, last.train.seed) == ("mmc", 4, 5e-4, 1)
    assert [model.name for model in grid.chosen(grid.evaluations[0])] == names[2:4]
