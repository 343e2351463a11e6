"""The ResNet-18 benchmark: its arithmetic, its kinds of kernels, and that it runs."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from maxmahal.models import ResNet18

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not BENCHMARKS.exists():
        pytest.skip("a copy of the tree without its benchmarks")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("train_resnet18")


def test_a_forward_pass_has_the_operations_of_its_layers(benchmark: ModuleType) -> None:
    stem = 32 * 32 * 64 * 27
    stages = 4 * 32 * 32 * 64 * 64 * 9
    for width, side in ((128, 16), (256, 8), (512, 4)):
        stages += side**2 * width * (width // 2 * (9 + 1) + 3 * width * 9)
    assert benchmark.forward_operations(ResNet18(feature_dim=256)) == 2 * (stem + stages + 512 * 256)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("triton_poi_fused_convolution_relu_3", "compiled elementwise and sums"),
        ("_convolve", "our convolutions"),
        ("sm90_xmma_dgrad_implicit_gemm_indexed_bf16bf16_bf16f32", "vendor's convolutions"),
        ("void at::native::elementwise_kernel<sign>", "other"),
        ("Memcpy DtoD (Device -> Device)", "copies"),
    ],
)
def test_a_kernel_has_the_kind_of_its_name(benchmark: ModuleType, kernel: str, kind: str) -> None:
    assert benchmark.kernel_kind(kernel) == kind


@pytest.mark.usefixtures("unchecked")
def test_it_runs_and_saves_what_it_measured(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("timing.RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["train_resnet18.py", "--only", "tiny", "--rounds", "1"])
    benchmark.main()
    saved = json.loads((tmp_path / "train_resnet18_tiny_cpu.json").read_text())
    rows = {row["name"]: row for row in saved["rows"]}
    assert not saved["failed"]
    assert "times_faster_than plain standard, batch 4" in rows["engine standard, batch 4"]
    operations = saved["forward_gigaflop"]
    assert rows["engine PGD-1 with AWP, batch 4"]["gigaflop_per_image"] == pytest.approx(8 * operations)
    assert rows["engine TRADES-1, batch 4"]["gigaflop_per_image"] == pytest.approx(9 * operations)
    assert rows["engine PGD-1 with clean images, batch 4"]["gigaflop_per_image"] == pytest.approx(8 * operations)
    assert all(sum(each["shares"].values()) == pytest.approx(1) for each in saved["profiles"])


@pytest.mark.usefixtures("unchecked")
def test_a_call_for_some_rows_keeps_the_others(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, name = tmp_path / "train_resnet18_tiny_cpu.json", "plain standard, batch 4"
    other = {"name": "engine standard, batch 4", "images_per_second": 3.0}
    earlier = {"command": "earlier", "matrix_product_teraflops": 2.0, "rows": [other, {"name": name}]}
    path.write_text(json.dumps({**earlier, "failed": [{"name": name, "error": "x"}], "profiles": [other]}))
    monkeypatch.setattr("timing.RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["train_resnet18.py", "--only", "tiny", "--rounds", "1", "--rows", name])
    benchmark.main()
    saved = json.loads(path.read_text())
    assert saved["rows"][0] == other
    assert saved["profiles"] == [other]
    assert [row["name"] for row in saved["rows"]] == [other["name"], name]
    rate, work = (saved["rows"][1][key] for key in ("images_per_second", "gigaflop_per_image"))
    assert saved["rows"][1]["share_of_matrix_product"] == pytest.approx(rate * work / 2000)
    assert not saved["failed"]
    assert saved["command"].startswith("earlier; python benchmarks/train_resnet18.py --only tiny")
    monkeypatch.setattr(sys, "argv", ["train_resnet18.py", "--only", "tiny", "--rows", "x"])
    with pytest.raises(SystemExit, match="has no row 'x'; it has: plain standard, batch 4"):
        benchmark.main()
