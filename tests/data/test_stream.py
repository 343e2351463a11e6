"""Images that stay on disk: folders, tars, lists, scaling, and the processes that decode."""

import importlib.util
import io
import os
import signal
import subprocess
import sys
import tarfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partialmethod
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from maxmahal.data import check_dataset, decode, disagreement, load_dataset
from maxmahal.data.decode import ImageSource, Sizing, decode_all
from maxmahal.data.stream import StreamedData
from maxmahal.data.types import ImageData
from maxmahal.errors import DataError
from maxmahal.evaluate import fingerprints
from maxmahal.evaluate.fingerprints import fingerprint_data

COUNT, CLASSES = 70, 3
LABELS = torch.arange(COUNT) % CLASSES


def png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, format="PNG")
    return stream.getvalue()


def write_tar(path: Path, files: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def samples(images: np.ndarray, numbers: range) -> dict[str, bytes]:
    """As WebDataset names them; a .json is not read."""
    found: dict[str, bytes] = {}
    for number in numbers:
        endings = {"cls": f"{LABELS[number]}\n".encode(), "json": b"{}", "png": png(images[number])}
        found |= {f"val/{number:04d}.{ending}": content for ending, content in endings.items()}
    return found


@pytest.fixture
def images(random_images: Callable[..., np.ndarray]) -> np.ndarray:
    return random_images(COUNT, 6, 5, 3)


@pytest.fixture
def folder(images: np.ndarray, tmp_path: Path) -> Path:
    """Without splits; the numbers of the files are those of the images."""
    for number, image in enumerate(images):
        path = tmp_path / "pictures" / "abc"[LABELS[number]] / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(image))
    return tmp_path / "pictures"


@pytest.fixture
def tars(images: np.ndarray, tmp_path: Path) -> Path:
    write_tar(tmp_path / "shards/test/0.tar", samples(images, range(40)))
    write_tar(tmp_path / "shards/test/1.tar", samples(images, range(40, COUNT)))
    return tmp_path / "shards"


def same(first: ImageData, second: ImageData) -> bool:
    pairs = ((getattr(first, name), getattr(second, name)) for name in ("images", "labels", "sample_ids"))
    return all(torch.equal(*pair) for pair in pairs) and first.class_names == second.class_names


def test_a_stream_holds_no_image_and_reads_those_that_are_selected(folder: Path, images: np.ndarray) -> None:
    order = torch.argsort(LABELS, stable=True)
    data = load_dataset(str(folder), "test", stream=True)
    assert isinstance(data, StreamedData)
    assert data.images.is_meta
    assert repr(data).startswith("StreamedData(")
    assert repr(data).endswith(f"pictures, {COUNT} images of 3x6x5, 3 classes)")
    expected = ImageData.from_arrays(
        "pictures", torch.from_numpy(images).permute(0, 3, 1, 2)[order], LABELS[order], ("a", "b", "c")
    )
    assert same(data.to("cpu"), expected)
    assert same(load_dataset(folder, "test"), expected)
    rows = torch.tensor([9, 2, 66])
    some = data.select(rows)
    assert some.images.is_meta
    assert same(some.to("cpu"), expected.select(rows))
    assert torch.equal(some.float_images(), expected.select(rows).float_images())
    assert fingerprint_data(data) == fingerprint_data(expected)
    assert [len(block) for block in data.blocks(30)] == [30, 30, 10]


def test_a_fingerprint_holds_few_images_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_dataset(folder, "test", stream=True)
    expected = fingerprint_data(data)
    read: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []
    whole = StreamedData.to

    def to(self: StreamedData, device: torch.device | str) -> ImageData:
        found = whole(self, device)
        read.append(weakref.ref(found.images))
        alive.append(sum(each() is not None for each in read))
        return found

    monkeypatch.setattr(StreamedData, "to", to)
    monkeypatch.setattr(ImageData, "blocks", partialmethod(ImageData.blocks, 10))
    assert fingerprint_data(data) == expected
    assert (len(alive), max(alive)) == (7, 2), "a block, and the next one while it is read"


