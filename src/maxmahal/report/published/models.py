"""Which trained models stand in which of the paper's tables, and what people call them."""

from maxmahal.report.published.shelf import Shelf

PLAIN = ("cifar10-sce", "cifar10-center", "cifar10-mmlda", "cifar10-lgm", "cifar10-mmc-rand", "cifar10-mmc")
OTHER_LOSSES = PLAIN[:4]
ADVERSARIAL = ("cifar10-at-tar-sce", "cifar10-at-tar-mmc", "cifar10-at-un-sce", "cifar10-at-un-mmc")
TABLE_1 = (*PLAIN, *ADVERSARIAL)
TABLE_2 = tuple(name for name in TABLE_1 if name != "cifar10-mmc-rand")
TABLE_5 = ("cifar10-sce", "cifar10-mmc", "cifar10-sce-resnet110", "cifar10-mmc-resnet110")
LONG = ("cifar10-at-un-sce", "cifar10-at-un-mmc")
SHORT = ("cifar10-at-sce-short", "cifar10-at-mmc-short")
BEYOND = ("cifar10-trades-sce", "cifar10-trades-sce-short", "cifar10-sce-released", "cifar10-mmc-released")
"""Models of ours that no table of the paper has."""

ZOO = {
    **{name: name for name in (*PLAIN, "cifar10-at-tar-sce", "cifar10-at-tar-mmc", "cifar10-trades-sce")},
    "cifar10-at-sce": "cifar10-at-un-sce",
    "cifar10-at-mmc": "cifar10-at-un-mmc",
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


def title_of(shelf: Shelf, model: str) -> str:
    """The name of its row in the paper's first table that has it, or the model's own."""
    row = shelf.rows(model).partition(";")[0].partition(", ")[2].removeprefix("CIFAR-10, ")
    return row or model.removeprefix("cifar10-")
