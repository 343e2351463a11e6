"""Several processes that train one model: the same steps as one process, files of the first, resuming with others."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
import torch.distributed as dist
from several import start

from maxmahal.errors import SettingsError
from maxmahal.settings import to_table, to_toml
from maxmahal.train import RunFolder, Settings, train_model
from maxmahal.train.processes import ProcessError, Processes, joined, own_device
from processes import COMMAND_LINE, Ended, Started

Make = Callable[..., Settings]
ATTACK = ["method.steps=2", "method.epsilon=0.1", "method.step_size=0.05"]
SKIPPING = "model.backbone=tests.train.several:skipping"
CASES = {
    "standard": ["digits-mmc"],
    "center": ["digits-center", "train.ema=0.9"],
    "center-alone": ["digits-center-alone", "method.name=adversarial", *ATTACK, "method.mix=0.5"],
    "lgm": ["digits-lgm", "loss.covariance=diagonal"],
    "emc": ["digits-emc", "data.cutmix=0.5", "data.augment=idbh-weak"],
    "crafted-in-training-mode": ["digits-at-sce", *ATTACK, "method.craft_mode=train", "train.swa=0.3"],
    "joint": ["digits-at-mmc", *ATTACK, "method.mix=0.6", "method.joint=true", "method.ramp=0.5"],
    "distilled": ["digits-at-mmc", *ATTACK, "method.distill=0.5", "train.ema=0.9"],
    "awp": ["digits-at-mmc", *ATTACK, "method.targeted=true", "train.awp=0.01", "train.awp_start=0.4"],
    "trades": ["digits-trades-sce", *ATTACK],
    "pairing": ["digits-pairing-mmc", *ATTACK],
    "local-statistics": ["digits-mmc", "train.sync_batch_norm=false"],
    "skipped-layers": ["digits-mmc", "train.sync_batch_norm=false", "train.decay=weights", SKIPPING],
}
QUICK = ("center-alone", "crafted-in-training-mode", "awp", "local-statistics", "skipped-layers")


def ended(started: list[Started]) -> list[Ended]:
    said = [each.communicate() for each in started]
    return [Ended(each.returncode, *words) for each, words in zip(started, said, strict=True)]


@pytest.mark.parametrize(
    ("case", "count"),
    [
        pytest.param(case, count, marks=[] if case in QUICK and count == 2 else pytest.mark.soak)
        for case in CASES
        for count in (1, 2, 4)
    ],
)
def test_several_processes_take_the_steps_of_one(case: str, count: int, tiny_npz: Path, tmp_path: Path) -> None:
    """In batches of 25 images, which do not split evenly."""
    small = ["train.batch_size=25", "model.feature_dim=8", "data.validation=0", "train.lr=0.01", "train.epochs=6"]
    words = [CASES[case][0], f"data.source={tiny_npz}", *small, *CASES[case][1:]]
    code = "from tests.train.several import main; main()"
    done = ended(start(count, code, *words, RESULT=str(tmp_path / "result")))
    assert all(each.returncode == 0 for each in done), "\n".join(each.stderr for each in done)
    assert json.loads((tmp_path / "result").read_text())["worst"] < 1e-10


def command(npz: Path, out: Path, epochs: int) -> list[str]:
    settings = [f"data.source={npz}", f"train.epochs={epochs}", "train.batch_size=24", "model.feature_dim=8"]
    settings += ["data.validation=24", "method.steps=2"]
    options = [word for setting in settings for word in ("--set", setting)]
    return ["train", "digits-at-mmc", "--out", str(out), "--resume", "--device", "cpu", *options]


def test_the_first_process_writes_and_a_run_is_resumed_with_more(tiny_npz: Path, tmp_path: Path) -> None:
    words = command(tiny_npz, tmp_path / "run", 6)
    two = start(2, COMMAND_LINE, *words)
    while "epoch 2/6" not in (line := two[0].stdout.readline()):
        assert line, two[0].communicate()
    two[1].send_signal(signal.SIGKILL)
    left, killed = ended(two)
    assert killed.returncode == -signal.SIGKILL
    assert left.returncode == 2, left.stderr
    assert left.stderr.startswith("maxmahal: The processes of this training cannot exchange")
    assert left.stderr.count("\n") == 1

    first, *others = ended(start(3, COMMAND_LINE, *words))
    assert all(each.returncode == 0 for each in (first, *others)), "\n".join(each.stderr for each in (first, *others))
    assert "started with 2 processes and is resumed with 3" in first.stdout
    assert "epoch 6/6" in first.stdout
    assert all(each.stdout == "" for each in others)
    folder = RunFolder(tmp_path / "run")
    assert [line["epoch"] for line in folder.read_metrics()] == [1, 2, 3, 4, 5, 6]
    result = json.loads(folder.result.read_text())
    assert result["processes"] == 2
    assert result["last"]["test_accuracy"] > 0.9
    assert result["best"]["validation_pgd10"] == max(line["validation_pgd10"] for line in folder.read_metrics())


def test_all_processes_end_when_one_alone_sees_that_training_diverged(tiny_settings: Make, tmp_path: Path) -> None:
    """Only the second one's features overflow, in its first step."""
    code = (
        "import os, sys; from maxmahal.cli import main; from maxmahal.models import Classifier\n"
        "features = Classifier.features\n"
        "overflow = lambda *given: features(*given) * (float('inf') if os.environ['RANK'] == '1' else 1)\n"
        "Classifier.features = overflow; main()"
    )
    settings = tiny_settings("digits-mmc", "train.epochs=1", "train.sync_batch_norm=false")
    (tmp_path / "mine.toml").write_text(to_toml(to_table(settings)))
    words = ["train", tmp_path / "mine.toml", "--out", tmp_path / "run", "--device", "cpu"]
    for each in ended(start(2, code, *words)):
        assert each.returncode == 2
        assert "Training diverged in epoch 1" in each.stderr
    assert RunFolder(tmp_path / "run").diverged_at(settings) == 1


