"""A grid of two small models under a short suite."""

from pathlib import Path

SUITE = """
version = 1
about = "two short attacks"
epsilon = "0.1"
chunk = 10

[[stage]]
name = "pgd"
attack = "pgd"
objective = "cross-entropy"
steps = 3

[[stage]]
name = "fgsm"
attack = "fgsm"
scope = "all"
"""
GRID = """
about = "two small models"

[[model]]
name = "sce"
preset = "digits-sce"
set = ["train.epochs=6", "data.limit=192", "data.test_limit=50"]

[[model]]
name = "mmc"
preset = "digits-mmc"
set = ["train.epochs=6", "data.limit=192", "data.test_limit=50"]

[[evaluation]]
suite = "short.toml"
limit = 30
"""


def write_grid(folder: Path, text: str = GRID) -> Path:
    (folder / "short.toml").write_text(SUITE)
    path = folder / "small.toml"
    path.write_text(text)
    return path
