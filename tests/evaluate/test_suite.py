"""Suites: what ships with the package, what a user's own file may say, and how mistakes in it are answered."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_evaluations_helpers import classifier, curved, identity, labelled_by, small_suite, stage

from maxmahal import attacks
from maxmahal.attacks import Linf
from maxmahal.errors import MaxmahalError, SettingsError
from maxmahal.evaluate import Stage, Suite, evaluate_model, evaluation, suite_names
from maxmahal.evaluate.suite import load_suite, stage_from_table, stage_to_table, title_for
from maxmahal.random import stream_key

# Long attacks, and our own errors on badly typed input.
pytestmark = pytest.mark.usefixtures("unchecked")
ONE_STAGE = '[[stage]]\nname = "a"\nattack = "pgd"\n'


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def load(tmp_path: Path, text: str) -> Suite:
    return load_suite(write(tmp_path, 'version = 1\nabout = "mine"\n' + text))


def test_four_suites_ship_and_each_has_a_version_and_says_what_it_is_for() -> None:
    assert {"autoattack", "medium", "paper", "quick", "strict"} <= set(suite_names())
    for name in suite_names():
        suite = load_suite(name)
        assert suite.name == name
        assert suite.version >= 1
        assert suite.about
        assert all(each.title for each in suite.stages)


def test_suites_to_compare_with_the_paper_say_so_and_no_others() -> None:
    marked = {name for name in suite_names() if load_suite(name).comparison}
    assert marked == {name for name in suite_names() if name.startswith("paper")} | {"spsa-sizes", "nearest"}
    assert marked >= {name for name in suite_names() if "not a measure of robustness" in load_suite(name).about}


def test_records_from_before_suites_were_marked_go_on_and_are_read_by_the_suites_own_words(tmp_path: Path) -> None:
    model = curved()
    data = labelled_by(model)
    about = "for comparison; not a measure of robustness"
    suite = replace(small_suite(stage("pgd", "pgd", steps=1)), about=about, comparison=True)
    assert evaluate_model(model, out=tmp_path, suite=suite, data=data).comparison
    with sqlite3.connect(tmp_path / "records.sqlite") as connection:
        connection.execute("UPDATE evaluations SET body = json_remove(body, '$.comparison', '$.same.suite.comparison')")
    connection.close()
    again = evaluate_model(model, out=tmp_path, suite=suite, data=data)
    assert again.comparison
    assert "does not measure robustness" in again.verdict.sentence
    other = evaluate_model(model, out=tmp_path / "other", suite=replace(suite, comparison=False), data=data)
    assert not other.comparison, "what a suite says of itself counts, not its words"


def test_strict_is_a_cascade_that_looks_for_false_robustness_and_mends() -> None:
    suite = load_suite("strict")
    assert all(each.scope == "survivors" and each.counts for each in suite.stages)
    assert suite.diagnose
    assert suite.mend
    assert suite.epsilon == "8/255"
    assert any(each.attack.name == "square" for each in suite.stages)


def test_medium_costs_a_fraction_of_strict_and_says_what_it_leaves_out() -> None:
    def cost(suite: Suite) -> int:
        """Gradients of a sample that nothing breaks, on a model of ten classes."""
        options = [dict(each.attack.options) for each in suite.stages if each.attack.name in ("apgd", "pgd")]
        return sum(each["steps"] * each["restarts"] * (9 if each["targets"] else 1) for each in options)

    medium, strict = load_suite("medium"), load_suite("strict")
    assert 4 * cost(medium) < cost(strict)
    assert not medium.diagnose
    missing = {each.name for each in strict.stages} - {each.name for each in medium.stages}
    assert {name.split("-")[-1] for name in missing} == {"loss", "center", "targets", "restarts"}
    assert "leaves out restarts, DLR, the own loss and diagnostics" in medium.about


def test_autoattack_is_the_standard_four_on_survivors() -> None:
    suite = load_suite("autoattack")
    parts = [dict(each.attack.options)["part"] for each in suite.stages]
    assert parts == ["apgd-ce", "apgd-t", "fab-t", "square"]
    assert all(each.attack.name == "autoattack" and each.scope == "survivors" for each in suite.stages)


def test_paper_runs_everything_on_every_sample_up_to_the_papers_own_limits() -> None:
    limits = {"carlini": 500, "spsa": 1000, "noise": 1000, "rotation": 1000}
    suite = load_suite("paper")
    assert suite.epsilon == "8/256"
    for each in suite.stages:
        assert each.scope == "all", each.name
        assert each.limit == limits.get(each.attack.name), each.name
        assert each.counts == (each.attack.name == "pgd" and each.epsilon is None), each.name
        options = dict(each.attack.options)
        if each.attack.name == "pgd":
            assert (options["keep"], options["label_source"], options["step_size"]) == ("last", "predicted", "2/256")
            assert (options["random_start"], options["restarts"], options["objective"]) == (True, 1, "paper")
        if each.attack.name == "spsa":
            assert (options["keep"], options["label_source"], options["random_start"]) == ("last", "true", True)
    assert len(suite.stages) == 8 + 2 + 4 + 2


MODEL = classifier()
DATA = labelled_by(MODEL, 12)


def seed_of(name: str) -> int:
    return stream_key(0, name) % 2**63


def protocol(name: str) -> Any:
    """What the paper's protocol predicts for the stage of that name."""
    images, labels, ids = DATA.float_images(), DATA.labels, DATA.sample_ids
    kind, aim, epsilon = (*name.split("-"), "", "")[:3]
    options: dict[str, Any] = {"seed": seed_of(name), "sample_ids": ids}
    if kind in ("noise", "rotation"):
        moved = attacks.random_rotation(images, max_degrees=30.0, **options)
        if kind == "noise":
            moved = attacks.gaussian_noise(images, std=0.05, clip=False, **options)
        with torch.no_grad():
            return MODEL(moved).argmax(dim=1)
    options["targets"] = "random-other" if aim == "tar" else None
    if kind == "cw":
        own = attacks.own_loss_difference(MODEL.head)
        options |= {"objective": own, "constants": "binary", "steps": 20, "search_steps": 9}
        options |= {"learning_rate": 0.005, "initial_c": 0.01}
        return attacks.carlini_wagner(MODEL, images, labels, **options).predictions
    options |= {"objective": attacks.own_loss(MODEL.head), "threat": Linf(f"{epsilon}/256"), "keep": "last"}
    if kind == "spsa":
        options |= {"steps": 10, "evaluations": 128, "delta": 0.01, "learning_rate": 0.01, "random_start": True}
        return attacks.spsa(MODEL, images, labels, **options).predictions
    options |= {"steps": int(kind.removeprefix("pgd")), "step_size": 2 / 256, "label_source": "predicted"}
    return attacks.pgd(MODEL, images, labels, **options).predictions


