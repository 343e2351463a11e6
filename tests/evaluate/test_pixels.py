"""Adversarial images as bytes: inside the ball to the last bit, as saved, and looked at again."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from small_evaluations_helpers import SIDE, curved, labelled_by, randn, small_suite, stage
from torch import Tensor, nn

from maxmahal.attacks import L2, Linf
from maxmahal.data import ImageData
from maxmahal.evaluate import evaluate_model
from maxmahal.evaluate.stage import round_to_bytes

pytestmark = pytest.mark.usefixtures("unchecked")
often = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def moved_within(threat: Linf | L2, seed: int, scale: float) -> tuple[Tensor, Tensor]:
    """Bytes, and images that an attack could have made of them."""
    clean = torch.randint(0, 256, (8, 3, 5, 5), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)
    images = clean.float() / 255
    return clean, threat.project(images, images + scale * threat.radius * randn(seed, 8, 3, 5, 5))


@given(st.sampled_from(["8/255", "0.1", "1/255", "0.001", "8/256", "0.03"]), st.integers(0, 999), st.floats(0.1, 5))
@often
def test_linf_bytes_stay_in_the_ball_exactly(epsilon: str, seed: int, scale: float) -> None:
    threat = Linf(epsilon)
    clean, moved = moved_within(threat, seed, scale)
    rounded = round_to_bytes(clean.float() / 255, moved, threat)
    steps = (rounded.int() - clean.int()).abs()
    assert Fraction(int(steps.max()), 255) <= Fraction(epsilon)
    nearest = (moved * 255).round().int()
    assert ((rounded.int() - nearest).abs() <= 1).all(), "and no further from what was found than need be"


def test_the_whole_ball_is_used() -> None:
    clean = torch.full((1, 1, 2, 2), 100, dtype=torch.uint8).float() / 255
    for epsilon, most in (("8/255", 8), ("0.1", 25), ("8/256", 7)):
        corner = Linf(epsilon).project(clean, clean + 1)
        assert round_to_bytes(clean, corner, Linf(epsilon)).unique().tolist() == [100 + most]


@given(st.sampled_from([0.01, 0.05, 0.25, 0.5, 2.0]), st.integers(0, 999), st.floats(0.1, 5))
@often
def test_l2_bytes_stay_in_the_ball_exactly(epsilon: float, seed: int, scale: float) -> None:
    threat = L2(epsilon)
    clean, moved = moved_within(threat, seed, scale)
    rounded = round_to_bytes(clean.float() / 255, moved, threat)
    squares = (rounded.long() - clean.long()).square().flatten(1).sum(dim=1)
    assert int(squares.max()) <= (Fraction(epsilon) * 255) ** 2


def test_without_a_ball_bytes_are_simply_the_nearest() -> None:
    clean = torch.zeros(1, 1, 1, 4)
    moved = torch.tensor([[[[-0.3, 0.5 / 255 + 1e-4, 0.7, 1.2]]]])
    assert round_to_bytes(clean, moved, None).flatten().tolist() == [0, 1, 178, 255]


SUITE = small_suite(
    stage("pgd", "pgd", steps=5),
    stage("mim", "mim", steps=3, scope="all"),
    stage("noise", "noise", std=0.4, scope="all", counts=False, clip=False),
    epsilon="0.1",
)


def test_png_files_hold_the_bytes_that_were_looked_at_again(tmp_path: Path) -> None:
    model = curved()
    data = labelled_by(model)
    found = evaluate_model(model, out=tmp_path, suite=SUITE, data=data, save_images=True)
    looked_at = 0
    for each in found.stages[1:]:
        evaluated = f"{found.suite}-Linf-0.1-seed-{found.seed}-of-{found.samples}"
        columns, folder = each.columns, tmp_path / "images" / found.name / evaluated / each.name
        assert columns.broken_8bit is not None
        assert ((columns.broken_8bit >= 0) == columns.broken).all()
        saved = {int(path.stem.removeprefix("sample-")): path for path in folder.glob("sample-*.png")}
        assert sorted(saved) == columns.sample[columns.broken].tolist()
        floats = {}
        for path in sorted(folder.glob("chunk-*.npz")):
            arrays = np.load(path)
            assert arrays["images"].dtype == np.float32
            floats |= dict(zip(arrays["sample"].tolist(), arrays["images"], strict=True))
        assert sorted(floats) == sorted(saved)
        for row in columns.broken.nonzero()[0]:
            sample, clean = int(columns.sample[row]), data.images[columns.sample[row]]
            pixels = torch.from_numpy(np.array(Image.open(saved[sample])))[None]
            ball = Linf("0.1") if each.counts else None
            moved = torch.from_numpy(floats[sample])
            assert torch.equal(pixels, round_to_bytes((clean.float() / 255)[None], moved[None], ball)[0])
            with torch.no_grad():
                wrong = model(pixels[None].float() / 255).argmax(dim=1) != data.labels[sample]
                assert model(moved[None]).argmax(dim=1) == columns.prediction[row]
            assert columns.broken_8bit[row] == int(wrong)
            looked_at += 1
        if each.counts:
            assert Linf("0.1").distances(data.float_images()[list(floats)], torch.from_numpy(
                np.stack(list(floats.values())))).max() <= 0.1 + 1e-6  # fmt: skip
    assert looked_at > 20
    assert found.stage("clean").columns.broken_8bit.tolist() == [-1] * 24  # type: ignore[union-attr]


def test_without_saving_nobody_looks_again(tmp_path: Path) -> None:
    model = curved()
    found = evaluate_model(model, out=tmp_path, suite=SUITE, data=labelled_by(model))
    assert set(found.stage("pgd").columns.broken_8bit.tolist()) == {-1}  # type: ignore[union-attr]
    assert not (tmp_path / "images").exists()


class BetweenBytes(nn.Module):
    """Class 1 as soon as the first pixel lies a quarter of a byte above 100, and again 0 from three quarters on."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(255.0))

    def forward(self, images: Tensor) -> Tensor:
        above = images[:, 0, 0, 0] * self.scale - 100
        inside = 0.25 - (above - 0.5).abs()
        return torch.stack([torch.zeros_like(inside), inside], dim=1)


def test_rounding_can_undo_an_attack_and_the_records_say_so(tmp_path: Path) -> None:
    images = torch.full((6, 1, SIDE, SIDE), 100, dtype=torch.uint8)
    data = ImageData.from_arrays("grey", images, torch.zeros(6, dtype=torch.int64), ["a", "b"])
    suite = small_suite(stage("pgd", "pgd", steps=20, step_size="1/2550"), epsilon="2/255")
    found = evaluate_model(BetweenBytes().eval(), out=tmp_path, suite=suite, data=data, save_images=True)
    columns = found.stage("pgd").columns
    assert columns.broken.all()
    assert columns.broken_8bit is not None
    assert columns.broken_8bit.tolist() == [0] * 6
