"""The user's own data as a folder: ``DIR/train/<class>/*.png`` and ``DIR/test/<class>/*.png`` (or jpg), or tars."""

import importlib.util
from pathlib import Path

import torch

from maxmahal.data.decode import ImageSource, Sizing
from maxmahal.data.source import Split
from maxmahal.data.stream import StreamedData
from maxmahal.data.tars import TARS, load_tars
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError
from maxmahal.files import read_text, reading

_ENDINGS = frozenset({".png", ".jpg", ".jpeg"})
ROBUSTBENCH = "robustbench"
_ROBUSTBENCH_LIST = "helper_files/imagenet_test_image_ids.txt"


def load_folder(name: str, root: Path, split: Split, listed: str = "", sizing: Sizing | None = None) -> ImageData:
    """One split of a folder of images by class, or of tars; ``DIR/train``, where there is one, names the classes.

    ``DIR/val`` is a test split, too, and so is ``DIR`` itself if it has no splits. The first training image sets size
    and colour. ``listed`` is a list of files in ``DIR``, or RobustBench's.
    """
    folder = root / split
    if split == "test" and not folder.is_dir() and ((root / "val").is_dir() or not (root / "train").is_dir()):
        folder = root / "val" if (root / "val").is_dir() else root
    if tars := _tars(folder):
        if listed:
            raise DataError(f"{folder} holds tars, and @{listed} lists files; unpack the tars, or leave it out.")
        if also := [each for each in folder.iterdir() if each.is_dir() and _images(each, needed=False)]:
            raise DataError(f"{folder} holds tars and images in {also[0].name}/; move one kind to a folder of its own.")
        return load_tars(name, tars, sizing, training=[] if split == "train" else _tars(root / "train"))
    train = root / "train" if (root / "train").is_dir() else folder
    classes = _classes(train)
    if strange := sorted(set(_classes(folder)) - set(classes)):
        raise DataError(f"{folder / strange[0]} has no class of that name in {train}; add or rename it.")
    counted = [(_images(folder / each, needed=split == "train"), each) for each in classes]
    files = [f"{each}/{file}" for found, each in counted for file in found]
    if not files:
        raise DataError(f"{folder} holds no png or jpg images; put them in {folder}/<class>/.")
    labels = torch.arange(len(classes)).repeat_interleave(torch.tensor([len(found) for found, _ in counted]))
    first = folder / files[0] if folder == train else train / classes[0] / _images(train / classes[0], needed=True)[0]
    data = StreamedData.describe(
        name,
        labels,
        classes,
        lambda number: ImageSource(f"{folder}/{files[number]}"),
        first=ImageSource(str(first)),
        sizing=sizing,
    )
    return data.select(torch.tensor(_listed(root, listed, folder, files))) if listed else data


def _tars(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.name.endswith(TARS)) if folder.is_dir() else []


def _classes(folder: Path) -> list[str]:
    """In alphabetical order, as their files are, so that the numbering is the same on every machine."""
    with reading(folder, f"put the images of class NAME into {folder}/NAME/."):
        found = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not found:
        raise DataError(f"{folder} has no folders in it; put the images of class NAME into {folder}/NAME/.")
    return found


def _images(folder: Path, *, needed: bool) -> list[str]:
    with reading(folder, "make that folder readable."):
        found = [path.name for path in folder.iterdir()] if needed or folder.is_dir() else []
    found = sorted(name for name in found if Path(name).suffix.lower() in _ENDINGS)
    if needed and not found:
        raise DataError(f"{folder} holds no png or jpg images; add some or delete the folder.")
    return found


def _listed(root: Path, name: str, folder: Path, files: list[str]) -> list[int]:
    """The numbers of the files that a list names, one ``class/file`` per line."""
    path = root / name
    if name == ROBUSTBENCH:
        package = importlib.util.find_spec("robustbench")  # which is not imported
        path = Path(package.origin or "" if package else "").parent / _ROBUSTBENCH_LIST
        if package is None or not path.is_file():
            raise DataError(
                "RobustBench's list of images comes with its package; install robustbench, or put the list into "
                f"{root} and write @imagenet_test_image_ids.txt."
            )
    with reading(path, "put a list there, with one class/file per line."):
        lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
    numbers = {file: number for number, file in enumerate(files)}
    if missing := [line for line in lines if line not in numbers]:
        raise DataError(
            f"{path} lists {len(lines)} images, of which {len(missing)} are not in {folder}, such as "
            f"{missing[0][:100]}; put them there."
        )
    if not lines:
        raise DataError(f"{path} lists no images; put one class/file per line.")
    return [numbers[line] for line in lines]