def test_every_paper_stage_gives_exactly_the_protocols_predictions(tmp_path: Path) -> None:
    text = (Path(attacks.__file__).parents[1] / "suites" / "paper.toml").read_text()
    assert text.count("steps = 1000\n") == 2
    shortened = write(tmp_path, text.replace("steps = 1000\n", "steps = 20\n"))
    found = evaluate_model(MODEL, out=tmp_path / "out", suite=shortened, data=DATA)
    names = [each.name for each in found.stages if each.name != "clean"]
    assert names == [each.name for each in load_suite("paper").stages]
    told_apart = set()
    for name in names:
        columns = found.stage(name).columns
        assert columns.sample.tolist() == DATA.sample_ids.tolist()
        assert columns.prediction.tolist() == protocol(name).tolist(), name
        told_apart.add(tuple(columns.prediction.tolist()))
    assert len(told_apart) > 5, "stages that all say the same prove nothing"


def test_a_mim_stage_takes_the_papers_options(tmp_path: Path) -> None:
    options = {"steps": 10, "step_size": "2/256", "label_source": "predicted", "keep": "last"}
    suite = small_suite(stage("mim", "mim", scope="all", objective="paper", **options), epsilon="8/256")
    found = evaluate_model(MODEL, out=tmp_path, suite=suite, data=DATA)
    options |= {"objective": attacks.own_loss(MODEL.head), "seed": seed_of("mim"), "sample_ids": DATA.sample_ids}
    expected = attacks.mim(MODEL, DATA.float_images(), DATA.labels, "8/256", **options)
    assert found.stage("mim").columns.prediction.tolist() == expected.predictions.tolist()


