"""Processes of their own for tests that kill, limit or watch one, forked from a server that has imported torch already.

A fresh Python spends two to five seconds on importing what it needs; the tests that are about such a start have one.
"""

import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    ["maxmahal.cli", "maxmahal.train", "maxmahal.evaluate", "sklearn.datasets", "torch._dynamo", "tests.fuzz.readers"]
)
COMMAND_LINE = "from maxmahal.cli import main; main()"


class Started:
    """``python -c code arguments``: its streams as text, its end as subprocess tells it."""

    def __init__(self, code: str, *arguments: object, terminal: int | None = None, **environment: str) -> None:
        """``terminal`` is the end of a pseudo terminal that takes the place of standard output."""
        theirs_in, self.stdin = _pipe(ours_writes=True)
        theirs_out, self.stdout = _pipe(ours_writes=False)
        theirs_err, self.stderr = _pipe(ours_writes=False)
        if terminal is not None:
            theirs_out.close()
            theirs_out = Connection(os.dup(terminal))
        streams = theirs_in, theirs_out, theirs_err
        words = ["-c", *map(str, arguments)]
        environment = {**os.environ, **environment}  # the server has that of its own start
        self._process = SERVER.Process(target=_run, args=(code, words, environment, streams))
        self._process.start()
        for stream in streams:
            stream.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs, and minus the number of a signal that ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def communicate(self) -> tuple[str, str]:
        """Everything it still says until its end."""
        self.stdin.close()
        said = self.stdout.read(), self.stderr.read()
        self.stdout.close()
        self.stderr.close()
        self._process.join()
        return said


class Ended(NamedTuple):
    """What a process left, by the names that subprocess has for it."""

    returncode: int | None
    stdout: str
    stderr: str


def run(code: str, *arguments: object) -> Ended:
    """``python -c code arguments``, left alone until its end."""
    process = Started(code, *arguments)
    out, err = process.communicate()
    return Ended(process.returncode, out, err)


def _pipe(*, ours_writes: bool) -> tuple[Connection, Any]:
    reading, writing = os.pipe()
    if ours_writes:
        return Connection(reading, writable=False), os.fdopen(writing, "w", encoding="utf-8")
    return Connection(writing, readable=False), os.fdopen(reading, encoding="utf-8")


def _run(code: str, words: list[str], environment: dict[str, str], streams: tuple[Connection, ...]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background would have it ignored
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and so would nohup
    sys.argv = words
    sys.path.insert(0, "")
    os.environ.clear()
    os.environ.update(environment)
    exec(compile(code, "-c", "exec"), {"__name__": "__main__"})
