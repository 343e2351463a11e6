"""Inputs that once ended in a traceback, a hang or gigabytes, and things that are no file, by their names."""

import gzip
import io
import json
import os
import pickle
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Content = bytes | Callable[[Path], object]
"""The content of a file, or a function that makes or changes the file at a path."""
ZEROS = bytes(2**24)
DEEP, DIGITS = "[" * 100_000, "9" * 10_000


def link_to(target: str) -> Callable[[Path], object]:
    """A link instead of the file."""
    return lambda path: (path.unlink(), path.symlink_to(target))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _sparse(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate(3 * 2**29)


NO_FILES: dict[str, Content] = {
    "pipe": _pipe, "folder": _folder, "nothing": Path.unlink, "empty": b"",
    "link to itself": lambda path: link_to(path.name)(path), "link to zeros": link_to("/dev/zero"),
    "1.5 GB of zeros": _sparse, "null bytes": b"\0" * 1000, "spaces": b" " * 10**6, "byte order mark": b"\xef\xbb\xbf",
    "not UTF-8": b"\xff\xfe\xfa",
}  # fmt: skip
JSON = NO_FILES | {
    "deep list": (DEEP + "]" * 100_000).encode(), "open list": DEEP.encode(), "digits": DIGITS.encode(),
    "deep objects": b'{"a":' * 100_000, "infinity": b"[Infinity, NaN]", "text": b'"\\ud800"', "null": b"null",
}  # fmt: skip
TOML = NO_FILES | {
    "deep list": f"a = {DEEP}".encode(), "closed deep list": f"a = {DEEP}{']' * 100_000}".encode(),
    "digits": f"a = {DIGITS}".encode(), "deep table": b"a = " + b"{a=" * 5000, "long key": b"a." * 20_000 + b"a = 1",
    "deep header": b"[" + b"a." * 20_000 + b"a]", "key with escapes": b'"\\u001b[31m" = 1',
    "long name": b"x" * 9000 + b" = 1", "long text": b"about = '" + b"x" * 10**6 + b"'", "date": b"about = 9999-99-99",
    "circle": b"extends = 'in.toml'\ninclude = ['small.toml', 'grid.toml']", "nobody": b"extends = '~nobody/x.toml'",
    "null in a path": b'extends = "a\\u0000b.toml"', "format": b"format = 'x\\u001b'",
}  # fmt: skip
GRIDS = TOML | {
    "many seeds": b"model = [{name = 'a', preset = 'digits-mmc', seeds = 2000000000}]",
    "outside": b"model = [{name = '../../x', preset = 'digits-mmc'}]",
    "null in a name": b'model = [{name = "a\\u0000b", preset = "digits-mmc"}]',
    "long name of a preset": f"model = [{{name = 'a', preset = '{'x' * 300}'}}]".encode(),
    "includes itself many times": b"include = ['grid.toml', 'grid.toml', 'grid.toml']",
}  # fmt: skip
LINES = NO_FILES | {
    "torn": b'{"epoch": 1, "train_sec', "deep": DEEP.encode(), "digits": f'{{"epoch": {DIGITS}}}'.encode(),
    "list": b"[]", "null": b"null", "zero": b'{"epoch": 0, "train_seconds": 1}',
    "text": b'{"epoch": "1", "train_seconds": "x"}', "infinite": b'{"epoch": 1, "train_seconds": Infinity}',
}  # fmt: skip
OPTIONS: dict[str, Content] = {
    name: text.encode(errors="surrogatepass") for name, text in {
        "deep list": f"train.lr={DEEP}", "deep table": "a=" + "{a=" * 5000, "digits": f"train.lr={DIGITS}",
        "digits alone": DIGITS, "fraction": f"1/{DIGITS}", "exponent": "1e999999999", "huge rate": "train.lr=1e300",
        "long key": "a." * 5000 + "a=1", "null": "train.lr=\0", "surrogate": "\ud800=\ud800",
        "nobody": "~nobody/x.toml", "nobody's data": "data.source=~nobody/x.npz", "nobody's folder": "~nobody/x",
        "null in a path": "a\0b.toml", "null in a data file": "a\0b.npz", "long name": "x" * 5000,
        "long path": "x/" * 5000, "escapes": "\x1b[31mred", "device": "/dev/zero", "surrogate path": "\ud800.toml",
        "many epochs": "train.epochs=1000000000000000000000", "wide": "model.feature_dim=1000000000",
        "minus": "train.seed=-1", "batch": "train.batch_size=1000000000000000000000", "digits in Arabic": "٣/٢٥٥",
        "long fraction": "1" * 5000 + "/3", "percent": "%(x)s", "two lines": "a\nb=1", "empty": "",
        "NaN": "train.lr=nan", "long list": "loss=" + "[1," * 2000,
    }.items()
}  # fmt: skip


def packed_tensors(metadata: object, header: object = None) -> bytes:
    """A safetensors file that holds one number."""
    tensors = {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}} if header is None else header
    text = json.dumps({"__metadata__": metadata, **tensors}).encode()  # type: ignore[dict-item]
    return struct.pack("<Q", len(text)) + text + b"\0" * 4