def test_a_cascade_shows_each_stage_only_the_survivors_of_those_before(tmp_path: Path) -> None:
    model = curved()
    suite = small_suite(
        stage("noise", "noise", std=0.5, scope="all", counts=False),
        stage("weak", "pgd", steps=1, step_size="0.01"),
        stage("strong", "apgd", steps=10),
        stage("last", "square", queries=5),
    )
    found = evaluate_model(model, out=tmp_path, suite=suite, data=labelled_by(model))
    left = set(range(24)) - {21, 22, 23}
    for name in ("weak", "strong", "last"):
        columns = found.stage(name).columns
        assert set(columns.sample.tolist()) == left, name
        left -= set(columns.sample[columns.broken].tolist())
    assert 0 < len(left) < 15


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["has no attacks"]),
        ("chunks = 5\n" + ONE_STAGE, ["'chunks' is not a setting", "did you mean 'chunk'?"]),
        ("chunk = 0\n" + ONE_STAGE, ["chunk must be at least 1; got 0"]),
        ("samples = 0\n" + ONE_STAGE, ["samples must be at least 1"]),
        ("chunk = 2.5\n" + ONE_STAGE, ["chunk must be an integer"]),
        ('norm = "Linfinity"\n' + ONE_STAGE, ["norm", "did you mean 'Linf'?"]),
        ('epsilon = "8"\n' + ONE_STAGE, ["epsilon must lie in (0, 1]", "8/255"]),
        ('epsilon = "a lot"\n' + ONE_STAGE, ["epsilon", "a lot"]),
        ('diagnose = "yes"\n' + ONE_STAGE, ["diagnose must be true or false"]),
        ("[stage]\nname = 'a'\n", ["[[stage]]"]),
        ('[[stage]]\nattack = "pgd"\n', ["needs a name"]),
        ('[[stage]]\nname = "a"\n', ["mine.toml, stage a: it needs an attack; choose one of: apgd"]),
        (
            '[[stage]]\nname = "a"\nattack = "pdg"\n',
            ["mine.toml, stage a: attack = 'pdg' is unknown", "did you mean 'pgd'?"],
        ),
        (
            "frobnicate = 5\n" + ONE_STAGE,
            ["mine.toml: 'frobnicate' is not a setting of a suite", ": [[stage]], about,"],
        ),
        ("stagez = 5\n" + ONE_STAGE, ["mine.toml: 'stagez' is not a setting", "did you mean '[[stage]]'?"]),
        (
            "[[stages]]\nname = 'a'\nattack = 'pgd'\n",
            ["mine.toml: 'stages' only names stages", "as a [[stage]] section"],
        ),
        ("stages = 'a'\n" + ONE_STAGE, ["mine.toml: 'stages' only names stages to take"]),
        ("include = 5\n" + ONE_STAGE, ["mine.toml: include must be a list of texts; got 5."]),
        (ONE_STAGE + "foo = 4\n", ["mine.toml, stage a: 'foo' is not an option of pgd; choose one of: ", " steps, "]),
        (ONE_STAGE + "scop = 'all'\n", ["mine.toml, stage a: 'scop' is not an option of pgd; did you mean 'scope'?"]),
        (ONE_STAGE + "step = 4\n", ["mine.toml, stage a: 'step' is not an option of pgd", "did you mean 'steps'?"]),
        (ONE_STAGE + 'steps = "4"\n', ["mine.toml, stage a: steps must be an integer; got '4'."]),
        (ONE_STAGE + "steps = 0\n", ["mine.toml, stage a: steps must be at least 1; got 0"]),
        (ONE_STAGE + "restarts = -1\n", ["restarts must be at least 1; got -1"]),
        (ONE_STAGE + 'step_size = "2/0"\n', ["step_size", "2/0"]),
        (ONE_STAGE + 'objective = "margn"\n', ["'margn' is unknown", "did you mean 'margin'?"]),
        (ONE_STAGE + 'targets = "top9"\n', ["'top9' is unknown", "did you mean 'top-9'?"]),
        ('[[stage]]\nname = "a"\nattack = "spsa"\nevaluations = 7\n', ["evaluations", "even; got 7"]),
        ('[[stage]]\nname = "a"\nattack = "spsa"\ndelta = -0.1\n', ["delta must not be negative; got -0.1"]),
        (ONE_STAGE + 'keep = "first"\n', ["mine.toml, stage a: keep = 'first' is not a choice"]),
        (ONE_STAGE + 'scope = "everyone"\n', ["scope = 'everyone' is not a choice"]),
        (ONE_STAGE + "limit = 0\n", ["limit must be at least 1"]),
        (ONE_STAGE + "eot = 0\n", ["eot must be at least 1"]),
        (ONE_STAGE + 'epsilon = "4/255"\n', ["counts = false"]),
        (ONE_STAGE + 'epsilon = "x"\ncounts = false\nscope = "all"\n', ["epsilon", "'x'"]),
        (ONE_STAGE + "counts = false\n", ["set scope = 'all'"]),
        (ONE_STAGE + ONE_STAGE, ["two stages called 'a'"]),
        ('[[stage]]\nname = "clean"\nattack = "pgd"\n', ["'clean'"]),
        ('[[stage]]\nname = "../a"\nattack = "pgd"\n', ["'../a' cannot name a stage"]),
        ('[[stage]]\nname = "a"\nattack = "carlini"\n', ["cannot count", "counts = false"]),
        ("version = 2\n" + ONE_STAGE, ["not valid TOML"]),
    ],
)
def test_every_mistake_in_a_suite_is_one_sentence(tmp_path: Path, text: str, parts: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert "--set" not in str(caught.value), "no command sets a key of a suite"
    for part in parts:
        assert part in str(caught.value)


def test_a_mistake_in_an_included_file_is_told_with_that_files_name(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(f'version = 1\nabout = "base"\n{ONE_STAGE}foo = 1\n')
    with pytest.raises(SettingsError, match=r"^base\.toml, stage a: 'foo' is not an option of pgd"):
        load(tmp_path, 'include = ["base.toml"]\n')


@pytest.mark.parametrize(
    ("title", "classes", "shown"),
    [
        ("APGD-100, margin to each of 9 classes", 10, "APGD-100, margin to each of 9 classes"),
        ("APGD-100, margin to each of 9 classes", 100, "APGD-100, margin to each of 9 classes"),
        ("APGD-100, margin to each of 9 classes", 4, "APGD-100, margin to each of 3 classes"),
        ("APGD-100, margin to each of 9 classes", 2, "APGD-100, margin to the other class"),
        ("APGD-50, margin to 9 classes", 9, "APGD-50, margin to 8 classes"),
        ("APGD-50, margin to 9 classes", 2, "APGD-50, margin to the other class"),
        ("Of 19 classes", 4, "Of 19 classes"),
    ],
)
def test_a_title_says_how_many_classes_there_are_to_aim_at(title: str, classes: int, shown: str) -> None:
    assert title_for(stage("a", "apgd", targets="top-9", title=title), classes) == shown
    assert title_for(stage("a", "apgd", title=title), classes) == title, "it aims at none"


def test_a_suite_aims_at_any_number_of_classes(tmp_path: Path) -> None:
    (aimed,) = load(tmp_path, ONE_STAGE + 'targets = "top-3"\n').stages
    assert dict(aimed.attack.options)["targets"] == "top-3"


def test_the_records_of_a_model_with_few_classes_say_how_many_were_aimed_at(tmp_path: Path) -> None:
    model = curved()
    aimed = stage("aimed", "apgd", steps=1, targets="top-9", title="APGD-1, margin to each of 9 classes")
    found = evaluate_model(model, out=tmp_path, suite=small_suite(aimed), data=labelled_by(model))
    assert found.stage("aimed").title == "APGD-1, margin to each of 3 classes"


def test_an_evaluation_with_an_older_title_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = curved()
    data = labelled_by(model)
    suite = small_suite(stage("aimed", "apgd", steps=1, targets="top-9", title="APGD-1, margin to each of 9 classes"))
    with monkeypatch.context() as older:
        older.setattr(evaluation, "title_for", lambda each, _classes: each.title)
        evaluate_model(model, out=tmp_path, suite=suite, data=data)
    found = evaluate_model(model, out=tmp_path, suite=suite, data=data)
    assert found.stage("aimed").title == "APGD-1, margin to each of 9 classes", "records stay as they were written"


@pytest.mark.parametrize("missing", ["version", "about"])
def test_version_and_about_are_needed(tmp_path: Path, missing: str) -> None:
    head = {"version": "version = 1\n", "about": 'about = "x"\n'}
    head.pop(missing)
    with pytest.raises(SettingsError, match=f"needs a '{missing}'"):
        load_suite(write(tmp_path, "".join(head.values()) + ONE_STAGE))


def test_a_suite_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="did you mean 'strict'"):
        load_suite("strickt")
    with pytest.raises(SettingsError, match=r"Cannot read .*none\.toml"):
        load_suite(tmp_path / "none.toml")


def test_a_mistaken_suite_leaves_nothing_behind(tmp_path: Path) -> None:
    model = curved()
    path = write(tmp_path, f'version = 1\nabout = "x"\n{ONE_STAGE}objective = "margn"\n')
    with pytest.raises(MaxmahalError):
        evaluate_model(model, out=tmp_path / "out", suite=path, data=labelled_by(model))
    assert not (tmp_path / "out").exists()


def test_another_ball_than_the_suites() -> None:
    suite = load_suite("quick", epsilon="4/255")
    assert suite.threat_of(None) == Linf("4/255")
    assert str(load_suite("quick", norm="L2", epsilon="0.5").threat_of(None)) == "L2 0.5"
    for options, part in [
        ({"norm": "L2"}, "needs an epsilon"),
        ({"norm": "L1"}, "did you mean 'L2'?"),
        ({"epsilon": "8"}, "8/255"),
        ({"epsilon": "-0.1"}, "-0.1"),
    ]:
        with pytest.raises(SettingsError, match=part):
            load_suite("quick", **options)


@pytest.mark.parametrize("name", ["quick", "medium", "paper", "strict", "autoattack"])
def test_a_stage_comes_back_from_its_table(name: str) -> None:
    for each in load_suite(name).stages:
        assert stage_from_table(stage_to_table(each)) == each


def test_autoattacks_parts_run_as_stages_and_are_judged_by_the_model(tmp_path: Path) -> None:
    model = curved()
    data = labelled_by(model, 8)
    suite = small_suite(
        stage("ce", "autoattack", part="apgd-ce", steps=2), stage("square", "autoattack", part="square", queries=3)
    )
    first = evaluate_model(model, out=tmp_path / "first", suite=suite, data=data)
    assert identity(first) == identity(evaluate_model(model, out=tmp_path / "again", suite=suite, data=data))
    columns = first.stage("ce").columns
    assert columns.broken.any()
    assert (columns.distortion[columns.broken] <= 0.08 + 1e-6).all()
    assert set(columns.iterations.tolist()) == {-1}, "the package does not tell"
    assert set(first.stage("square").columns.sample) == set(columns.sample[~columns.broken])


def test_a_users_file_is_called_by_its_own_name_unless_it_says_another(tmp_path: Path) -> None:
    assert load(tmp_path, ONE_STAGE).name == "mine"
    assert load(tmp_path, 'name = "other"\n' + ONE_STAGE).name == "other"


def test_chunks_do_not_change_what_is_found(tmp_path: Path) -> None:
    model = curved()
    data = labelled_by(model)
    found = [
        identity(evaluate_model(model, out=tmp_path / str(chunk), suite=small_suite(chunk=chunk), data=data))
        for chunk in (7, 250)
    ]
    for name in found[0]:
        assert found[0][name] == found[1][name], name
    assert isinstance(small_suite().stages[0], Stage)


def test_a_suite_that_fixes_each_ball_takes_no_other() -> None:
    with pytest.raises(SettingsError, match="Suite paper fixes the ball of each attack"):
        load_suite("paper", epsilon="4/255")


def test_a_stage_with_a_limit_does_not_count() -> None:
    with pytest.raises(SettingsError, match="without being attacked"):
        stage("few", "pgd", scope="all", limit=5)
