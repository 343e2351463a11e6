"""Evaluations that something disturbs, compared with one that nothing disturbed."""

from dataclasses import dataclass
from pathlib import Path

from test_evaluate_kill import rows

from processes import COMMAND_LINE, Ended, Started, run


@dataclass(frozen=True)
class Evaluations:
    """Evaluations of the same model under the same suite, each in a folder of its own."""

    folder: Path
    undisturbed: dict[str, list[tuple[object, ...]]]

    def words(self, out: Path) -> list[str]:
        target, suite = f"model={self.folder / 'model'}", str(self.folder / "suite.toml")
        return ["evaluate", target, "--suite", suite, "--out", str(out), "--limit", "120"]

    def start(self, out: Path, before: str = "") -> Started:
        return Started(before + COMMAND_LINE, *self.words(out))

    def run(self, out: Path, before: str = "") -> Ended:
        return run(before + COMMAND_LINE, *self.words(out))

    def assert_ends_as_if_undisturbed(self, out: Path) -> None:
        """The same command, once more, leaves the records of an evaluation that nothing disturbed."""
        done = self.run(out)
        assert done.returncode == 0, done.stderr
        found = rows(out)
        for table, expected in self.undisturbed.items():
            assert found[table] == expected, table


def assert_one_sentence(done: Ended, *parts: str) -> None:
    """How a fault must end that the user can do something about."""
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("maxmahal: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr
