"""Settings and presets: what is accepted, and what every mistake is told."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmahal.errors import SettingsError
from maxmahal.settings import from_table, merge, parse_override, to_table, to_toml
from maxmahal.train import Settings, load_settings, preset_names
from maxmahal.train.build import empty_classifier
from maxmahal.train.methods import METHODS

PAPER_ROWS = {
    "Table 1": [
        "sce",
        "center",
        "mmlda",
        "lgm",
        "mmc-rand",
        "mmc",
        "at-tar-sce",
        "at-tar-mmc",
        "at-un-sce",
        "at-un-mmc",
    ],
    "Table 4": ["sce", "center", "mmlda", "lgm", "mmc"],
    "Table 5": ["sce", "mmc", "sce-resnet110", "mmc-resnet110"],
}


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_builds_and_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    settings = load_settings(name)
    assert settings.about
    settings.method.build(METHODS)
    assert from_table(Settings, to_table(settings)) == settings
    path = tmp_path / "settings.toml"
    path.write_text(to_toml(to_table(settings)))
    assert load_settings(str(path)) == settings


@pytest.mark.parametrize("name", [name for name in preset_names() if name.endswith("-long")])
def test_a_long_preset_says_how_long_and_at_which_rate_as_it_is(name: str) -> None:
    settings = load_settings(name)
    assert f", {settings.train.epochs} epochs" in settings.about, "a budget that nobody can count"
    rates = re.findall(r"learning rate ([\d.]+)", settings.about)
    assert rates == [f"{settings.train.lr:g}"] or not rates


@pytest.mark.parametrize("name", ["cifar10-sce", "cifar10-mmc-resnet110", "cifar10-mmc-released", "digits-emc"])
def test_presets_build_models(name: str) -> None:
    settings = load_settings(name)
    model = empty_classifier(settings, (3, 32, 32), 10)
    assert model.head.feature_dim == settings.model.feature_dim


def test_every_row_of_the_papers_tables_has_a_preset() -> None:
    for table, rows in PAPER_ROWS.items():
        for row in rows:
            for data in {"Table 1": ["cifar10"], "Table 4": ["cifar100"], "Table 5": ["cifar10", "cifar100"]}[table]:
                assert table in load_settings(f"{data}-{row}").table


def test_paper_presets_carry_the_papers_hyperparameters() -> None:
    mmc = load_settings("cifar10-mmc")
    assert (mmc.train.epochs, mmc.train.lr, mmc.train.momentum, mmc.train.batch_size) == (200, 0.01, 0.9, 50)
    assert (mmc.train.schedule, mmc.train.milestones, mmc.train.factor) == ("step", (0.5, 0.75), 0.1)
    assert dict(mmc.centers.options)["norm"] == 10.0
    assert dict(mmc.loss.options)["scale"] == 1.0
    assert dict(load_settings("cifar10-mmc-released").loss.options)["scale"] == 2.0
    attack = dict(load_settings("cifar10-at-un-mmc").method.options)
    assert (attack["steps"], attack["epsilon"], attack["step_size"], attack["targeted"]) == (
        10,
        "8/255",
        "2/255",
        False,
    )
    assert dict(load_settings("cifar10-at-tar-sce").method.options)["targeted"] is True


def test_a_parents_title_and_table_row_are_not_inherited() -> None:
    assert load_settings("cifar10-mmc-released").table == ""


def test_a_teacher_needs_averaged_weights() -> None:
    with pytest.raises(SettingsError, match=r"set train.ema, such as 0.998"):
        load_settings("digits-at-mmc", ["method.distill=0.5"])
    load_settings("digits-at-mmc", ["method.distill=0.5", "train.swa=0.5"])


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("train.epoch=5", "'train.epoch' is not a setting; did you mean 'train.epochs'?"),
        ("trian.epochs=5", "'trian' is not a setting; did you mean 'train'?"),
        ("train.epochs=many", "train.epochs must be an integer; got 'many'"),
        ("train.epochs=2.5", "train.epochs must be an integer; got 2.5"),
        ("train.epochs=true", "train.epochs must be an integer; got True"),
        ("train.epochs=0", "train.epochs must be at least 1; got 0"),
        ("train.lr=-1", "train.lr must be positive and finite; got -1.0"),
        ("train.ema=1.0", "train.ema must lie in [0, 1); got 1.0"),
        ("data.cutmix=2", "data.cutmix is a share of the training images, in [0, 1]; got 2.0"),
        ("train.milestones=[100, 150]", "shares of the training between 0 and 1"),
        ("train.schedule=steps", "did you mean 'step'?"),
        ("loss.name=mcm", "loss.name = 'mcm' is unknown; did you mean 'mmc'?"),
        ("loss.scal=2", "'loss.scal' is not an option of mmc; did you mean 'loss.scale'?"),
        ("loss=mmc", "loss is a section"),
        ("centers.norm=big", "centers.norm must be a finite number; got 'big'"),
        ("model.backbone=resnet23", "did you mean 'resnet32'?"),
        ("model.normalize=pixels", "did you mean 'pixel-mean'?"),
        ("data.augment=flip-crop", "data.augment = 'flip-crop' is unknown"),
        ("train.epochs", "is not KEY=VALUE"),
        ("train.epochs.x=1", "train.epochs must be an integer; got {'x': 1}"),
        ("data=5", "data is a section"),
        ("epochs=5", "'epochs' is not a setting; did you mean 'train.epochs'?"),
        ("model.feature_dim=1000000000", "model.feature_dim must be at most 100000"),
        ("train.lr=nan", "train.lr must be a finite number; got nan"),
        ("train.weight_decay=inf", "train.weight_decay must be a finite number; got inf"),
        ("train.batch_size=1", "train.batch_size must be at least 2; got 1"),
        ("method.name=trade", "did you mean 'trades'?"),
    ],
)
def test_a_wrong_override_is_answered_in_one_sentence(override: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        load_settings("digits-mmc", [override])


def test_an_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match="no preset 'digits-mcm'; did you mean 'digits-mmc'"):
        load_settings("digits-mcm")
    with pytest.raises(SettingsError, match="did you mean 'digits-mmc'"):
        load_settings("DIGITS-MMC")


def test_bad_files_say_where(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[train\nepochs = 3")
    with pytest.raises(SettingsError, match=r"broken\.toml is not valid TOML"):
        load_settings(str(broken))
    with pytest.raises(SettingsError, match="Cannot read"):
        load_settings(str(tmp_path / "absent.toml"))
    marked = tmp_path / "marked.toml"
    marked.write_bytes(b"\xef\xbb\xbf" + b'extends = "digits-mmc"')  # as some editors save it
    assert load_settings(marked).loss.name == "mmc"
    child = tmp_path / "child.toml"
    child.write_text('extends = "marked.toml"')
    assert load_settings(child) == load_settings(marked)
    circle = tmp_path / "circle.toml"
    circle.write_text(f'extends = "{circle}"')
    with pytest.raises(SettingsError, match="in a circle"):
        load_settings(str(circle))


def test_a_section_given_another_name_starts_afresh() -> None:
    old = {"loss": {"name": "mmc", "scale": 2.0}}
    assert merge(old, {"loss": {"name": "sce"}}) == {"loss": {"name": "sce"}}
    assert merge(old, {"loss": {"name": "mmc", "form": "huber"}})["loss"]["scale"] == 2.0
    assert load_settings("digits-mmc", ["loss.name=sce"]).loss.name == "sce"


def test_an_option_of_a_section_the_preset_leaves_out() -> None:
    settings = load_settings("digits-mmlda", ["centers.norm=5"])
    assert settings.centers.name == "max-mahalanobis"
    assert dict(settings.centers.options)["norm"] == 5.0


def test_the_order_of_overrides_does_not_matter() -> None:
    first = load_settings("digits-mmc", ["loss.alpha=0.5", "loss.name=emc"])
    assert first == load_settings("digits-mmc", ["loss.name=emc", "loss.alpha=0.5"])
    assert dict(first.loss.options)["alpha"] == 0.5


def test_epsilon_is_kept_as_it_was_written() -> None:
    settings = load_settings("cifar10-at-un-sce")
    assert to_table(settings)["method"]["epsilon"] == "8/255"
    with pytest.raises(ValueError, match="Did you mean 8/255"):
        load_settings("cifar10-at-un-sce", ["method.epsilon=8"]).method.build(METHODS)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=20))
def test_any_text_survives_toml(text: str) -> None:
    settings = Settings(about=text)
    import tomllib

    assert from_table(Settings, tomllib.loads(to_toml(to_table(settings)))) == settings


def test_override_values_are_toml_or_else_text() -> None:
    assert parse_override("train.epochs=5") == (["train", "epochs"], 5)
    assert parse_override("loss.name=mmc") == (["loss", "name"], "mmc")
    assert parse_override("method.epsilon=8/255") == (["method", "epsilon"], "8/255")
    assert parse_override("train.milestones=[0.3]") == (["train", "milestones"], [0.3])


@pytest.mark.parametrize("source", ["true", "predicted"])
def test_true_as_one_of_several_words_needs_no_quotes(source: str) -> None:
    settings = load_settings("digits-at-mmc", [f"method.label_source={source}"])
    assert dict(settings.method.options)["label_source"] == source
