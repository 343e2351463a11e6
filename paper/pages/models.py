"""Which trained models are the rows of which table of the paper, and what tables call models, attacks and networks."""

from typing import NamedTuple

DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
"""The data sets: how names of models begin, and how people write them."""
NETWORKS = {
    "resnet32": "ResNet-32",
    "resnet110": "ResNet-110",
    "resnet32wide": "ResNet-32 with 256 pooled values (`resnet32wide`)",
    "resnet110wide": "ResNet-110 with 256 pooled values (`resnet110wide`)",
}

PLAIN = ("cifar10-sce", "cifar10-center", "cifar10-mmlda", "cifar10-lgm", "cifar10-mmc-rand", "cifar10-mmc")
OTHER_LOSSES = PLAIN[:4]
ADVERSARIAL = ("cifar10-at-tar-sce", "cifar10-at-tar-mmc", "cifar10-at-un-sce", "cifar10-at-un-mmc")
TABLE_1 = (*PLAIN, *ADVERSARIAL)
TABLE_2 = tuple(name for name in TABLE_1 if name != "cifar10-mmc-rand")
TABLE_4 = (*(name.replace("cifar10-", "cifar100-") for name in PLAIN), "cifar100-hm")
"""Random centers (the fifth) and hierarchical ones (the last) are not in the paper's table."""
TABLE_5 = ("cifar10-sce", "cifar10-mmc", "cifar10-sce-resnet110", "cifar10-mmc-resnet110")
TABLE_5_CIFAR100 = tuple(name.replace("cifar10-", "cifar100-") for name in TABLE_5)
LONG = ("cifar10-at-un-sce", "cifar10-at-un-mmc")
TUNED = ("cifar10-at-sce-tuned", "cifar10-at-mmc-tuned")
"""Trained with averaged weights, after longer trials; their names end with the seed."""
RELEASED = "cifar10-at-mmc-released"
"""On the network of the paper's code, beside RobustBench's row for the paper."""
SHORT = ("cifar10-at-sce-short", "cifar10-at-mmc-short")
ADVERSARIAL_CIFAR100 = ("cifar100-at-sce", "cifar100-at-mmc", "cifar100-at-hm")
HM, HM_BASE = "cifar100-hm", "cifar100-mmc"
BEYOND = ("cifar10-trades-sce", "cifar10-trades-sce-short", "cifar10-sce-released", "cifar10-mmc-released", RELEASED)
"""Models of ours that no table of the paper has."""


class Anchor(NamedTuple):
    """Adversarial training by others on CIFAR-10 at Linf 8/255, in percent."""

    title: str
    network: str
    clean: float
    autoattack: float
    ours: str = ""


ANCHORS = (
    Anchor("AT (MMC-10), the paper's released network (RobustBench)", "resnet47v2", 80.89, 43.48, RELEASED),
    Anchor("AT (SCE), ResNet-32 (public re-run)", "resnet32", 76.60, 43.88),
)

ZOO = {
    **{name: name for name in (*PLAIN, "cifar10-at-tar-sce", "cifar10-at-tar-mmc", "cifar10-trades-sce", RELEASED)},
    "cifar10-at-sce": "cifar10-at-un-sce",
    "cifar10-at-mmc": "cifar10-at-un-mmc",
    "cifar10-at-sce-tuned": "cifar10-at-sce-tuned-seed0",
    "cifar10-at-mmc-tuned": "cifar10-at-mmc-tuned-seed0",
    **{name: name for name in ("cifar100-sce", "cifar100-mmc", "cifar100-hm", *ADVERSARIAL_CIFAR100)},
}
"""The zoo's names, and the runs whose last checkpoints they are."""

PGD_8 = ("pgd10-tar-8", "pgd10-un-8", "pgd50-tar-8", "pgd50-un-8")
PGD_16 = ("pgd10-tar-16", "pgd10-un-16", "pgd50-tar-16", "pgd50-un-16")
DISTANCES = ("cw-tar", "cw-un")
SPSA = ("spsa-tar-8", "spsa-un-8", "spsa-tar-16", "spsa-un-16")
SPSA_SIZES = {"128": "", "4096": "-4096", "8192": "-8192"}
"""Batches of SPSA in the paper's Table 3, and how the names of their stages end."""
TITLES = {
    "clean": "clean",
    "pgd10-tar-8": "PGD-10 tar 8",
    "pgd10-un-8": "PGD-10 un 8",
    "pgd50-tar-8": "PGD-50 tar 8",
    "pgd50-un-8": "PGD-50 un 8",
    "pgd10-tar-16": "PGD-10 tar 16",
    "pgd10-un-16": "PGD-10 un 16",
    "pgd50-tar-16": "PGD-50 tar 16",
    "pgd50-un-16": "PGD-50 un 16",
    "cw-tar": "C&W tar (L2)",
    "cw-un": "C&W un (L2)",
    "spsa-tar-8": "SPSA tar 8",
    "spsa-un-8": "SPSA un 8",
    "spsa-tar-16": "SPSA tar 16",
    "spsa-un-16": "SPSA un 16",
    "noise": "noise",
    "rotation": "rotation",
}
"""How tables call a stage of the paper's protocol; 8 and 16 are epsilons in 256ths."""
OWN_TITLES = {
    "cifar10-at-sce-tuned-seed0": "AT un 10 (SCE), tuned",
    "cifar10-at-mmc-tuned-seed0": "AT un 10 (MMC-10), tuned",
    RELEASED: "AT un 10 (MMC-10), `resnet47v2`",
    "cifar100-mmc-rand": "MMC-10 (rand)",
    "cifar100-hm": "HM",
    "cifar100-at-sce": "AT (SCE)",
    "cifar100-at-mmc": "AT (MMC-10)",
    "cifar100-at-hm": "AT (HM)",
}
"""Of models that are rows of no table of the paper."""

TUNING = "tune-"
"""How the names of trials begin."""
CLOCK = "clock-"
OWN_PAGES = ("trees-", CLOCK)
"""How the names of models begin that have a page of their own."""


def network_title(backbone: str) -> str:
    """What people call a network, or its own name."""
    return NETWORKS.get(backbone, f"`{backbone}`")


def row_title(place: str) -> str:
    """ "SCE (Res.32)" of "Table 5, CIFAR-100, SCE (Res.32)"."""
    row = place.partition(", ")[2]
    for data in DATA.values():
        row = row.removeprefix(f"{data}, ")
    return row


def data_of(model: str) -> str:
    """The data set in a model's name; CIFAR-10 if it names none."""
    prefix = model.removeprefix(TUNING).partition("-")[0]
    return prefix if prefix in DATA else "cifar10"