def test_a_fingerprint_reads_images_all_over_large_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, seen = load_dataset(folder, "test", stream=True), COUNT // 10
    whole, memory = fingerprint_data(data), data.to("cpu")
    monkeypatch.setattr(fingerprints, "_SEEN", seen)
    read: list[int] = []
    place = data.place
    counted = replace(data, place=lambda number: read.append(number) or place(number))
    few = fingerprint_data(counted)
    assert read == list(range(0, COUNT, 10))
    assert few == fingerprint_data(memory) != whole
    labels = data.labels.clone()
    labels[5] = (labels[5] + 1) % 3
    images = memory.images.clone()
    images[-10] = 255 - images[-10]
    assert (
        len({few, *(fingerprint_data(replace(memory, **new)) for new in ({"labels": labels}, {"images": images}))}) == 3
    )


def test_tars_are_read_in_order_without_unpacking(tars: Path, images: np.ndarray) -> None:
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2)
    expected = ImageData.from_arrays("shards", pixels, LABELS, ("0", "1", "2"))
    assert same(load_dataset(tars, "test", stream=True).select(torch.arange(COUNT)).to("cpu"), expected)
    alone = load_dataset(tars / "test/1.tar", "test")
    assert torch.equal(alone.images, pixels[40:])
    assert torch.equal(alone.sample_ids, torch.arange(30))
    with pytest.raises(DataError, match=r"1\.tar is a test set; put tars to train on into DIR/train"):
        load_dataset(tars / "test/1.tar", "train")


def test_training_tars_number_the_classes_of_test_tars(tars: Path, images: np.ndarray) -> None:
    assert load_dataset(tars, "test").num_classes == 3
    write_tar(tars / "train/0.tar", samples(images, range(2)) | {"9.png": png(images[0]), "9.cls": b"4"})
    train, test = (load_dataset(tars, split) for split in ("train", "test"))
    assert disagreement(train, test) is None
    assert (test.class_names, len(test)) == (("0", "1", "2", "3", "4"), COUNT)
    write_tar(tars / "train/0.tar", samples(images, range(2)))
    assert load_dataset(tars, "test").num_classes == 3, "its own labels are higher"


