"""Data as users have them, no folder, an epsilon for every data set, and likely mistakes told in the verdict."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from small_evaluations_helpers import CLASSES, curved, identity, labelled_by, small_suite, stage
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from maxmahal.data import load_dataset
from maxmahal.data.registry import SOURCES
from maxmahal.errors import ArgumentError, DataError, DataNotice, SettingsError
from maxmahal.evaluate import evaluate_model
from maxmahal.evaluate.evaluated_model import first_images
from maxmahal.evaluate.suite import load_suite, suite_names

MODEL = curved()
DATA = labelled_by(MODEL, 80)
IMAGES, LABELS = DATA.float_images(), DATA.labels
SUITE = small_suite(stage("pgd", "pgd", steps=2))
FEW = "version = 1\nabout = 'few'\n[[stage]]\nname = 'pgd'\nattack = 'pgd'\nsteps = 1\n"


class Pairs(Dataset[tuple[Tensor, int]]):
    """A data set as most people write it."""

    classes = ("cat", "dog", "frog", "ship")

    def __init__(self) -> None:
        self.read = 0

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        self.read += 1
        return IMAGES[place], int(LABELS[place])


@pytest.mark.parametrize(
    "data",
    [DataLoader(TensorDataset(IMAGES, LABELS), batch_size=7), Pairs(), DataLoader(Pairs(), batch_size=7)],
    ids=["loader of tensors", "data set", "loader of a data set"],
)
def test_loaders_and_data_sets_are_the_tensors_that_they_return(data: object) -> None:
    found, expected = (evaluate_model(MODEL, each, suite=SUITE, limit=20) for each in (data, (IMAGES, LABELS)))
    assert found.samples == 20
    assert identity(found) == identity(expected)


def test_a_data_set_names_its_classes() -> None:
    assert evaluate_model(MODEL, Pairs(), suite=SUITE, limit=3).class_names == ("cat", "dog", "frog", "ship")


def test_no_more_is_read_than_is_needed_and_the_caller_keeps_the_random_numbers() -> None:
    pairs = Pairs()
    state = torch.random.get_rng_state()
    evaluate_model(MODEL, DataLoader(pairs, batch_size=8, shuffle=True), suite=SUITE, limit=10)
    assert pairs.read == 16
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_first_images_may_lack_classes(tmp_path: Path) -> None:
    rows = (LABELS < CLASSES - 1).nonzero().squeeze(1)[:6]
    found = evaluate_model(MODEL, (IMAGES[rows], LABELS[rows]), suite=SUITE)
    assert found.class_names == ("0", "1", "2", "3")
    np.savez(tmp_path / "mine.npz", test_images=IMAGES[rows].numpy(), test_labels=LABELS[rows].numpy())
    assert evaluate_model(MODEL, tmp_path / "mine.npz", suite=SUITE).class_names == ("0", "1", "2", "3")


def test_a_known_data_set_has_all_its_classes() -> None:
    with pytest.raises(ArgumentError, match="returns 11 logits per image and digits has 10 classes"):
        evaluate_model(nn.Sequential(nn.Flatten(), nn.Linear(64, 11)).eval(), "digits", suite=SUITE)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (DataLoader([object()]), "A batch of data must be a pair of tensors"),
        (DataLoader([]), "data holds no images"),
        (DataLoader(TensorDataset(2 * IMAGES - 1, LABELS)), "They look normalised: leave that out of the data"),
        (3, "a DataLoader, a Dataset or a pair"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_data_that_cannot_be_used(data: object, words: str) -> None:
    with pytest.raises(DataError, match=words):
        evaluate_model(MODEL, data, suite=SUITE)  # type: ignore[arg-type]


def test_without_a_folder_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    found = evaluate_model(MODEL, DATA, suite=SUITE)
    assert found.finished
    assert found.verdict.robust.total == len(DATA)
    assert not list(tmp_path.iterdir())
    assert "--out" not in found.environment["command"]
    with pytest.raises(ArgumentError, match="save_images needs a folder"):
        evaluate_model(MODEL, DATA, suite=SUITE, save_images=True)


def test_every_published_data_set_has_an_epsilon() -> None:
    usual = {name: source.epsilon for name, source in SOURCES.items()}
    assert usual == {"digits": "0.15", "mnist": "0.3", "fashion-mnist": "0.1", "cifar10": "8/255", "cifar100": "8/255"}


def test_a_chosen_epsilon_wins_then_the_files_then_the_data_sets() -> None:
    assert load_suite("strict").for_data("digits").epsilon == "0.15"
    assert load_suite("strict", epsilon="8/255").for_data("digits").epsilon == "8/255"
    assert load_suite("demo").for_data("mnist").epsilon == "0.15"
    assert load_suite("strict", norm="L2", epsilon="0.5").for_data("digits").epsilon == "0.5"
    for name in suite_names():
        suite = load_suite(name)
        assert suite.for_data("cifar10").epsilon == suite.epsilon
        assert not suite.comparison or suite.for_data("digits") == suite, "the paper's protocol keeps its own"


def test_an_epsilon_that_nobody_chose_is_said_in_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "few.toml").write_text(FEW)
    few = tmp_path / "few.toml"
    found = evaluate_model(MODEL, (IMAGES, LABELS), suite=few, limit=4)
    (note,) = found.notes
    assert note == (
        "No epsilon was given for arrays, so 8/255 was taken, which is usual for CIFAR; set an epsilon that fits your "
        "data (--epsilon)."
    )
    assert found.verdict.sentence.endswith(note)
    assert not evaluate_model(MODEL, (IMAGES, LABELS), suite=few, limit=4, epsilon="8/255").notes
    few.write_text("epsilon = '8/255'\n" + FEW)
    assert not evaluate_model(MODEL, (IMAGES, LABELS), suite=few, limit=4).notes


def test_an_evaluation_at_the_same_epsilon_is_resumed(tmp_path: Path) -> None:
    digits = load_dataset("digits", "test").first(4)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).eval()
    (tmp_path / "few.toml").write_text(FEW)
    out = tmp_path / "out"
    first = evaluate_model(network, digits, suite=tmp_path / "few.toml", epsilon="0.15", out=out)
    again = evaluate_model(network, digits, suite=tmp_path / "few.toml", out=out)
    assert again.environment["started"] == first.environment["started"]
    assert (again.epsilon, again.notes) == ("0.15", ())
    alone = evaluate_model(network, digits, suite=tmp_path / "few.toml")
    assert "--epsilon 0.15" in alone.environment["command"]


class Normalised(nn.Module):
    """Expects images in [-1, 1]."""

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = MODEL((images + 1) / 2)
        return logits


def test_a_missing_normalisation_is_named() -> None:
    (note,) = evaluate_model(Normalised().eval(), DATA, suite=SUITE).notes
    expected = "of 64 images as they are, in [0, 1], and on 61 of them normalised to [-1, 1]: put that into the model."
    assert note.endswith(expected)


def test_an_accuracy_by_chance_is_said() -> None:
    shuffled = (IMAGES, LABELS[torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(0))])
    (note,) = evaluate_model(MODEL, shuffled, suite=SUITE).notes
    assert "clean images, about as often as by chance" in note


def test_images_of_a_few_classes_are_said_in_the_verdict() -> None:
    images = torch.zeros(40, 1, 4, 4, dtype=torch.uint8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 12)).eval()
    label = int(model(torch.zeros(1, 1, 4, 4)).argmax())
    data = (images, torch.full((40,), label), [str(number) for number in range(12)])
    (note,) = evaluate_model(model, data, suite=SUITE).notes
    assert note.startswith("The 40 images show 1 of 12 classes, perhaps because they are sorted by class")
    assert not evaluate_model(model, data, suite=SUITE, limit=20).notes, "too few to say"


def test_a_limit_that_leaves_classes_out_is_noted_before_anything_is_evaluated() -> None:
    by_class = DATA.select(LABELS.argsort(stable=True))
    for limit in (None, 9, 2 * len(DATA)):  # none are left out, a few images are no pattern
        assert len(first_images(by_class, limit)) == (limit if limit == 9 else len(DATA))
    first = int((LABELS == 0).sum())
    with pytest.warns(DataNotice, match=rf"^The first {first + 2} images come from 2 of {CLASSES} classes, because"):
        evaluate_model(MODEL, by_class, suite=SUITE, limit=first + 2)
    assert len(first_images(DATA, 10)) == 10, "not sorted by class"


def test_a_good_model_gets_no_note() -> None:
    assert not evaluate_model(MODEL, DATA, suite=SUITE).notes


def test_probabilities_are_told_once() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate_model(nn.Sequential(MODEL, nn.Softmax(dim=1)).eval(), DATA, suite=SUITE)
    assert found.verdict.sentence.count("The model seems to return probabilities") == 1


def test_a_model_that_refuses_images_outside_of_the_unit_range_is_evaluated() -> None:
    class Strict(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            if images.min() < -1e-6 or images.max() > 1 + 1e-6:
                raise ValueError("images must lie in [0, 1]")
            return MODEL(images)

    assert evaluate_model(Strict().eval(), (IMAGES, (LABELS + 1) % CLASSES), suite=SUITE, limit=40).finished


def test_the_name_of_a_folder_does_not_choose_an_epsilon(tmp_path: Path) -> None:
    np.savez(tmp_path / "mnist.npz", test_images=IMAGES.numpy(), test_labels=LABELS.numpy())
    (tmp_path / "few.toml").write_text(FEW)
    found = evaluate_model(MODEL, str(tmp_path / "mnist.npz"), suite=tmp_path / "few.toml", limit=4)
    assert found.epsilon == "8/255"
    assert any("No epsilon was given" in note for note in found.notes)


def test_what_cannot_be_kept_is_refused_and_so_is_an_l2_ball_without_a_size(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="until needs a folder"):
        evaluate_model(MODEL, (IMAGES, LABELS), suite=SUITE, until=1.0)
    (tmp_path / "l2.toml").write_text(f'norm = "L2"\n{FEW}')
    with pytest.raises(SettingsError, match="norm = 'L2' needs an epsilon"):
        load_suite(tmp_path / "l2.toml")
