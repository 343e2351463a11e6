"""A model under attacks from outside this project and under ours, on the same images, sample by sample.

    python -m paper.studies.outside_check zoo:cifar10-at-mmc --data cifar10 --limit 1000

A sample that only a peer breaks shows a bug of ours; such samples are listed by their index. The peers are called
directly: pyautoattack's standard evaluation, and adv-lib's targeted APGD with three starts for each class. In
docs/peers.md the latter is the strongest single attack of other libraries on adversarially trained models; its loss,
its starts and its budget are not AutoAttack's. An image counts if it is in the ball and in [0, 1], and if the model
misclassifies it, as we measure it: in float32, by the true label.

The record is written after each attack. The same command resumes: attacks in the record do not run again.
"""

import argparse
import importlib
import importlib.util
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from maxmahal.attacks import Linf
from maxmahal.attacks.oracle import full_float32, judge
from maxmahal.data import ImageData, load_dataset
from maxmahal.evaluate import evaluate_model
from maxmahal.evaluate.evaluated_model import load_target
from maxmahal.evaluate.fingerprints import describe_environment, fingerprint_data, fingerprint_model
from maxmahal.evaluate.suite import load_suite
from maxmahal.records.verdict import CLEAN, stands
from paper.studies.digits import RECORDS
from paper.summaries import write_summary

SEED, BATCH, STEPS, RESTARTS = 0, 250, 100, 3
LIBRARIES = ("adv_lib", "pyautoattack")
SLACK = 1e-6
"""How far an image may leave the ball: float32 rounds the sum of an image and epsilon."""
Attack = Callable[[nn.Module, Tensor, Tensor, float], Tensor]


