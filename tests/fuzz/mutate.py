"""Changes of valid files: bytes of any format, values of JSON and TOML, and the parts of each format that we read.

Every change is drawn from a generator that the caller seeds, so that each input can be made again.
"""

import gzip
import io
import json
import math
import pickle
import sqlite3
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any

import numpy as np
from PIL import Image

Mutator = Callable[[Random, bytes], bytes]
TEXTS = [
    "", "evilmod:make", "shutil:rmtree", "os:system", "../../x", "/dev/zero", "~nobody/x", "a\0b", "\x1b[31mred",
    "\ud800", "=1+1", "line\nline", "\u202e", "x" * 5000, "1e999", "NaN", "digits", "x.npz", "nul.toml", ".", "{",
    "%s", "1/0", "mmc", "train.epochs=1", "@digits@", "@deep@",
]  # fmt: skip
# Written instead of a text: no Python value can be dumped as these.
RAW = {'"@digits@"': "9" * 5000, '"@deep@"': "[" * 3000 + "]" * 3000}
NUMBERS = [0, 1, -1, 2, 3, 255, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 0.5, 1e300, -1e300, 5e-324,
           math.nan, math.inf, -math.inf]  # fmt: skip
OTHERS: list[Any] = [None, True, False, [], {}, [[]], {"name": 1}, [None], ["a", 1], [[[[[[1]]]]]]]
BYTES = [b"\0", b"\xff", b"\x7f", b"\x80", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0" * 8]


def change_value(random: Random, value: Any) -> Any:
    """One change somewhere in a tree of dictionaries and lists; a text that is JSON itself is changed inside."""
    if isinstance(value, dict | list) and value and random.random() < 0.9:
        return _change_item(random, value)
    if isinstance(value, str) and value[:2] in ('{"', "[{") and random.random() < 0.8:
        try:
            return change_json(random, value.encode()).decode()
        except (ValueError, RecursionError):  # an earlier change has left no JSON that Python reads
            return change_text(random, value.encode(errors="surrogatepass")).decode(errors="surrogatepass")
    if isinstance(value, int | float) and abs(value) < 1e15 and random.random() < 0.3:
        return random.choice([-value, value + 1, value * 1000, float(value), str(value)])
    return random.choice(random.choice([TEXTS, NUMBERS, OTHERS]))


def _change_item(random: Random, value: Any) -> Any:
    changed, kind = value.copy(), random.random()
    key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
    if kind < 0.1:
        del changed[key]
    elif kind < 0.2 and isinstance(value, dict):
        changed[random.choice(TEXTS)] = changed.pop(key)
    elif kind < 0.2:
        changed.insert(key, value[key])
    elif kind < 0.25:
        changed[key] = random.choice(list(value.values()) if isinstance(value, dict) else value)
    else:
        changed[key] = change_value(random, value[key])
    return changed


def change_bytes(random: Random, data: bytes) -> bytes:
    """A few times: flip, overwrite, insert, delete, repeat, copy or cut."""
    for _ in range(random.choice([1, 1, 1, 2, 8])):
        place, other = random.randrange(len(data) + 1), random.randrange(len(data) + 1)
        length = random.choice([1, 1, 4, 16, 300])
        part, rest = data[place : place + length], data[place + length :]
        flipped = bytes(byte ^ 1 << random.randrange(8) for byte in part)
        middle = [flipped, random.choice(BYTES), random.randbytes(length) + part, b"", part * 3]
        middle += [data[other : other + length] + part]
        data = data[:place] + random.choice(middle) + rest if random.random() < 0.85 else data[:place]
    return data


def also_bytes(mutate: Mutator) -> Mutator:
    """One change in eight knows nothing of the format."""
    return lambda random, data: (change_bytes if random.random() < 0.125 else mutate)(random, data)


def change_text(random: Random, data: bytes) -> bytes:
    """A text such as an option or a name."""
    text, new = data.decode(errors="surrogatepass"), random.choice([*TEXTS, *"/-_e.\n= ,٣[", "9" * 5000, "[" * 3000])
    place = random.randrange(len(text) + 1)
    text = new if random.random() < 0.3 else text[:place] + new + text[place + random.randrange(3) :]
    return text.encode(errors="surrogatepass")


def change_json(random: Random, data: bytes) -> bytes:
    """The values of a JSON text."""
    value = json.loads(data)
    for _ in range(random.choice([1, 1, 2])):
        value = change_value(random, value)
    return _with_raw(json.dumps(value))


def change_lines(random: Random, data: bytes) -> bytes:
    """One line of JSON of many, or the lines themselves."""
    lines = data.splitlines()
    place = random.randrange(len(lines))
    lines[place] = random.choice([b"", lines[place][: random.randrange(20)], change_json(random, lines[place])])
    return b"\n".join(lines) + random.choice([b"", b"\n", b"\n\n", b"\0"])


def change_toml(random: Random, data: bytes) -> bytes:
    """The values of a TOML text."""
    value = tomllib.loads(data.decode())
    for _ in range(random.choice([1, 1, 2])):
        value = change_value(random, value)
    if not isinstance(value, dict):
        value = {"value": value}
    lines = [f"{json.dumps(key)} = {to_toml(item)}" for key, item in value.items()]
    if random.random() < 0.1:
        lines.append(random.choice(lines or [""]))
    return _with_raw("\n".join(lines))


def to_toml(value: Any) -> str:
    """A value in one line, null as an empty text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {to_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    return '""' if value is None else str(value).lower() if isinstance(value, float) else json.dumps(value)


def _with_raw(text: str) -> bytes:
    for name, raw in RAW.items():
        text = text.replace(name, raw)
    return text.encode()


def change_safetensors(random: Random, data: bytes) -> bytes:
    """Header and metadata; most have no fingerprint, so that what follows its check is reached."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    if random.random() < 0.9:
        header["__metadata__"].pop("fingerprint", None)
    place = random.choice(["__metadata__", "__metadata__", "__metadata__", random.choice(list(header))])
    entry = random.choice(list(header[place]))
    header[place][entry] = change_value(random, header[place][entry])
    if place == "__metadata__" and not isinstance(header[place][entry], str):
        header[place][entry] = json.dumps(header[place][entry])
    changed = _with_raw(json.dumps(header))
    return struct.pack("<Q", len(changed)) + changed + data[8 + length :]


def change_npz(random: Random, data: bytes) -> bytes:
    """Members of the archive, their headers, and arrays of other types and shapes."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(list(members))
    kind = random.randrange(5)
    if kind == 0:
        members[random.choice(["class_names.npy", "../x.npy", "\0.npy", "images", "labels.npy"])] = members.pop(name)
    elif kind == 1:
        members[name] = _odd_array(random)
    elif kind == 2:
        members[name] = change_bytes(random, members[name])
    else:
        members[name] = _odd_header(random, members[name])
    method = random.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


def _odd_array(random: Random) -> bytes:
    kinds = ["u1", "i8", "f4", "f8", "f2", "c16", "M8[s]", "U3", "S3", "?", "V2", "u8", ">i4", "longdouble"]
    shapes = [(), (0,), (60,), (60, 8, 8), (60, 1, 8, 8), (60, 3, 3, 3), (0, 8, 8), (1, 1, 1, 1, 1), (60, 0)]
    array = np.zeros(random.choice(shapes), random.choice(kinds))
    if array.size and array.dtype.kind in "fuic":
        array[...] = random.choice([0, 1, 100, np.nan if array.dtype.kind in "fc" else 7])
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def _odd_header(random: Random, data: bytes) -> bytes:
    (length,) = struct.unpack("<H", data[8:10])
    shape = random.choice(["(99999999999,)", "(2**62, 9)", "(-1,)", "(60, 8, 8)", "(" * 400, "None", "(3000000000,)",
                           "(1, 65536, 65536)", "(True,)", "60", "(9" + "9" * 5000 + ",)"])  # fmt: skip
    kind = random.choice(["'|u1'", "'|O'", "'<i8'", "'|V999999999'", "[('a', '<i4')]", "'<U99'", "1", "None", "'<m8'"])
    text = f"{{'descr': {kind}, 'fortran_order': {random.choice(['False', 'True', '1'])}, 'shape': {shape}}}\n".encode()
    version = random.choice([b"\1\0", b"\2\0", b"\3\0", b"\xff\0"])
    size = struct.pack("<H" if version == b"\1\0" else "<I", random.choice([len(text), len(text), 2**16 - 1, 3]))
    return data[:6] + version + size + text + data[10 + length :]


def change_pickle(random: Random, data: bytes) -> bytes:
    """Values of the dictionary in every protocol, and opcodes put into it."""
    kind = random.random()
    if kind < 0.4:
        value = pickle.loads(data, encoding="bytes")
        for _ in range(random.choice([1, 2])):
            key = random.choice(list(value))
            value[key] = change_value(random, value[key] if isinstance(value[key], list) else 1)
        return pickle.dumps(value, random.randrange(6))
    opcodes = [b"N.", b"(", b")", b"t", b"l", b"d", b"}", b"]", b"0", b"1", b"2", b"R", b"b", b"a", b"e", b"s", b"u",
               b"cos\nsystem\n", b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 7 + b"\0", b"\x8a\xff", b"q\xff", b"h\xff",
               b"r\xff\xff\xff\xff", b"\x95" + b"\xff" * 8, b"B\xff\xff\xff\x7f", b"I" + b"9" * 5000 + b"\n", b"\x81",
               b"Pos\n", b"Q", b"\x97", b"\x98", b"C\xff", b"\x93", b"F1e999\n"]  # fmt: skip
    place = random.choice([2, len(data) - 1, random.randrange(len(data))])
    return data[:place] + b"".join(random.choices(opcodes, k=random.choice([1, 2, 5]))) + data[place:]


def change_idx(random: Random, data: bytes) -> bytes:
    """The header of the packed content, or the packing."""
    content = gzip.decompress(data)
    kind = random.randrange(3)
    if kind == 0:
        place = random.randrange(4)
        content = content[:place] + random.choice(BYTES) + content[place + random.choice([1, 4]) :]
    elif kind == 1:
        place = 4 + 4 * random.randrange(3)
        number = random.choice([0, 1, 27, 29, 2**31, 2**32 - 1])
        content = content[:place] + struct.pack(">I", number) + content[place + 4 :]
    else:
        content = change_bytes(random, content)
    packed = gzip.compress(content, random.choice([0, 6]))
    return random.choice([packed, packed, packed + b"x", packed * 2, packed[:-4], content])


def change_image(random: Random, data: bytes) -> bytes:
    """A chunk of a PNG with its checksum, or an image of another format, mode or size."""
    if random.random() < 0.3:
        image = Image.new(random.choice(["L", "1", "P", "LA", "RGB", "RGBA", "CMYK", "I;16", "I", "F"]), (8, 8))
        stream, kind = io.BytesIO(), random.choice(["PNG", "JPEG", "GIF", "BMP", "TIFF", "EPS", "WEBP", "PPM", "ICO"])
        try:
            image.resize(random.choice([(8, 8), (1, 1), (9, 8)])).save(stream, kind)
            return stream.getvalue()
        except (OSError, ValueError, KeyError):  # not every format has every mode
            return random.randbytes(64)
    chunks, place = [], 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunks.append([data[place + 4 : place + 8], data[place + 8 : place + 8 + length]])
        place += 12 + length
    names = [b"IHDR", b"IDAT", b"PLTE", b"tRNS", b"iCCP", b"zTXt", b"iTXt", b"eXIf", b"acTL", b"fcTL", b"fdAT", b"gAMA"]
    chunk = random.choice(chunks)
    if random.random() < 0.4:
        new = [random.choice(names), random.randbytes(random.choice([0, 4, 26]))]
        chunks.insert(random.randrange(len(chunks)), new)
    else:
        chunk[random.choice([0, 1, 1])] = change_bytes(random, chunk[1])[: 2**16]
    made = [struct.pack(">I", len(body)) + name[:4] + body + struct.pack(">I", zlib.crc32(name[:4] + body))
            for name, body in chunks]  # fmt: skip
    return data[:8] + b"".join(made)


def change_records(random: Random, data: bytes) -> bytes:
    """Rows and tables of a file of SQLite."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data[:18] + b"\1\1" + data[20:])  # the mode of its journal, which memory has not
        for _ in range(random.choice([1, 1, 2])):
            _change_rows(random, connection)
        connection.commit()
        changed = connection.serialize()
    return changed[:18] + b"\2\2" + changed[20:]


def _change_rows(random: Random, connection: sqlite3.Connection) -> None:
    connection.execute("DROP INDEX IF EXISTS identities")  # it would refuse a body that is not JSON
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    table = random.choice(tables)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    column = "body" if "body" in columns and random.random() < 0.5 else random.choice(columns)
    found = connection.execute(f"SELECT {column} FROM {table}").fetchall()
    value = change_value(random, random.choice(found)[0]) if found else 1
    if not isinstance(value, str | float | type(None)) or (isinstance(value, int) and abs(value) >= 2**63):
        value = random.choice([json.dumps(value, default=str), random.randbytes(9), 2**62])
    statement = random.choices(
        [
            f"UPDATE OR IGNORE {table} SET {column} = ?1",
            f"DELETE FROM {table} WHERE ?1 IS NOT 5",
            f"ALTER TABLE {table} RENAME TO away",
            f"ALTER TABLE {table} DROP COLUMN {column}",
        ],
        [12, 1, 1, 1],
    )[0]
    try:
        connection.execute(statement, (value,) if "?1" in statement else ())
    except (sqlite3.Error, UnicodeEncodeError):
        connection.execute(f"DELETE FROM {table}")