def test_processes_decode_what_this_process_would(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [ImageSource(str(path)) for path in sorted(folder.rglob("*.png"))]
    places[5] = ImageSource("bytes", content=Path(places[5].name).read_bytes())
    elsewhere = list(decode_all(places, colour=True, sizing=Sizing(5, 4)))
    monkeypatch.setattr(decode, "_FEW", COUNT)
    assert list(decode_all(places, colour=True, sizing=Sizing(5, 4))) == elsewhere


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Those that are started, in threads of their own."""
    started: list[subprocess.Popen[bytes]] = []
    start = decode._start
    monkeypatch.setattr(decode, "_start", lambda: started.append(start()) or started[-1])
    decode._threads.cache_clear()
    yield started
    decode._threads().shutdown()
    decode._threads.cache_clear()


def test_a_killed_process_is_replaced(folder: Path, workers: list[subprocess.Popen[bytes]]) -> None:
    places = [ImageSource(str(path)) for path in sorted(folder.rglob("*.png"))]
    before = list(decode_all(places, colour=True, sizing=None))
    killed = list(workers)
    for worker in killed:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    assert list(decode_all(places, colour=True, sizing=None)) == before
    assert len(workers) > len(killed) > 0


def test_a_process_that_always_ends_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", "pass"]
    monkeypatch.setattr(decode, "_start", lambda: subprocess.Popen(command, stdin=pipe, stdout=pipe))
    monkeypatch.setattr(decode, "_OWN", type("Empty", (), {})())
    task = ([tuple(ImageSource("a.png"))], True, None)
    assert str(decode._ask(task)).startswith("The process that decodes images was ended twice, at a.png or a little")


def test_an_image_that_a_process_refuses_is_named(folder: Path) -> None:
    (folder / "b" / "0001.png").write_bytes(b"not a png")
    with pytest.raises(DataError, match=r"b/0001\.png is damaged \(it is not a PNG or JPEG image\)"):
        load_dataset(folder, "test")
    assert not check_dataset(str(folder)).ok


def test_a_worker_imports_neither_torch_nor_numpy() -> None:
    program = f"import sys; sys.argv = ['x']; exec(open({decode.__file__!r}).read()); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-P", "-c", program], input=b"", capture_output=True, check=True)
    assert not {"torch", "numpy"} & set(found.stdout.decode().split())


def test_a_system_without_forks_can_decode() -> None:
    missing = "import os, random; del os.register_at_fork; __name__ = 'decode'"  # random itself asks for os.fork
    program = f"{missing}; exec(open({decode.__file__!r}).read())"
    subprocess.run([sys.executable, "-P", "-c", program], check=True)


@pytest.mark.parametrize(("asked", "workers"), [("2", 2), ("3,1", 3), ("99", 8), ("0", 8), ("many", 8), (None, 8)])
def test_there_are_no_more_workers_than_threads_asked_for(
    asked: str | None, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    with decode._threads.__wrapped__() as threads:
        assert threads._max_workers == workers


def test_images_are_scaled_and_cut(tmp_path: Path) -> None:
    wide = np.repeat(np.arange(12, dtype=np.uint8)[None] * 20, 8, axis=0)
    path = tmp_path / "0.png"
    path.write_bytes(png(wide))
    cut = decode.decode(ImageSource(str(path)), sizing=Sizing(8, 6))
    assert np.array_equal(np.frombuffer(cut.content, np.uint8).reshape(6, 6), wide[1:7, 3:9])
    tall = Image.fromarray(wide.T).resize((16, 24), Image.Resampling.BICUBIC).crop((0, 4, 16, 20))
    path.write_bytes(png(wide.T.copy()))
    assert decode.decode(ImageSource(str(path)), sizing=Sizing(16, 16, True)).content == tall.tobytes()
    with pytest.raises(DataError, match="it is 1x90000 pixels, and would be 256x23040000"):
        decode.decode(ImageSource("thin", content=png(np.zeros((90_000, 1), np.uint8))), sizing=Sizing(256, 224))


@pytest.mark.parametrize("side", [16, 160])
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_side_is_not_taken_for_a_number_of_bits(kind: str, mode: str, side: int) -> None:
    for size in ((side, 9), (9, side)):
        stream = io.BytesIO()
        Image.new(mode, size, 99).save(stream, format=kind)
        found = decode.decode(ImageSource("plain", content=stream.getvalue()))
        assert (found.width, found.height, found.channels) == (*size, len(mode))


def test_sixteen_bits_are_refused_at_any_size() -> None:
    for side in (5, 16):
        content = png(np.full((side, side), 40_000, np.uint16))
        with pytest.raises(DataError, match="its pixels have 16 bits"):
            decode.decode(ImageSource("deep", content=content))


def test_sizes_are_a_part_of_the_name(folder: Path, tars: Path) -> None:
    save = Image.fromarray(np.zeros((9, 7, 3), np.uint8)).save
    save(folder / "c" / "odd.png")
    with pytest.raises(DataError, match=r"odd\.png is 7x9 pixels but .*make all images the same size, or scale"):
        load_dataset(folder, "test")
    data = load_dataset(f"{folder}@5-4", "test")
    assert (data.image_shape, data.name) == ((3, 4, 4), "pictures@5-4")
    assert load_dataset(f"{tars}@5-4-bicubic", "test").image_shape == (3, 4, 4)
    assert load_dataset(f"{tars}/test/0.tar@5-4", "test").name == "0.tar@5-4"
    for wrong in ("4-5", "0-0", "5000-4"):
        with pytest.raises(DataError, match=f"@{wrong} must scale the shorter side to at most 4096"):
            load_dataset(f"{folder}@{wrong}", "test")
    folder.rename(folder.with_name("at@5-4"))
    assert load_dataset(f"{folder.parent}/at@5-4", "test", stream=True).image_shape == (3, 6, 5), "a path that exists"


def test_a_list_selects_files_and_keeps_their_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_dataset(folder, "test")
    lines = "b/0004.png\n\na/0003.png\n"
    (folder / "few.txt").write_text(lines)
    few = load_dataset(f"{folder}@few.txt@5-5", "test", stream=True)
    assert few.sample_ids.tolist() == [25, 1]
    assert few.class_names == whole.class_names
    assert torch.equal(load_dataset(f"{folder}@few.txt", "test").images, whole.images[[25, 1]])
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda _: None)  # it may be installed
        with pytest.raises(DataError, match="comes with its package; install robustbench"):
            load_dataset(f"{folder}@robustbench", "test")
    package = folder.parent / "robustbench"
    (package / "helper_files").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "helper_files" / "imagenet_test_image_ids.txt").write_text(lines)
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delitem(sys.modules, "robustbench", raising=False)
    assert load_dataset(f"{folder}@robustbench", "test").sample_ids.tolist() == [25, 1]
    (folder / "few.txt").write_text(f"{lines}a/none.png")
    with pytest.raises(DataError, match=r"lists 3 images, of which 1 are not in .*such as a/none\.png"):
        load_dataset(f"{folder}@few.txt", "test")
    (folder / "few.txt").write_text("\n")
    with pytest.raises(DataError, match=r"few\.txt lists no images"):
        load_dataset(f"{folder}@few.txt", "test")


def test_a_validation_folder_is_a_test_split(folder: Path, tars: Path) -> None:
    root = folder.parent / "root"
    root.mkdir()
    folder.rename(root / "val")
    assert len(load_dataset(root, "test", stream=True)) == COUNT
    (root / "train" / "d").mkdir(parents=True)
    with pytest.raises(DataError, match=r"val/a has no class of that name in .*train"):
        load_dataset(root, "test", stream=True)
    for wrong in (f"{tars}/test/0.tar@few.txt", "hf:owner/name@robustbench@6-4", "./nowhere@few.txt"):
        with pytest.raises(DataError, match=r"@(few\.txt|robustbench) lists files of a folder, and .* is none"):
            load_dataset(wrong, "test")
    with pytest.raises(DataError, match=r"holds tars, and @few\.txt lists files"):
        load_dataset(f"{tars}@few.txt", "test")
    (root / "val" / "a").rename(tars / "test" / "a")
    with pytest.raises(DataError, match=r"test holds tars and images in a/; move one kind"):
        load_dataset(tars, "test")


def member(name: str, content: bytes = b"", **fields: object) -> Callable[[tarfile.TarFile], None]:
    def add(tar: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        for key, value in fields.items():
            setattr(info, key, value)
        tar.addfile(info, io.BytesIO(content))

    return add


BAD = {
    "a link": (member("0.png", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "'0.png' is a link or no plain file"),
    "a hard link": (member("0.png", type=tarfile.LNKTYPE, linkname="1.png"), "is a link or no plain file"),
    "a device": (member("0.png", type=tarfile.CHRTYPE), "is a link or no plain file"),
    "no class": (member("a/0.png", b"x"), "'a/0' needs a .cls with the number of its class, .*; it has no such file"),
    "a long header": (member("0.png", pax_headers={"comment": "x" * (2 << 20)}), "a header of 2.* bytes is too long"),
    "nothing": (lambda _: None, "holds no images"),
}


@pytest.mark.parametrize(("add", "reason"), BAD.values(), ids=BAD)
def test_what_a_tar_may_not_hold(add: Callable[[tarfile.TarFile], None], reason: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar", "w") as tar:
        add(tar)
    with pytest.raises(DataError, match=rf"bad\.tar .*{reason}.*; write it again as an uncompressed tar"):
        load_dataset(tmp_path / "bad.tar", "test")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"0.cls": b"9" * 20}, "'/0' needs a .cls .*of at most 18 digits; it has 999"),
        ({"0.cls": b"9" * 19}, "'/0' needs a .cls .*of at most 18 digits; it has 999"),
        ({"0.cls": b"0" * 20 + b"7"}, "'/0' needs a .cls .*of at most 18 digits; it has 000"),
        ({"0.cls": b"0" + b" " * 30 + b"7"}, "'/0' needs a .cls .*of at most 18 digits; it has 0 "),
        ({"0.jpg": b"x"}, "'0.jpg' is the second image of its key"),
        ({"0.JPEG": b"x"}, "'0.JPEG' is the second image of its key"),
        ({"1.0.png": b"x", "1.cls": b"0"}, "'/1.0' needs a .cls .*; it has no such file"),
        ({"1.webp": b"x", "1.cls": b"0"}, "'/1' has a .cls, and no .jpg or .png"),
    ],
)
def test_no_image_or_label_of_a_tar_is_lost_silently(more: dict[str, bytes], reason: str, tmp_path: Path) -> None:
    files = {"0.png": png(np.zeros((4, 4), np.uint8)), "0.cls": b"0"}
    with pytest.raises(DataError, match=rf"bad\.tar .*{reason}.*; write it again as an uncompressed tar"):
        load_dataset(write_tar(tmp_path / "bad.tar", files | more), "test")


def test_keys_of_a_tar_may_hold_dots(tmp_path: Path) -> None:
    files: dict[str, bytes] = {}
    for shade, key in enumerate(("x", "x.1", "v1.0/y")):
        files |= {f"{key}.png": png(np.full((4, 4), shade, np.uint8)), f"{key}.cls": b"%d" % shade}
    data = load_dataset(
        write_tar(tmp_path / "a.tar", files | {"x.mask.png": b"x", "x.b.cls": b"7", "._x.png": b"x"}), "test"
    )
    assert data.labels.tolist() == data.images[:, 0, 0, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize("twice", ["0.png", "0.cls"])
def test_a_repeated_key_of_a_tar_is_refused(twice: str, tmp_path: Path) -> None:
    files = {"0.png": png(np.zeros((4, 4), np.uint8)), "0.cls": b"0"}
    path = write_tar(tmp_path / "bad.tar", files)
    with tarfile.open(path, "a") as tar:
        member(twice, files[twice])(tar)
    with pytest.raises(DataError, match=rf"bad\.tar .*'{twice}' is the second (image|label) of its key"):
        load_dataset(path, "test")


def test_damaged_tars_are_named(tars: Path, tmp_path: Path) -> None:
    good = (tars / "test/0.tar").read_bytes()
    path = tmp_path / "bad.tar"
    cuts = [good[:cut] for cut in (0, 100, 512, 600, 1500, 2049)]
    backwards = bytearray(good)
    backwards[124:136] = b"\xff" * 11 + b"\x00"  # a negative size
    backwards[148:156] = b"%06o\0 " % (sum(backwards[:148]) + sum(backwards[156:512]) + 8 * 32)
    letters = good.replace(b"0\n", b"x\n", 1)
    for content in (*cuts, bytes(backwards), letters):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"bad\.tar"):
            load_dataset(path, "test")
    with tarfile.open(tars / "test/0.tar") as tar:
        between = tar.getmembers()[6].offset  # two keys, of three members each
    lost = good[:between] + bytes(1024) + good[between + 1024 :]
    for content in (good[:between], lost, good + good, good + bytes(2 << 20)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"bad\.tar .*does not end with zeros as every tar does"):
            load_dataset(path, "test")
    for name in ("bad.tar.gz", "missing.tar"):
        with pytest.raises(DataError, match=rf"{name}.*write it again as an uncompressed tar"):
            load_dataset(tmp_path / name, "test")


def test_a_damaged_image_in_a_tar_is_found_by_its_offset(images: np.ndarray, tmp_path: Path) -> None:
    files = samples(images, range(2))
    files["val/0001.png"] = files["val/0001.png"][:-30]
    write_tar(tmp_path / "bad.tar", files)
    with pytest.raises(DataError, match=r"bad\.tar \(its image at byte \d+\) is damaged"):
        load_dataset(tmp_path / "bad.tar", "test")


def test_a_path_that_leads_out_of_a_tar_is_only_a_name(images: np.ndarray, tmp_path: Path) -> None:
    files = {f"../../{name}": content for name, content in samples(images, range(3)).items()}
    assert len(load_dataset(write_tar(tmp_path / "in/odd.tar", files), "test")) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