def checkpoint(model: str) -> bytes:
    return packed_tensors({"format": "maxmahal-checkpoint-1", "model": model})


def state(progress: str) -> bytes:
    return packed_tensors({"format": "maxmahal-state-1", "progress": progress})


CARD = '{"settings": %s, "image_shape": [1, 8, 8], "class_names": %s, "epoch": 1}'
CHECKPOINTS = NO_FILES | {
    "deep": checkpoint(DEEP), "digits": checkpoint(DIGITS), "list": checkpoint("[]"), "null": checkpoint("null"),
    "infinite shape": checkpoint('{"image_shape": [Infinity, 1, 1]}'), "shape": checkpoint('{"image_shape": 3}'),
    "epoch": checkpoint('{"settings": {}, "image_shape": [1, 8, 8], "class_names": [1], "epoch": "x"}'),
    "escapes": packed_tensors({"format": "\x1b[31m"}), "long format": packed_tensors({"format": "x" * 9000}),
    "wide": checkpoint(CARD % ('{"model": {"feature_dim": 1000000000}}', '["a"]')),
    "digits in a shape": checkpoint(f'{{"image_shape": [{"9" * 4000}, 1, 1]}}'),
    "surrogate": checkpoint(CARD % ("{}", '["\\ud800"]')),
    "huge header": struct.pack("<Q", 2**60) + b"{}", "deep header": struct.pack("<Q", 100_000) + DEEP.encode(),
    "pickle": pickle.dumps({"a": 1}),
    "huge shape": packed_tensors({}, {"x": {"dtype": "F32", "shape": [2**62, 9], "data_offsets": [0, 4]}}),
}  # fmt: skip
STATES = NO_FILES | {
    "deep": state(DEEP), "digits": state(DIGITS), "list": state("[]"),
    "deep settings": state(json.dumps({"settings": DEEP})), "infinite": state('{"epoch": Infinity, "settings": "{}"}'),
    "texts": state('{"epoch": "a", "settings": 5}'),
    "epochs": state(json.dumps({"epoch": 1, "settings": '{"train": {"epochs": Infinity}}'})),
    "table": state(json.dumps({"epoch": 1, "settings": '{"train": []}'})),
    "no settings": state(json.dumps({"epoch": 1, "settings": '{"train": {"epochs": 2}}', "threads": "x"})),
}  # fmt: skip


