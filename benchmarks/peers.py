"""Attacks of five other libraries behind one call, so that tables and benchmarks can set them beside ours.

``Peer.run(model, images, labels)`` returns what the library returned, for the whole batch at once. Whoever scores it
projects and predicts again: attacks that look for the nearest image leave the ball, and where an attack failed some
return the clean image, foolbox's C&W a black one.

Give it a model in eval mode: only torchattacks, which puts it back, and ART, which does not, switch it themselves. The
parameters' ``.grad`` is filled by foolbox (but for NES), ART, torchattacks' CW and FAB, pyautoattack's FAB-T and so its
suite. foolbox moves the model to the images' device, ART to the current GPU if they are on one. Weights, hooks and
``requires_grad`` stay. A run seeds torch's and numpy's global random numbers, and puts torch's back.

Two things look like robustness and are not. torchattacks and ART average the cross-entropy over the batch, so that
gradients near the end of float32 vanish sooner in larger batches. adv-lib's ``apgd_targeted`` aims an image that is
already wrong at its true class too, and so repairs it.

No library is needed to import this module. adv-lib's attacks import torchvision and visdom without using them here, so
where these are absent empty modules stand in while it is loaded.
"""

import importlib
import importlib.metadata
import importlib.util
import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

Run = Callable[[nn.Module, Tensor, Tensor], Tensor]
Norm = Literal["Linf", "L2", "L1", "L0"]
ORDERS: dict[Norm, float] = {"Linf": float("inf"), "L2": 2, "L1": 1, "L0": 0}
NOT_INSTALLED = "not installed"
_DISTRIBUTIONS = {"ART": "adversarial-robustness-toolbox"}  # where pip's name is not the library's
_ART_PGD = "projected_gradient_descent.projected_gradient_descent_pytorch.ProjectedGradientDescentPyTorch"
_ART_APGD = "AutoProjectedGradientDescent"


@dataclass(frozen=True)
class Peer:
    """One attack of one library; ``version`` is ``NOT_INSTALLED`` where ``run`` would raise an ImportError."""

    library: str
    version: str
    attack: str
    run: Run


def pgd_peers(epsilon: float, steps: int, step_size: float, seed: int) -> list[Peer]:
    """Cross-entropy PGD in L∞ from one random start; pyautoattack has none, so its APGD, which sets its own steps."""
    art = {"eps": epsilon, "eps_step": step_size, "max_iter": steps, "num_random_init": 1}
    return [
        _torchattacks("PGD", seed, "PGD", eps=epsilon, alpha=step_size, steps=steps),
        _foolbox("LinfPGD", seed, epsilon, lambda lib: lib.LinfPGD(abs_stepsize=step_size, steps=steps)),
        _art("PGD", seed, _ART_PGD, nn.CrossEntropyLoss(), **art),
        _advlib("pgd_linf ce", seed, "pgd_linf", ε=epsilon, absolute_step_size=step_size, steps=steps),
        _pyautoattack("APGD-CE", seed, epsilon, steps),
    ]


def adaptive_peers(
    epsilon: float, steps: int, step_size: float, seed: int, restarts: int = 5, queries: int = 5000
) -> list[Peer]:
    """The strongest white-box L∞ attacks of each library besides cross-entropy PGD, and Square with its ``queries``.

    foolbox's LInfFMN and LinfDeepFool and adv-lib's fab look for the nearest image, at whatever distance.
    """
    torchattacks = {"eps": epsilon, "steps": steps, "seed": seed}
    art = {"eps": epsilon, "eps_step": step_size, "max_iter": steps}
    art_apgd = art | {"eps_step": 2 * epsilon, "nb_random_init": 1}  # the first step that APGD's authors take
    advlib = {"ε": epsilon, "absolute_step_size": step_size, "steps": steps}
    advlib_apgd = {"eps": epsilon, "norm": ORDERS["Linf"], "n_iter": steps}

    def margin_pgd(lib: Any) -> Any:
        return _on_margin(lib.LinfPGD(abs_stepsize=step_size, steps=steps))

    return [
        _torchattacks("APGD ce", seed, "APGD", loss="ce", **torchattacks),
        _torchattacks("APGD dlr", seed, "APGD", loss="dlr", **torchattacks),
        _torchattacks("APGDT", seed, "APGDT", **torchattacks),
        _torchattacks("FAB multi-targeted", seed, "FAB", multi_targeted=True, **torchattacks),
        _foolbox("LinfPGD margin", seed, epsilon, margin_pgd),
        _foolbox(f"LinfPGD margin, best of {restarts}", seed, epsilon, lambda lib: margin_pgd(lib).repeat(restarts)),
        _foolbox("LInfFMN", seed, epsilon, lambda lib: lib.LInfFMNAttack(steps=steps)),
        _foolbox("LinfDeepFool", seed, epsilon, lambda lib: lib.LinfDeepFoolAttack(steps=steps)),
        _art("PGD margin", seed, _ART_PGD, _MarginLoss(), num_random_init=1, **art),
        _art(f"PGD margin, best of {restarts}", seed, _ART_PGD, _MarginLoss(), num_random_init=restarts, **art),
        _art("AutoPGD ce", seed, _ART_APGD, nn.CrossEntropyLoss(), loss_type="cross_entropy", **art_apgd),
        _art("AutoPGD dlr", seed, _ART_APGD, nn.CrossEntropyLoss(), loss_type="difference_logits_ratio", **art_apgd),
        _advlib("pgd_linf dl", seed, "pgd_linf", loss_function="dl", **advlib),
        _advlib("pgd_linf dlr", seed, "pgd_linf", loss_function="dlr", **advlib),
        _advlib(f"pgd_linf ce, best of {restarts}", seed, "pgd_linf", restarts=restarts, **advlib),
        _advlib(f"pgd_linf dl, best of {restarts}", seed, "pgd_linf", loss_function="dl", restarts=restarts, **advlib),
        _advlib("apgd ce", seed, "apgd", loss_function="ce", **advlib_apgd),
        _advlib("apgd dlr", seed, "apgd", loss_function="dlr", **advlib_apgd),
        _advlib("apgd_targeted dlr", seed, "apgd_targeted", loss_function="dlr", **advlib_apgd),
        _advlib("fab targeted", seed, "fab", norm=ORDERS["Linf"], ε=epsilon, n_iter=steps, targeted_restarts=True),
        _pyautoattack("APGD-CE", seed, epsilon, steps),
        _pyautoattack("APGD-DLR", seed, epsilon, steps),
        _pyautoattack("APGD-T", seed, epsilon, steps),
        _pyautoattack("FAB-T", seed, epsilon, steps),
        _pyautoattack("Square", seed, epsilon, queries),
    ]


def mim_peers(epsilon: float, steps: int, step_size: float, decay: float, seed: int) -> list[Peer]:
    """The momentum iterative method in L∞: no random start.

    foolbox adds up signs, not gradients divided by their L1 norm. With torchattacks and, for gradients near the end of
    float32, with ART, one vanished gradient makes the momentum NaN and the image stays where it is.
    """
    foolbox = {"abs_stepsize": step_size, "steps": steps, "momentum": decay}
    art = {"eps": epsilon, "eps_step": step_size, "max_iter": steps}
    return [
        _torchattacks("MIFGSM", seed, "MIFGSM", eps=epsilon, alpha=step_size, steps=steps, decay=decay),
        _foolbox("MIFGSM of signs", seed, epsilon, lambda lib: lib.MIFGSM(**foolbox)),
        _art("MIM", seed, "MomentumIterativeMethod", nn.CrossEntropyLoss(), decay=decay, **art),
    ]


def carlini_peers(
    steps: int, binary_search_steps: int, lr: float, initial_const: float, confidence: float = 0.0
) -> list[Peer]:
    """Carlini and Wagner's L2 attack, without random numbers; adv-lib's needs at least 10 steps.

    torchattacks' keeps its first constant, cannot move pixels at exactly 0 or 1, and reads negative logits, such as all
    of MMC's, as 0.
    """
    search = {"binary_search_steps": binary_search_steps, "initial_const": initial_const, "confidence": confidence}
    art = search | {"max_iter": steps, "learning_rate": lr}
    cw = {"c": initial_const, "kappa": confidence, "steps": steps, "lr": lr}
    return [
        _foolbox("L2CarliniWagner", 0, None, lambda lib: lib.L2CarliniWagnerAttack(steps=steps, stepsize=lr, **search)),
        _art("CarliniL2Method with line search", 0, "CarliniL2Method", nn.CrossEntropyLoss(), **art),
        _advlib("carlini_wagner_l2", 0, "carlini_wagner_l2", max_iterations=steps, learning_rate=lr, **search),
        _torchattacks("CW without binary search", 0, "CW", **cw),
    ]


def spsa_peers(epsilon: float, steps: int, lr: float, delta: float, directions: int, seed: int) -> list[Peer]:
    """SPSA on the margin in L∞ with Adam; ``directions`` mirrored pairs a step, so twice as many evaluations.

    foolbox offers Gaussian NES instead, and adds the loss up over the batch, so that each image sees the others' noise.
    """
    samples = {"nb_sample": directions, "max_batch_size": directions}

    def nes(lib: Any) -> Any:
        estimator = _load("foolbox.gradient_estimators").es_gradient_estimator
        kind = estimator(lib.LinfAdamPGD, samples=2 * directions, sigma=delta, bounds=(0, 1), clip=False)
        return _on_margin(kind(abs_stepsize=lr, steps=steps, random_start=False))

    return [
        _torchattacks("SPSA", seed, "SPSA", eps=epsilon, delta=delta, lr=lr, nb_iter=steps, **samples),
        _foolbox("LinfAdamPGD margin with NES", seed, epsilon, nes),
    ]


def autoattack_peer(epsilon: float, norm: Norm, seed: int) -> Peer:
    """The standard suite (APGD-CE, APGD-T, FAB-T, Square), each on the images the ones before it left."""

    def run(model: nn.Module, images: Tensor, labels: Tensor) -> Any:
        suite = _load("pyautoattack").AutoAttack(model, norm=norm, eps=epsilon, seed=seed, device=images.device)
        targets = min(suite.apgd_targeted.n_target_classes, _classes(model, images) - 1)
        suite.apgd_targeted.n_target_classes = suite.fab.n_target_classes = targets
        return suite.run_standard_evaluation(images, labels, batch_size=len(images))[0]

    return _peer("pyautoattack", f"AutoAttack standard {norm}", seed, run)


def _torchattacks(label: str, seed: int, attack: str, /, **options: Any) -> Peer:
    def run(model: nn.Module, images: Tensor, labels: Tensor) -> Any:
        more = {"n_classes": _classes(model, images)} if attack in ("APGDT", "FAB") else {}
        return getattr(_load("torchattacks"), attack)(model, **options, **more)(images, labels)

    return _peer("torchattacks", label, seed, run)


def _foolbox(label: str, seed: int, epsilon: float | None, build: Callable[[Any], Any], /) -> Peer:
    def run(model: nn.Module, images: Tensor, labels: Tensor) -> Any:
        attacked = _load("foolbox").PyTorchModel(model, bounds=(0, 1), device=images.device)
        # The first of three answers is what the attack found; the second is that clipped to epsilon.
        return build(_load("foolbox.attacks"))(attacked, images, labels, epsilons=epsilon)[0]

    return _peer("foolbox", label, seed, run)


