"""The examples run, and show what they say they show."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.soak
def test_the_walk_ends_with_four_pictures_and_a_verdict_on_each_model(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "examples" / "walkthrough.py"), "--out", str(tmp_path), "--quick"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    pictures = sorted(tmp_path.glob("*.svg"))
    assert [path.stem for path in pictures] == ["1-centers", "2-features", "3-attacks", "4-worst-case"]
    for path in pictures:
        assert len(list(ElementTree.parse(path).iter())) > 50, "a picture with something in it"
    assert "every cosine is -0.1111" in done.stdout
    for model in ("SCE", "MMC", "AT (MMC)"):
        assert f"{model}: Robust accuracy" in done.stdout
