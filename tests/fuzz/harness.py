"""One batch of inputs in a process of its own: what a reader may do with a file that it cannot trust.

It may return, or raise a ``MaxmahalError`` of one line. Everything else is a failure: another error, more than
the time or ``BYTES``, a started program, a module that the user did not name, a file outside of the folder.
"""

import contextlib
import faulthandler
import importlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from maxmahal.errors import MaxmahalError
from tests.fuzz.readers import Reader

BYTES = 2**30
LONGEST = 300
PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn")
REACHES_OUT = ("socket.connect", "socket.getaddrinfo", "urllib.Request", "ctypes.dlopen")
WRITES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate", "shutil.rmtree",
          "sqlite3.connect")  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """What went wrong with an input, and where in the library."""

    kind: str
    place: str
    message: str


class Watch:
    """Notes what the process does while an input is read, and the modules that are new afterwards."""

    def __init__(self, folder: Path, names_code: bool) -> None:
        self.folder, self.names_code = os.path.realpath(folder), names_code
        self.noted: list[Failure] | None = None
        self.peak = 0
        """The bytes that the last block took."""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.noted is None or self.names_code:
            return
        if event in PROGRAMS:
            self._note("starts a program", f"{event} {arguments[0]}")
        elif event in REACHES_OUT:
            self._note("reaches out", f"{event} {arguments!r}")
        elif event in WRITES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & 3):
            for path in arguments[:2] if event in ("os.rename", "os.link") else arguments[:1]:
                if isinstance(path, str | bytes | Path) and not self._is_inside(os.fsdecode(path)):
                    self._note("writes outside", f"{event} {path!r}")

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(path.removeprefix("file://").partition("?")[0])
        return real.startswith(self.folder) or real in ("/dev/null", "/dev/shm")

    def _note(self, kind: str, message: str) -> None:
        assert self.noted is not None
        noted, self.noted = self.noted, None
        noted.append(Failure(kind, place_of(traceback.extract_stack()), message[:200]))
        self.noted = noted

    @contextlib.contextmanager
    def watching(self) -> Iterator[list[Failure]]:
        """Failures that are seen from outside, filled as the block runs."""
        noted: list[Failure] = []
        before, packages = set(sys.modules), {name.partition(".")[0] for name in sys.modules}
        free = reset_peak()
        self.peak, self.noted = 0, noted
        try:
            yield noted
        finally:
            self.noted = None
            new = {name.partition(".")[0] for name in set(sys.modules) - before} - packages
            if new and not self.names_code:
                noted.append(Failure("imports a module", "", ", ".join(sorted(new))))
            self.peak = peak() - free
            if self.peak > BYTES:
                noted.append(Failure("takes memory", "", f"{self.peak >> 20} MiB"))


def place_of(frames: traceback.StackSummary) -> str:
    """The innermost line of the library."""
    inside = [each for each in frames if "/maxmahal/" in each.filename]
    return f"{inside[-1].filename.rpartition('/maxmahal/')[2]}:{inside[-1].lineno}" if inside else ""


def check_error(error: BaseException) -> Failure | None:
    """Whether this is how a reader may end."""
    place, text = place_of(traceback.extract_tb(error.__traceback__)), str(error)
    causes, cause = [], error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__  # type: ignore[assignment]
    if not isinstance(error, MaxmahalError):
        return Failure(type(error).__name__, place, ascii(text)[:200])
    if any(isinstance(each, MemoryError) for each in causes):
        return Failure("asks for too much memory", place, ascii(text)[:200])
    if len(text) > LONGEST:
        return Failure("long message", place, f"{len(text)} characters: {text[:150]!a}")
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in text):
        return Failure("control characters in a message", place, ascii(text)[:200])
    return None


def reset_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def limit_memory() -> None:
    """Twice what an input may take, so that the machine is safe, beyond what torch has reserved already."""
    reserved = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (reserved + 2 * BYTES, reserved + 2 * BYTES))


class Place:
    """The folder that a reader works in: fresh for each input, with one file changed."""

    def __init__(self, reader: Reader, examples: Path) -> None:
        self.reader, self.examples = reader, examples
        self.outside = Path(tempfile.mkdtemp(prefix="fuzz-"))
        self.folder = self.outside / "inside"

    def prepare(self, key: str, seed: int) -> None:
        """The files for an input: the name of one in the corpus, or a number."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        os.chdir(self.folder)
        for name in (*self.reader.beside, *self.reader.files):
            source, target = self.examples / name, self.folder / name
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        Path("evilmod.py").write_text("def make(*_): return None\n")
        random = Random(f"{seed} {key}")
        if key in self.reader.known:
            path, content = Path(next(iter(self.reader.files))), self.reader.known[key]
            path.write_bytes(content) if isinstance(content, bytes) else content(path)
        elif key.isdigit():
            name = random.choice(list(self.reader.files))
            Path(name).write_bytes(self.reader.files[name](random, Path(name).read_bytes()))


def read_inputs(reader: Reader, seed: int, keys: list[str], examples: Path) -> Iterator[list[Any]]:
    """Each input's name before it is read; then with its failures, its seconds and its bytes."""
    place = Place(reader, examples)
    os.environ["MAXMAHAL_ZOO"] = "zoo"
    watch = Watch(place.folder, reader.names_code)
    warnings.simplefilter("ignore")
    place.prepare("valid", seed)
    for read in reader.reads:
        with contextlib.suppress(MaxmahalError):
            read()  # imports what it needs
    limit_memory()
    for key in keys:
        yield [key]
        place.prepare(key, seed)
        found: list[Failure] = []
        started, most = time.perf_counter(), 0
        for read in reader.reads:
            faulthandler.dump_traceback_later(reader.seconds, exit=True)
            with watch.watching() as noted:
                try:
                    read()
                except BaseException as error:
                    if failure := check_error(error):
                        noted.append(failure)
            faulthandler.cancel_dump_traceback_later()
            found += noted
            most = max(most, watch.peak)
        if (left := [each.name for each in place.outside.iterdir()]) != ["inside"]:
            found.append(Failure("writes outside", "", str(left)))
        yield [key, [vars(each) for each in found], time.perf_counter() - started, most]
    os.chdir("/")
    shutil.rmtree(place.outside)


def main() -> None:
    """``python -c … TABLE READER SEED EXAMPLES``, the inputs' names on standard input; writes lines of JSON."""
    sys.dont_write_bytecode = True  # Python's own caches are not what a reader writes
    faulthandler.enable()
    table, name, seed, examples = sys.argv[1:]
    reader = importlib.import_module(table).READERS[name]
    out = os.fdopen(os.dup(1), "w")
    for line in read_inputs(reader, int(seed), json.loads(sys.stdin.readline()), Path(examples)):
        out.write(json.dumps(line) + "\n")
        out.flush()
