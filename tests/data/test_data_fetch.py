"""Downloads from a local server that works, lies, or breaks off."""

import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from maxmahal.data import DownloadReporter, fetch_dataset
from maxmahal.data.fetch import fetch_source
from maxmahal.data.registry import SOURCES
from maxmahal.data.source import DatasetSource, Download, OfficialFile
from maxmahal.errors import DataError
from maxmahal.files import StorageError

CONTENT = bytes(range(256)) * 1000
MEMBERS = {"set/one": b"first" * 999, "set/two": b"second" * 999}


@dataclass
class Answers:
    """What the server says to the next requests for each path; the last answer repeats."""

    url: str = ""
    bodies: dict[str, list[tuple[bytes, int]]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def serve(self, name: str, *bodies: bytes | tuple[bytes, int]) -> None:
        self.bodies[f"/{name}"] = [body if isinstance(body, tuple) else (body, len(body)) for body in bodies]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.requests.append(self.path)
            queue = answers.bodies.get(self.path)
            if not queue:
                self.send_error(404)
                return
            body, promised = queue.pop(0) if len(queue) > 1 else queue[0]
            self.send_response(200)
            self.send_header("Content-Length", str(promised))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    answers.url = f"http://127.0.0.1:{httpd.server_port}"
    yield answers
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def checksum(content: bytes) -> str:
    return md5(content).hexdigest()


def never_loaded(*_: object) -> None:
    raise NotImplementedError


def plain_source(url: str) -> DatasetSource:
    """Two plain files."""
    downloads = tuple(
        Download(name, checksum(CONTENT), (OfficialFile((f"toy/{name}",), checksum(CONTENT)),)) for name in ("a", "b")
    )
    return DatasetSource(load=never_loaded, class_counts={}, base_url=url, downloads=downloads)


def tar(members: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.type, info.size = kind, len(content) if kind == tarfile.REGTYPE else 0
            info.linkname = "/etc/passwd"
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def archive_source(url: str, archive: bytes) -> DatasetSource:
    files = tuple(OfficialFile((name,), checksum(content)) for name, content in MEMBERS.items())
    downloads = (Download("set.tar.gz", checksum(archive), files),)
    return DatasetSource(load=never_loaded, class_counts={}, base_url=url, downloads=downloads)


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_are_fetched_once(server: Answers, tmp_path: Path) -> None:
    server.serve("a", CONTENT)
    server.serve("b", CONTENT)
    source = plain_source(server.url)
    assert fetch_source("toy", source, tmp_path) == (tmp_path / "toy/a", tmp_path / "toy/b")
    assert files_in(tmp_path) == {"toy/a": CONTENT, "toy/b": CONTENT}
    assert (tmp_path / "toy/a").stat().st_mode & 0o044  # readable by others, as the umask says
    assert fetch_source("toy", source, tmp_path) == ()
    assert server.requests == ["/a", "/b"]


def test_only_the_wrong_file_is_fetched_again(server: Answers, tmp_path: Path) -> None:
    server.serve("b", CONTENT)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/a").write_bytes(CONTENT)
    (tmp_path / "toy/b").write_bytes(b"old")
    assert fetch_source("toy", plain_source(server.url), tmp_path) == (tmp_path / "toy/b",)
    assert (tmp_path / "toy/b").read_bytes() == CONTENT


def test_another_address_can_be_given(server: Answers, tmp_path: Path) -> None:
    server.serve("mirror/a", CONTENT)
    server.serve("mirror/b", CONTENT)
    fetch_source("toy", plain_source("http://127.0.0.1:1/"), tmp_path, base_url=f"{server.url}/mirror/")
    assert server.requests == ["/mirror/a", "/mirror/b"]


HALF = (CONTENT[: len(CONTENT) // 2], len(CONTENT))


def test_a_download_that_breaks_off_leaves_nothing_new(server: Answers, tmp_path: Path) -> None:
    server.serve("a", HALF)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy/a").write_bytes(b"what was there before")
    with pytest.raises(
        DataError, match=rf"Cannot fetch toy: {server.url}/a broke off.*put it, b into {tmp_path}/toy yourself\.$"
    ):
        fetch_source("toy", plain_source(server.url), tmp_path)
    assert files_in(tmp_path) == {"toy/a": b"what was there before"}


def test_a_wrong_file_is_refused(server: Answers, tmp_path: Path) -> None:
    server.serve("a", b"<html>please log in</html>")
    with pytest.raises(DataError, match=r"/a gave a wrong file \(its md5 is"):
        fetch_source("toy", plain_source(server.url), tmp_path)
    assert files_in(tmp_path) == {}


@pytest.mark.parametrize("first", [HALF, b"wrong"])
def test_one_bad_answer_is_forgiven(server: Answers, tmp_path: Path, first: bytes | tuple[bytes, int]) -> None:
    server.serve("a", first, CONTENT)
    server.serve("b", CONTENT)
    fetch_source("toy", plain_source(server.url), tmp_path)
    assert server.requests == ["/a", "/a", "/b"]
    assert files_in(tmp_path) == {"toy/a": CONTENT, "toy/b": CONTENT}


def test_a_later_fetch_finishes_what_an_earlier_one_began(server: Answers, tmp_path: Path) -> None:
    server.serve("a", CONTENT)
    source = plain_source(server.url)
    with pytest.raises(DataError, match="/b answered 404 Not Found"):
        fetch_source("toy", source, tmp_path)
    assert files_in(tmp_path) == {"toy/a": CONTENT}
    server.serve("b", CONTENT)
    assert fetch_source("toy", source, tmp_path) == (tmp_path / "toy/b",)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10", "cifar100"])
def test_offline_every_address_and_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.chdir(tmp_path)
    folder = Path("data")  # short, since long messages are cut
    with pytest.raises(DataError, match=f"Cannot fetch {name}: .* cannot be reached") as caught:
        fetch_dataset(name, folder, base_url="http://127.0.0.1:9")
    for download in SOURCES[name].downloads:
        assert download.name in str(caught.value)
        place = folder if download.is_archive else (folder / download.files[0].places[0]).parent
        assert f"into {place} yourself" in str(caught.value)
    assert files_in(tmp_path) == {}


def test_an_archive_is_unpacked_verified_and_removed(server: Answers, tmp_path: Path) -> None:
    archive = tar({"set/readme": b"unasked", **MEMBERS, "../outside": b"evil", "/tmp/absolute": b"evil"})
    server.serve("set.tar.gz", archive)
    source = archive_source(server.url, archive)
    (tmp_path / "data").mkdir()
    assert len(fetch_source("toy", source, tmp_path / "data")) == 2
    assert files_in(tmp_path) == {f"data/{name}": content for name, content in MEMBERS.items()}
    assert fetch_source("toy", source, tmp_path / "data") == ()
    assert len(server.requests) == 1


def test_an_archive_put_there_by_hand_is_used_and_kept(tmp_path: Path) -> None:
    archive = tar(MEMBERS)
    (tmp_path / "set.tar.gz").write_bytes(archive)
    fetch_source("toy", archive_source("http://127.0.0.1:9", archive), tmp_path)
    assert files_in(tmp_path) == {"set.tar.gz": archive, **MEMBERS}


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (tar({"set/one": MEMBERS["set/one"]}), "holds no file set/two"),
        (tar({**MEMBERS, "set/two": b"other"}), "set/two in the archive is not the official file"),
        (tar(MEMBERS, tarfile.SYMTYPE), "holds no file set/one"),
        (tar(MEMBERS)[:-40], "cannot be unpacked"),
        (b"no archive at all", "cannot be unpacked"),
    ],
)
def test_bad_archives_leave_no_archive_and_no_wrong_file(
    server: Answers, tmp_path: Path, archive: bytes, reason: str
) -> None:
    server.serve("set.tar.gz", archive)
    with pytest.raises(DataError, match=reason):
        fetch_source("toy", archive_source(server.url, archive), tmp_path)
    assert set(files_in(tmp_path).items()) <= set(MEMBERS.items())


def test_a_broken_archive_download_leaves_nothing(server: Answers, tmp_path: Path) -> None:
    archive = tar(MEMBERS)
    server.serve("set.tar.gz", (archive[:100], len(archive)))
    with pytest.raises(DataError, match="broke off"):
        fetch_source("toy", archive_source(server.url, archive), tmp_path)
    assert files_in(tmp_path) == {}


class Recorder:
    def __init__(self) -> None:
        self.total = 0
        self.seen = 0
        self.closed = 0

    def update(self, count: int) -> None:
        self.seen += count

    def reset(self) -> None:
        self.seen = 0

    def close(self) -> None:
        self.closed += 1


def test_progress_is_passed_on(server: Answers, tmp_path: Path) -> None:
    server.serve("a", CONTENT)
    server.serve("b", CONTENT)
    recorder = Recorder()
    assert isinstance(recorder, DownloadReporter)
    fetch_source("toy", plain_source(server.url), tmp_path, progress=recorder)
    assert (recorder.total, recorder.seen, recorder.closed) == (len(CONTENT), len(CONTENT), 2)


def test_a_folder_that_cannot_be_written_is_a_storage_error(server: Answers, tmp_path: Path) -> None:
    server.serve("a", CONTENT)
    (tmp_path / "toy").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="Cannot write"):
        fetch_source("toy", plain_source(server.url), tmp_path)


def test_digits_need_nothing_and_own_data_cannot_be_fetched(tmp_path: Path) -> None:
    assert fetch_dataset("digits", tmp_path) == ()
    with pytest.raises(DataError, match=r"mine\.npz is your own data"):
        fetch_dataset("mine.npz", tmp_path)
    with pytest.raises(DataError, match="did you mean 'cifar100'"):
        fetch_dataset("cifar1000", tmp_path)