@pytest.mark.parametrize("failing", ["init_process_group", "broadcast", "all_reduce", "barrier"])
def test_a_message_that_fails_says_why(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = {"TORCHELASTIC_RUN_ID": "test", "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    for name, value in (variables | {"MASTER_PORT": port, "GLOO_SOCKET_IFNAME": "lo"}).items():
        monkeypatch.setenv(name, value)

    def exchange() -> None:
        with joined(torch.device("cpu"), 2, resume=True) as processes:
            processes.copy_from_first([torch.ones(1)])
            processes.add_up([torch.ones(1)])

    monkeypatch.setattr(f"torch.distributed.{failing}", Mock(side_effect=RuntimeError("too large\nfor this machine")))
    try:
        with pytest.raises(ProcessError, match=r"^[^\n]*\(too large for this machine\)[^\n]*--resume[^\n]*$"):
            exchange()
    finally:
        monkeypatch.undo()
        if dist.is_initialized():
            dist.destroy_process_group()


def test_a_folder_that_only_one_process_can_read_is_refused(tiny_settings: Make, tmp_path: Path) -> None:
    settings = tiny_settings("digits-mmc", "train.epochs=1")
    train_model(settings, tmp_path / "0", device="cpu")
    code = (
        "import os, sys; from pathlib import Path; from maxmahal.cli import main\n"
        "sys.argv += ['--out', str(Path(sys.argv.pop(1)) / os.environ['RANK'])]; main()"
    )
    words = ["train", str(RunFolder(tmp_path / "0").settings), "--resume", "--device", "cpu"]
    for each in ended(start(2, code, tmp_path, *words)):
        assert each.returncode == 2
        assert "is not the same folder for all processes" in each.stderr


@pytest.mark.parametrize(
    ("variables", "resume", "part"),
    [
        ({"WORLD_SIZE": "13"}, True, "fewer than two images for each of 13 processes; use at most 12"),
        ({"WORLD_SIZE": "2", "TORCHELASTIC_MAX_RESTARTS": "3"}, False, "add --resume"),
    ],
)
def test_what_cannot_work_is_refused_before_it_starts(
    variables: dict[str, str],
    resume: bool,
    part: str,
    tiny_settings: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"TORCHELASTIC_RUN_ID": "test", "RANK": "1", **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=part):
        train_model(tiny_settings("digits-mmc"), tmp_path / "run", device="cpu", resume=resume)
    assert not (tmp_path / "run").exists()


def test_each_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    assert own_device(torch.device("cuda")) == torch.device("cuda")
    for name, value in {"TORCHELASTIC_RUN_ID": "test", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "3"}.items():
        monkeypatch.setenv(name, value)
    assert own_device(torch.device("cuda")) == torch.device("cuda", 1)
    assert own_device(torch.device("cpu")) == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(SettingsError, match="starts 3 processes here, and torch sees 2 CUDA devices"):
        own_device(torch.device("cuda"))


@pytest.mark.parametrize("size", [2, 7, 24, 25])
def test_parts_cover_everything_once_and_differ_by_one_at_most(size: int) -> None:
    parts = [list(range(size)[Processes(rank, 4).part(size)]) for rank in range(4)]
    assert [each for part in parts for each in part] == list(range(size))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.soak
def test_torchrun_starts_a_killed_worker_again(tiny_npz: Path, tmp_path: Path) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    torchrun += ["--max-restarts", "1", "-m", "maxmahal", *command(tiny_npz, tmp_path / "run", 30)]
    with subprocess.Popen(torchrun, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not (line := process.stdout.readline()).startswith("epoch 2/30"):
            assert line, process.stderr
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(workers[-1]), signal.SIGKILL)
        said, errors = process.communicate()
    assert process.returncode == 0, errors
    assert "Resuming after epoch" in said
    assert [line["epoch"] for line in RunFolder(tmp_path / "run").read_metrics()] == [*range(1, 31)]
