"""Which trained models stand in which of the paper's tables, and what people call them."""

from paper.pages.shelf import TUNING, Shelf

DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
"""The data sets of these results: as our names of models begin, and as people write them."""

NETWORKS = {
    "resnet32": "ResNet-32",
    "resnet110": "ResNet-110",
    "resnet32wide": "ResNet-32 with 256 pooled values (`resnet32wide`)",
    "resnet110wide": "ResNet-110 with 256 pooled values (`resnet110wide`)",
}
"""Backbones as people call them."""
DAMPED = ("resnet110", "resnet110wide")
"""Backbones whose blocks start with less of an effect than usual."""

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
SHORT = ("cifar10-at-sce-short", "cifar10-at-mmc-short")
ADVERSARIAL_CIFAR100 = ("cifar100-at-sce", "cifar100-at-mmc", "cifar100-at-hm")
BEYOND = ("cifar10-trades-sce", "cifar10-trades-sce-short", "cifar10-sce-released", "cifar10-mmc-released")
"""Models of ours that no table of the paper has."""

ZOO = {
    **{name: name for name in (*PLAIN, "cifar10-at-tar-sce", "cifar10-at-tar-mmc", "cifar10-trades-sce")},
    "cifar10-at-sce": "cifar10-at-un-sce",
    "cifar10-at-mmc": "cifar10-at-un-mmc",
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
"""How tables head a stage of the paper's protocol; 8 and 16 are epsilons in 256ths."""

_OWN = {
    "cifar100-mmc-rand": "MMC-10 (rand)",
    "cifar100-hm": "HM",
    "cifar100-at-sce": "AT (SCE)",
    "cifar100-at-mmc": "AT (MMC-10)",
    "cifar100-at-hm": "AT (HM)",
}


def title_of(shelf: Shelf, model: str) -> str:
    """The name of its row in the paper's first table that has it, or one of our own."""
    row = row_title(shelf.rows(model).partition(";")[0])
    prefix, _, rest = model.partition("-")
    return row or _OWN.get(model) or (rest if prefix in DATA and rest else model)


def network_title(backbone: str) -> str:
    """What people call it, or its own name."""
    return NETWORKS.get(backbone, f"`{backbone}`")


def row_title(place: str) -> str:
    """ "SCE (Res.32)" of "Table 5, CIFAR-100, SCE (Res.32)"."""
    row = place.partition(", ")[2]
    for data in DATA.values():
        row = row.removeprefix(f"{data}, ")
    return row


def data_of(model: str) -> str:
    """Which of the data sets a model's name speaks of; CIFAR-10's where it names none."""
    prefix = model.removeprefix(TUNING).partition("-")[0]
    return prefix if prefix in DATA else "cifar10"