def autoattack(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
    """The standard evaluation, as the package's README calls it."""
    package = importlib.import_module("pyautoattack")
    suite = package.AutoAttack(model, norm="Linf", eps=epsilon, seed=SEED, version="standard", device=images.device)
    return suite.run_standard_evaluation(images, labels, batch_size=BATCH)[0]


def targeted_apgd(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
    """Towards each other class in turn, by adv-lib.

    Its file is loaded alone: the package imports torchvision, visdom and distutils, which this attack does not need.
    """
    library = importlib.import_module("adv_lib")
    spec: Any = importlib.util.spec_from_file_location("auto_pgd", Path(library.__path__[0], "attacks", "auto_pgd.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    batches = zip(torch.split(images, BATCH), torch.split(labels, BATCH), strict=True)
    options = {"eps": epsilon, "norm": float("inf"), "n_iter": STEPS, "n_restarts": RESTARTS}
    return torch.cat([module.apgd_targeted(model, *batch, **options) for batch in batches])


PEERS: dict[str, Attack] = {
    "pyautoattack AutoAttack": autoattack,
    f"adv-lib APGD-{STEPS} to each class, {RESTARTS} starts": targeted_apgd,
}


def is_allowed(images: Float[Tensor, "n c h w"], found: Float[Tensor, "n c h w"], epsilon: float) -> Bool[Tensor, " n"]:
    """Which images are in the ball and in [0, 1]; one with a NaN is not."""
    near = (found.double() - images.double()).abs() <= epsilon + SLACK
    return (near & (found >= 0) & (found <= 1)).flatten(1).all(dim=1)


def predictions(model: nn.Module, images: Float[Tensor, "n c h w"]) -> Int[Tensor, " n"]:
    """The model's own, in float32."""
    return torch.cat([judge(model, batch).predictions for batch in torch.split(images, BATCH)])


def attack_as_peer(attack: Attack, model: nn.Module, data: ImageData, epsilon: float) -> dict[str, Any]:
    """The samples that a peer breaks, and how many of its images do not count."""
    images, labels = data.float_images(), data.labels
    with full_float32(images.device), torch.random.fork_rng():
        torch.manual_seed(SEED)
        found = attack(model, images, labels, epsilon).detach().float()
    allowed = is_allowed(images, found, epsilon)
    found[~allowed] = images[~allowed]  # a model may refuse a NaN
    broken = allowed & (predictions(model, found) != labels)
    return {"broken": data.sample_ids[broken].tolist(), "not_allowed": int((~allowed).sum())}


def attack_as_ours(suite: str, model: nn.Module, data: ImageData, epsilon: str) -> dict[str, Any]:
    """The samples that our suite breaks, with the attacks that its diagnostics add."""
    evaluation = evaluate_model(model, data, suite=suite, norm="Linf", epsilon=epsilon, seed=SEED)
    return {"broken": evaluation.stage(CLEAN).columns.sample[~stands(evaluation)].tolist()}


def compare(record: Mapping[str, Any], ours: str) -> dict[str, Any]:
    """What the attacks of a record leave, alone and together, and how each peer agrees with ours."""
    broken = {title: {*each["broken"]} for title, each in record["attacks"].items()}
    right, count = record["images"] - len(record["wrong"]), record["images"]
    table: dict[str, Any] = {
        "clean": right / count,
        "robust": {title: (right - len(each)) / count for title, each in broken.items()},
        "robust_under_all": (right - len(set().union(*broken.values()))) / count,
        "peers": {},
    }
    if ours in broken:
        own = broken.pop(ours)
        table["peers"] = {
            title: {"both": len(each & own), "only_ours": len(own - each), "only_peer": sorted(each - own)}
            for title, each in broken.items()
        }
    return table


def print_table(record: Mapping[str, Any], ours: str) -> None:
    """One row per attack; samples that only a peer breaks are listed."""
    table = record["comparison"]
    print(f"{record['model']}: {record['images']} images of {record['data']}, {record['threat']}")
    print(f"{'':44} {'accuracy':>8} {'both':>6} {'only it':>8} {'only ' + ours:>12}")
    print(f"{'clean':44} {table['clean']:8.2%}")
    for title, robust in table["robust"].items():
        each = table["peers"].get(title)
        cells = "" if each is None else f" {each['both']:6} {len(each['only_peer']):8} {each['only_ours']:12}"
        print(f"{title:44} {robust:8.2%}{cells}")
    print(f"{'all together':44} {table['robust_under_all']:8.2%}")
    for title, each in table["peers"].items():
        if each["only_peer"]:
            print(f"A bug of ours: only {title} breaks the samples {each['only_peer']}.")


def check(
    name: str,
    model: nn.Module,
    data: ImageData,
    out: Path,
    *,
    epsilon: str = "8/255",
    suite: str = "strict",
    peers: Mapping[str, Attack] = PEERS,
) -> dict[str, Any]:
    """Attack the samples that are right without an attack, as far as the record in ``out`` does not say yet."""
    identity = {
        "study": "outside_check",
        "model": name,
        "model_fingerprint": fingerprint_model(model),
        "data": data.name,
        "data_fingerprint": fingerprint_data(data),
        "images": len(data),
        "threat": f"Linf {epsilon}",
        "suite": f"{Path(suite).stem} {load_suite(suite).version}",
    }
    is_right = predictions(model, data.float_images()) == data.labels
    right = data.select(is_right.nonzero().squeeze(1))
    record = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    if {key: record.get(key) for key in identity} != identity:
        record = {**identity, "wrong": data.sample_ids[~is_right].tolist(), "attacks": {}, "libraries": {}}
        command = shlex.join(["python", "-m", "paper.studies.outside_check", *sys.argv[1:]])
        record["environment"] = describe_environment(data.device, command)
    first, *others = peers
    ours = Path(suite).stem
    for title in (first, ours, *others):  # a run that is cut short should hold one comparison
        if title not in record["attacks"]:
            started = time.monotonic()
            if title == ours:
                found = attack_as_ours(suite, model, right.to("cpu"), epsilon)  # which moves images by itself
            else:
                found = attack_as_peer(peers[title], model, right, Linf(epsilon).radius)
            record["attacks"][title] = {**found, "seconds": round(time.monotonic() - started, 1)}
            record["comparison"] = compare(record, ours)
            record["libraries"] |= {name: sys.modules[name].__version__ for name in LIBRARIES if name in sys.modules}
            write_summary(out, record)
            print(f"{title}: {record['attacks'][title]['seconds']} s", flush=True)
    print_table(record, ours)
    return record


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", help="zoo:NAME, a checkpoint or a run folder")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--data-dir", type=Path, help="folder of the data sets (default: $MAXMAHAL_DATA)")
    parser.add_argument("--limit", type=int, help="use only the first N images")
    parser.add_argument("--epsilon", default="8/255")
    parser.add_argument("--suite", default="strict", help="ours")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="the record (default: records/outside_check-NAME-N.json)")
    options = parser.parse_args()
    known = load_target(options.target, device=options.device)
    if not isinstance(known.model, nn.Module):
        raise SystemExit(f"{options.target} is a function; the peers need a torch.nn.Module.")
    data = load_dataset(options.data, "test", options.data_dir).first(options.limit).to(known.device)
    out = options.out or RECORDS / f"outside_check-{known.name}-{len(data)}.json"
    model = known.model.requires_grad_(False)  # some peers would compute the gradients of the weights
    check(known.name, model, data, out, epsilon=options.epsilon, suite=options.suite)
    print(f"Record in {out}")


if __name__ == "__main__":
    main()