def _art(label: str, seed: int, attack: str, loss: nn.Module, /, **options: Any) -> Peer:
    def run(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        classifier = _load("art.estimators.classification").PyTorchClassifier(
            model,
            loss=loss,
            input_shape=tuple(images.shape[1:]),
            nb_classes=_classes(model, images),
            clip_values=(0.0, 1.0),
            device_type="cpu" if images.device.type == "cpu" else "gpu",
        )
        folder, _, name = f"art.attacks.evasion.{attack}".rpartition(".")
        built = getattr(_load(folder), name)(classifier, batch_size=len(images), verbose=False, **options)
        with warnings.catch_warnings():
            # Its restarts hand tensors to numpy 2 in the old way.
            warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)
            return torch.from_numpy(built.generate(images.cpu().numpy(), labels.cpu().numpy())).to(images.device)

    return _peer("ART", label, seed, run)


def _advlib(label: str, seed: int, attack: str, /, **options: Any) -> Peer:
    def run(model: nn.Module, images: Tensor, labels: Tensor) -> Any:
        return getattr(_load("adv_lib.attacks"), attack)(model, images, labels, **options)

    return _peer("adv-lib", label, seed, run)


def _pyautoattack(label: str, seed: int, epsilon: float, steps: int) -> Peer:
    """One part by itself: inside the suite APGD's checkpoints are those of 100 steps, whatever ``n_iter`` is set to."""

    def run(model: nn.Module, images: Tensor, labels: Tensor) -> Any:
        common = {"eps": epsilon, "norm": "Linf", "n_restarts": 1, "seed": seed, "device": images.device}
        # Without a logger a zero gradient becomes a warning.
        apgd = {"n_iter": steps, "logger": logging.getLogger("auto-attack")}
        targets = {"n_target_classes": _classes(model, images) - 1}
        kinds: dict[str, tuple[str, str, dict[str, Any]]] = {
            "APGD-CE": ("autopgd_base", "APGDAttack", {"loss": "ce"} | apgd),
            "APGD-DLR": ("autopgd_base", "APGDAttack", {"loss": "dlr"} | apgd),
            "APGD-T": ("autopgd_base", "APGDAttack_targeted", targets | apgd),
            "FAB-T": ("fab_pt", "FABAttack_PT", {"n_iter": steps, "targeted": True} | targets),
            "Square": ("square", "SquareAttack", {"n_queries": steps, "resc_schedule": True}),
        }
        module, kind, options = kinds[label]
        return getattr(_load(f"pyautoattack.{module}"), kind)(model, **common, **options).perturb(images, labels)

    return _peer("pyautoattack", label, seed, run)


def _peer(library: str, label: str, seed: int, run: Run) -> Peer:
    def seeded(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            np.random.seed(seed)
            return run(model, images, labels).detach()

    installed = importlib.metadata.distributions(name=_DISTRIBUTIONS.get(library, library))
    version = next((distribution.version for distribution in installed), NOT_INSTALLED)
    return Peer(library, version, label, seeded)


class _MarginLoss(nn.Module):
    """max_{k≠y} h_k - h_y, added up over the batch: what an attack makes large. ART's labels are one-hot rows."""

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        labels = labels.argmax(dim=1) if labels.ndim == 2 else labels
        others = logits.scatter(1, labels[:, None], -torch.inf).amax(dim=1)
        return (others - logits.gather(1, labels[:, None]).squeeze(1)).sum()


def _on_margin(attack: Any) -> Any:
    """A foolbox attack with another loss, in the way its authors provide for."""
    astensor = _load("eagerpy").astensor
    attack.get_loss_fn = lambda model, labels: lambda images: astensor(_MarginLoss()(model(images).raw, labels.raw))
    return attack


def _classes(model: nn.Module, images: Tensor) -> int:
    with torch.no_grad():
        return int(model(images[:1]).shape[1])


def _load(name: str) -> Any:
    """Import a peer's module, letting pass the two deprecations that importing them raises."""
    unused = ("torchvision", "visdom") if name.startswith("adv_lib") else ()
    absent = [other for other in unused if importlib.util.find_spec(other) is None]
    stand_ins: dict[str, Any] = dict.fromkeys(absent, SimpleNamespace(models=None))
    sys.modules.update(stand_ins)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r".*(scipy\.ndimage|distutils)", DeprecationWarning)
            return importlib.import_module(name)
    finally:
        for other in stand_ins:
            del sys.modules[other]