def npz(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def npy(shape: str, kind: str = "'|u1'", body: bytes = b"") -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + body


def bomb() -> bytes:
    """A few megabytes that unpack to more than a gigabyte, in an array that nobody asks for."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in ("images", "labels", "test_images", "test_labels"):
            archive.writestr(f"{name}.npy", npy("(1, 8, 8)" if "images" in name else "(1,)", body=b"\0" * 64))
        with archive.open("more.npy", "w", force_zip64=True) as member:
            member.write(npy(f"({len(ZEROS) * 80},)"))
            for _ in range(80):
                member.write(ZEROS)
    return out.getvalue()


SMALL, ZERO = npy("(1, 8, 8)", body=bytes(64)), npy("(1,)", body=bytes(1))
NPZ = NO_FILES | {
    "bomb": lambda path: path.write_bytes(bomb()), "array of 3 GB": npz(images=npy("(3, 32768, 32768)"), labels=SMALL),
    "objects": npz(images=npy("(1,)", "'|O'", pickle.dumps([1]))), "deep header": npz(images=npy("(" * 5000)),
    "digits": npz(images=npy(f"({DIGITS},)")), "header": npz(images=npy("__import__('os')")),
    "no labels": npz(images=SMALL, labels=npy("(0,)", "'<i8'")),
    "float labels": npz(images=SMALL, labels=npy("(1,)", "'<f8'", bytes(8))),
    "label": npz(images=SMALL, labels=npy("(1,)", "'<i8'", b"\xff" * 7 + b"\x7f")),
    "surrogate": npz(images=SMALL, labels=ZERO, class_names=npy("(1,)", "'<U1'", b"\0\xd8\0\0")),
    "no character": npz(images=SMALL, labels=ZERO, class_names=npy("(1,)", "'<U1'", b"\xff\xff\xff\x7f")),
    "escapes": npz(**{"\x1b[31m": SMALL}), "names": npz(**{f"a{number}": SMALL for number in range(2000)}),
}  # fmt: skip


def collision() -> bytes:
    """A dictionary of 50,000 whole numbers with one hash."""
    numbers = ((2**61 - 1) * (number + 1) for number in range(50_000))
    return b"\x80\x02}(" + b"".join(b"\x8a\x0a" + each.to_bytes(10, "little") + b"N" for each in numbers) + b"u."


PICKLES = NO_FILES | {
    "nested tuples": b"\x80\x02)" + b"\x85" * 200_000 + b".", "nested key": b"\x80\x02})" + b"\x85" * 200_000 + b"Ns.",
    "claims 4 GB": b"\x80\x02B\xff\xff\xff\xff....", "claims 2 GB of text": b"\x80\x02X\xff\xff\xff\x7f.",
    "frame": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f.", "array of 3 GB": b"\x80\x02cnumpy\nzeros\n(J\0\0\0\x7ftR.",
    "bytearray": b"\x80\x05\x96" + struct.pack("<Q", 3 * 2**30) + b".",
    "same hash": collision(), "system": b"cos\nsystem\n(S'touch executed'\ntR.",
    "digits": b"I" + b"9" * 100_000 + b"\n.", "long": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "memo": b"\x80\x02Nr\xff\xff\xff\x7f.", "list of itself": b"]q\0h\0a.", "extension": b"\x80\x02\x82\x01.",
    "doubling": b"\x80\x02" + b"(" + b"lq\0" + b"(h\0h\0tq\0" * 60 + b".",
    "deep lists": b"(l" * 100_000 + b"a" * 99_999 + b".", "names": b"\x80\x02}X\x0b\0\0\0label_names](K\1K\2es.",
}  # fmt: skip


def _gzip_bomb(path: Path) -> None:
    """A megabyte that unpacks to more than a gigabyte: one block many times, without the checksum at the end."""
    packer = zlib.compressobj(wbits=31)
    start = packer.compress(struct.pack(">BBBB3I", 0, 0, 8, 3, 80 * len(ZEROS) // 784, 28, 28))
    start += packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(start + (packer.compress(ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)) * 80)


GZIP = NO_FILES | {
    "bomb": _gzip_bomb, "many members": gzip.compress(b"\0") * 50_000,
    "huge": gzip.compress(struct.pack(">BBBB3I", 0, 0, 8, 3, *[2**32 - 1] * 3)),
    "empty images": gzip.compress(struct.pack(">BBBB3I", 0, 0, 8, 3, 0, 28, 28)),
    "flags": b"\x1f\x8b\x08\xff" + bytes(100),
}  # fmt: skip


def _script(statements: str) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(statements)

    return change


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
STAGE = "x AS evaluation, x AS position, 'a' AS name, '{}' AS body, '' AS skipped, 1 AS planned, 1 AS chunks"
RECORDS = NO_FILES | {
    name: _script(statements) for name, statements in {
        "empty body": "UPDATE stages SET body = '{}'", "list as body": "UPDATE evaluations SET body = '[]'",
        "null body": "UPDATE evaluations SET body = 'null'", "deep body": f"UPDATE stages SET body = '{DEEP}'",
        "digits": f"UPDATE stages SET body = '{DIGITS}'", "blob": "UPDATE records SET label = x'00'",
        "text": "UPDATE records SET label = 'x' WHERE stage = 0", "plane": "UPDATE evaluations SET plane = x'504b0304'",
        "plane of text": "UPDATE evaluations SET plane = 'x'", "picture": "UPDATE pictures SET clean = x'00'",
        "shape": "UPDATE pictures SET shape = '[4000000000, 4000000000, 3]'",
        "no shape": "UPDATE pictures SET shape = '{}'", "findings": "UPDATE findings SET body = '{}'",
        "no stages": "DELETE FROM stages", "infinite": "UPDATE records SET right_share = 9e999",
        "device": "UPDATE chunks SET device = x'00'",
        "endless view": f"DROP TABLE stages; CREATE VIEW stages AS {ENDLESS} SELECT {STAGE} FROM n",
        "endless format": f"DROP TABLE about;CREATE VIEW about AS {ENDLESS} SELECT 'x' AS key, x AS value FROM n",
        "trigger": "CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END",
        "format": "UPDATE about SET value = char(27) || '[31m'",
        "surrogate": "UPDATE evaluations SET name = CAST(x'eda080' AS TEXT)",
        "escapes": "UPDATE evaluations SET name = char(27) || '[31m'",
        "two labels": "UPDATE records SET label = sample % 7", "formula": "UPDATE evaluations SET name = '=1+1'",
        "radius": "UPDATE evaluations SET body = json_set(body, '$.radius', 'x')",
        "classes": "UPDATE evaluations SET body = json_set(body, '$.class_names', 5)",
        "training": "UPDATE evaluations SET body = json_set(body, '$.training', json('[[1]]'))",
        "no columns": "ALTER TABLE records DROP COLUMN queries",
    }.items()
}  # fmt: skip


CONTINUED = {
    name: RECORDS[name] for name in ("empty body", "list as body", "endless view", "findings", "plane", "device")
}


def _png(width: int, height: int, mode: int = 0, depth: int = 8) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, depth, mode, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"x\x9c\x03\0\0\0\0\1") + chunk(b"IEND", b"")


IMAGES = NO_FILES | {
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n",
    "huge": _png(2**31 - 1, 2**31 - 1), "large": _png(13_000, 13_000), "none": _png(0, 0), "16 bits": _png(8, 8, 0, 16),
    "depth": _png(8, 8, 2, 1), "cut": _png(8, 8)[:40], "palette without one": _png(8, 8, 3),
}  # fmt: skip


def _tar(kind: bytes, size: bytes, name: bytes = b"a/0.png", link: bytes = b"") -> bytes:
    """One header; its numbers are octal."""
    fields = name.ljust(100, b"\0") + b"0000644\0" * 3 + size.rjust(11, b"0") + b"\0" + b"0" * 11 + b"\0"
    rest = kind + link.ljust(100, b"\0") + b"ustar\x0000"
    whole = (fields + b" " * 8 + rest).ljust(512, b"\0")
    return whole[:148] + b"%06o\0 " % sum(whole) + whole[156:]


def _long_header(kind: bytes) -> Callable[[Path], object]:
    """A header of 1.5 GB, of which no block is stored."""
    return lambda path: (path.write_bytes(_tar(kind, b"13600000000")), _sparse(path))


TARS = NO_FILES | {
    "long comment": _long_header(b"x"), "long name": _long_header(b"L"), "global header": _long_header(b"g"),
    "sparse": _tar(b"S", b"1000"), "link": _tar(b"2", b"0", link=b"/etc/passwd"), "outside": _tar(b"0", b"77777777777"),
    "many comments": _tar(b"x", b"0") * 5000, "backwards": _tar(b"0", b"\xff" * 11),
    "name": _tar(b"0", b"0", b"\xff" * 99), "many folders": _tar(b"5", b"0", b"a/") * 20_000,
    "packed": gzip.compress(_tar(b"0", b"0")),
}  # fmt: skip
