"""The verdicts that pages show are what the library says of such a result today."""

import re
from typing import Any

import pytest
from blocks import ROOT, blocks
from small_evaluations_helpers import made_up, stage_records

from maxmahal.evaluate import give_verdict
from maxmahal.records import Finding

CALM = Finding("randomness", "", False, "", "", ())
BAD = Finding("zero-gradients", "", True, "", "", ("scale-free",))


@pytest.mark.parametrize(
    ("page", "robust", "samples", "finding", "epsilon"),
    [("README.md", 18, 40, CALM, "8/255"), ("docs/index.md", 1, 500, BAD, "0.15")],
)
def test_a_page_shows_the_verdict_of_such_a_result(
    page: str, robust: int, samples: int, finding: Finding, epsilon: str
) -> None:
    remedies: list[Any] = [
        stage_records(f"remedy-{name}", [1.0] * samples, settings={"remedy": name}) for name in finding.adds
    ]
    attack = stage_records("apgd", [1.0] * robust + [0.0] * (samples - robust))
    stages = (stage_records("clean", [1.0] * samples, kind="clean", threat=""), attack, *remedies)
    made = made_up(*stages, suite="strict", epsilon=epsilon, findings=(finding,))
    texts = [block.text for block in blocks((ROOT / page).read_text(encoding="utf-8")) if block.language == "text"]
    (shown,) = (text for text in texts if "Robust accuracy" in text)
    assert give_verdict(made).sentence in re.sub(r"\s+", " ", shown)
