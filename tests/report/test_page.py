"""The report page without a browser: it shows the records' numbers, all of them, and nothing a name smuggles in."""

import base64
import hashlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from made_up import EVIL, columns, evaluation, everything, masked, not_begun, pictures, stage, unfinished, with_extras
from PIL import Image

from maxmahal.errors import ArgumentError
from maxmahal.records.types import Evaluation
from maxmahal.records.verdict import compare, first_broken, give_verdict, seed_spreads, stands
from maxmahal.report.chart import Axis, linear_ticks, log_ticks
from maxmahal.report.page import render_page, write_page
from maxmahal.report.sections.curves import survival
from maxmahal.report.sections.samples import amplify
from maxmahal.report.tables import PaperNumber, results_tables, to_csv
from maxmahal.report.templates import asset
from maxmahal.report.wording import percent
from maxmahal.version import __version__

Cell = tuple[str, str | None]


class Reader(HTMLParser):
    """Tables by their kind, headings, and every element that opens."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[list[Cell]]]] = {}
        self.opened: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._rows: list[list[Cell]] = []
        self._cell: Cell | None = None
        self._silent = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.opened.append((tag, given))
        self._silent = tag in ("script", "style")
        if tag == "table":
            self._rows = []
            self.tables.setdefault(given.get("data-table") or "", []).append(self._rows)
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell = ("", given.get("data-value"))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self._rows[-1].append((" ".join(self._cell[0].split()), self._cell[1]))
            self._cell = None
        self._silent = False

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.text += data
        if self._cell is not None:
            self._cell = (self._cell[0] + data, self._cell[1])


@pytest.fixture(scope="module")
def shown() -> list[Evaluation]:
    return everything()


@pytest.fixture(scope="module")
def page(shown: list[Evaluation]) -> str:
    return render_page(shown)


@pytest.fixture(scope="module")
def read(page: str) -> Reader:
    return Reader(page)


def values(rows: list[list[Cell]]) -> list[list[float | None]]:
    return [[None if value is None else float(value) for _, value in row[1:]] for row in rows[1:]]


def by_model(rows: list[list[Cell]], name: str) -> dict[str, Cell]:
    """One model's column by the attacks' titles."""
    column = [text for text, _ in rows[0]].index(" ".join(name.split()))
    return {row[0][0].split(" cumulative")[0]: row[column] for row in rows[1:]}


def test_the_attack_tables_hold_the_records_numbers(shown: list[Evaluation], read: Reader) -> None:
    table, other = read.tables["attacks"]
    assert [len(table[0]), len(other[0])] == [1 + 5, 1 + 1]  # the sixth model was attacked on other data
    for each in shown[:5]:
        found = by_model(table, each.name)
        for verdict in give_verdict(each).stages:
            one = verdict.stage
            title = next(title for title in found if title.startswith(" ".join(one.title.split())))
            text, value = found[title]
            if one.skipped or verdict.accuracy is None:
                assert (text, value) == ("–", None)
            elif one.kind == "carlini":
                kept = one.columns.right_before & one.columns.broken
                assert float(value or "nan") == one.columns.distortion[kept].mean()
            else:
                assert float(value or "nan") == verdict.accuracy.value
        assert float(found["Worst case"][1] or "nan") == give_verdict(each).robust.value
    notes = [row[0][0] for row in table if "APGD-100, margin cumulative" in row[0][0]]
    assert len(notes) == 1


def test_a_stage_on_every_sample_shows_its_plain_share(shown: list[Evaluation], read: Reader) -> None:
    clean = shown[0].stage("clean").columns
    text, value = by_model(read.tables["attacks"][0], "MMC-10")["Clean"]
    assert float(value or "nan") == (clean.prediction == clean.label).mean()
    assert text.startswith(f"{100 * (clean.prediction == clean.label).mean():.1f}")


def test_cards_show_the_rate_with_its_interval(shown: list[Evaluation], read: Reader) -> None:
    for each in shown:
        verdict = give_verdict(each)
        large, _, interval = str(verdict.robust).replace("<=", "≤").partition(" [")
        assert large.removesuffix(" %") in read.text
        assert interval in read.text
        assert str(verdict.clean) in read.text
        assert verdict.sentence.replace("<=", "≤") in read.text
    assert "≤ 0.74" in read.text  # 0 of 500


def test_the_suite_says_what_it_is_for(read: Reader) -> None:
    assert read.text.count("Suite strict, version 1: Our best effort.") == 1


def test_an_unfinished_evaluation_is_announced_above_everything(page: str) -> None:
    banner, rest = page.split('<header class="top">')
    assert "Half way" in banner
    assert re.search(r"3 of 5 stages finished,\s+1,\d\d\d of at least 1,\d\d\d attacks", banner)
    assert "Half way" in rest
    assert 'class="banner"' not in render_page([evaluation()])


def test_a_model_without_a_single_number_still_has_a_card() -> None:
    text = Reader(render_page([not_begun(), evaluation()])).text
    assert "Nothing is measured yet" in text
    assert "0 of 5 stages finished" in text
    assert "Nothing is measured yet" in render_page([replace(not_begun(), stages=())])


def test_names_are_text_and_never_markup(page: str) -> None:
    assert EVIL not in page
    assert page.count("<script") == 1
    assert "onerror=window.pwned=1>" not in page
    assert not [given for tag, given in Reader(page).opened if tag == "img" and given.get("src") == "x"]
    assert "The loss <sce> has no centers." not in page
    assert "The loss &lt;sce&gt; has no centers." in page


def test_the_page_forbids_every_script_but_its_own_and_every_address(page: str) -> None:
    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|@import|url\(", page)
    addresses = [given.get("src") or given.get("href") or "" for _, given in Reader(page).opened]
    assert all(address == "" or address.startswith(("#", "data:")) for address in addresses)


def test_skipped_stages_say_why(read: Reader) -> None:
    tips = [given.get("data-tip") for tag, given in read.opened if tag == "td"]
    assert "Skipped: The loss <sce> has no centers." in tips
    assert "Skipped for Half way" in read.text


def test_a_stage_that_is_not_finished_is_marked(read: Reader) -> None:
    found = by_model(read.tables["attacks"][0], "Half way")
    marked = [title for title, (text, _) in found.items() if text.endswith("*")]
    assert marked == ["APGD-100, margin to each of 9 classes", "Worst case"]


def test_the_papers_number_stands_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def paper_number(table: str, stage_name: str) -> list[PaperNumber]:
        asked.append((table, stage_name))
        return [PaperNumber("Table 9, <Ours>", "<= 1", 1.0, True)] if stage_name == "apgd-margin" else []

    monkeypatch.setattr("maxmahal.report.sections.attacks.paper_number", paper_number)
    made = evaluation()
    page = render_page([replace(made, model={**made.model, "table": "Table 9, Ours"})])
    assert ("Table 9, Ours", "apgd-margin") in asked
    assert re.search(r'data-tip="Table 9, &lt;Ours&gt;"[^>]*>≤ 1<', page)
    assert "Small numbers are those of the paper" in page


def test_pairs_are_compared_only_where_both_met_the_same_images(shown: list[Evaluation], read: Reader) -> None:
    (rows,) = read.tables["pairs"]
    finished = shown[:4]
    expected = []
    for place, first in enumerate(finished):
        for second in finished[place + 1 :]:
            result = compare(first, second)
            expected.append([None, result.difference, result.first_only, result.second_only, result.p_value])
    assert values(rows) == expected
    assert "not corrected for 6 comparisons" in " ".join(read.text.split())


def test_stochastic_models_are_not_paired() -> None:
    steady, drawn = evaluation("a"), evaluation("b", draws=True)
    assert compare(steady, drawn).total == 500
    assert "pairs" not in Reader(render_page([steady, drawn])).tables
    (rows,) = Reader(render_page([steady, evaluation("b")])).tables["pairs"]
    assert ("difference, points", None) in rows[0]


def test_the_spread_over_seeds_has_a_table_of_its_own(shown: list[Evaluation], read: Reader) -> None:
    (spread,) = seed_spreads(shown)
    (rows,) = read.tables["spreads"]
    assert values(rows) == [[2.0, spread.mean, spread.deviation]]
    assert "neither includes the other" in read.text
    assert "spreads" not in Reader(render_page([evaluation()])).tables


def test_exact_curves_are_the_share_beyond_each_distortion() -> None:
    distances = np.random.default_rng(0).gamma(2, 1, 1000).round(2)
    xs, ys = survival(distances)
    assert xs[0] == 0
    assert xs[-1] == distances.max()
    assert len(xs) <= 240
    np.testing.assert_allclose(ys, [(distances > x).mean() for x in xs])


def test_a_curve_with_samples_that_never_broke_is_not_drawn() -> None:
    made = evaluation()
    clean = made.stage("clean").columns
    for last, drawn in ((1.0, True), (np.inf, False)):
        distances = np.linspace(0.1, 1, len(clean))
        distances[-1] = last
        rows = columns(clean.sample, clean.right_before, np.zeros(len(clean)), distances)
        fmn = stage("fmn", "FMN", "fmn", rows, scope="all", threat="", counts=False)
        assert ("FMN: accuracy at every epsilon" in render_page([replace(made, stages=(*made.stages, fmn))])) == drawn


def test_curves_of_findings_are_tabulated_exactly(shown: list[Evaluation], read: Reader) -> None:
    numbers = shown[0].findings[1].numbers
    table = next(rows for rows in read.tables[""] if rows[0][1][0] == "epsilon")
    mine = values(table)[: len(numbers["epsilons"])]
    assert mine == [list(pair) for pair in zip(numbers["epsilons"], numbers["accuracies"], strict=True)]


def test_the_breakdown_gives_every_sample_one_fate(shown: list[Evaluation]) -> None:
    for each in shown:
        page = render_page([each])
        section = page[page.index('id="breakdown"') :].partition("</section>")[0]
        counts = [int(count) for count in re.findall(r'class="num" data-value="(\d+)"', section)]
        assert sum(counts) == each.samples
        assert counts[-1] == stands(each).sum() or not stands(each).any()
        assert counts[0] == (each.stage("clean").columns.right_share < 0.5).sum()


def test_the_bars_of_several_models_name_their_large_parts(shown: list[Evaluation], page: str) -> None:
    section = page[page.index('id="breakdown"') :].partition("</section>")[0]
    lines = re.findall(r"<p>(.*?)</p>", section)
    assert len(lines) == len(shown)
    for line, each in zip(lines, shown, strict=True):
        robust = stands(each).mean()
        assert (f"robust {percent(robust)}&nbsp;%" in line) == (robust >= 0.05)


def test_costs_are_the_records_and_unknown_ones_are_dashes(shown: list[Evaluation], read: Reader) -> None:
    rows = {row[0][0].split(" cumulative")[0]: row for row in read.tables["attack-costs"][0][1:]}
    margin = shown[0].stage("apgd-margin")
    assert [float(value or -1) for _, value in rows["APGD-100, margin"][2:]] == [
        (margin.columns.right_before & margin.columns.broken).sum(),
        len(margin.columns),
        margin.rating.seconds,
        margin.rating.forward,
        margin.rating.backward,
        margin.rating.queries,
    ]
    cw = next(row for title, row in rows.items() if title.startswith("C&W targeted, distortion"))
    assert [text for text, _ in cw[5:]] == ["–", "–", "–"]
    whole = [float(value or -1) for _, value in rows["Worst case"][4:]]
    ratings = [stage.rating for stage in shown[0].stages]
    assert whole == [
        sum(getattr(each, name) for each in ratings) for name in ("seconds", "forward", "backward", "queries")
    ]


def link(page: str, label: str) -> str:
    """The file behind a link of the page."""
    address = re.search(rf'href="data:[^,]+;base64,([^"]+)"[^>]*>{label}<', page)
    assert address
    return base64.b64decode(address[1]).decode()


def test_the_first_section_says_what_one_attack_claims_and_what_is_left(shown: list[Evaluation], page: str) -> None:
    verdict = verdict_of(page)
    text = " ".join(Reader(verdict).text.split())
    for each in shown:
        found = give_verdict(each)
        assert found.claim is not None
        assert found.headline in text.replace("≤", "<=")
        assert f'data-value="{found.robust.value!r}"' in verdict
        if found.claim.accuracy.value > found.robust.value:  # type: ignore[union-attr]
            assert f'class="claim-number" data-value="{found.claim.accuracy.value!r}"' in verdict  # type: ignore[union-attr]
    masks = verdict.split("<article")[4]
    assert "level-low" in masks
    assert re.search(r'class="left" x="0" y="5" width="0%"', masks)
    assert re.search(r'class="claimed" x="0" y="5" width="8\d\.\d+%"', masks)


def test_colour_shows_how_robust_a_model_is_and_not_how_reliable_that_is() -> None:
    doubtful = replace(evaluation(hard=0.2), findings=())
    assert 'class="verdict level-high"' in render_page([doubtful])
    assert "unchecked: an upper bound" in render_page([doubtful])
    assert 'class="verdict level-middle"' in render_page([evaluation(hard=1.7)])
    assert 'class="verdict level-low"' in render_page([masked()])


def test_the_page_carries_its_records_as_files(shown: list[Evaluation], page: str) -> None:
    tables = results_tables(shown)
    assert link(page, "CSV") == "\n".join(to_csv(table) for table in tables)
    records = json.loads(link(page, "JSON"))["models"]
    for each, record in zip(shown, records, strict=True):
        clean = each.stage("clean").columns
        first = first_broken(each)
        assert record["sample"] == clean.sample.tolist()
        assert record["first_broken_by"] == first.tolist()
        assert record["robust_accuracy"] == give_verdict(each).robust.value
        for place, one in enumerate(each.stages):
            letters = dict(zip(record["sample"], record["attacks"][place]["outcomes"], strict=True))
            rows = zip(one.columns.sample.tolist(), one.columns.right_share < 0.5, strict=True)
            assert {sample: letter for sample, letter in letters.items() if letter != "-"} == {
                sample: "1" if wrong else "0" for sample, wrong in rows
            }
        broke = int(np.flatnonzero(first > 0)[0])
        attack = each.stages[first[broke]].columns
        assert record["prediction"][broke] == attack.prediction[attack.sample == clean.sample[broke]][0]
    cited = link(page, "BibTeX")
    software = Path(__file__).parents[2].joinpath("CITATION.cff").read_text(encoding="utf-8")
    for title in re.findall(r'title: "([^"]+)"', software):
        assert f"title = {{{title}}}" in cited
    assert f"version = {{{__version__}}}" in cited
    for family, given in re.findall(r"family-names: (\w+)\s+given-names: (\w+)", software):
        assert f"{family}, {given}" in cited


def test_every_recorded_picture_is_on_the_page_even_if_they_are_large() -> None:
    made = with_extras(evaluation())
    large = np.random.default_rng(0).random((3, 300, 300)).astype(np.float32)
    several = tuple(replace(each, clean=large, adversarial=1 - large) for each in made.pictures * 3)
    page = render_page([replace(made, pictures=several)])
    assert page.count('class="exhibit"') == 12
    assert len(page) < 5_000_000
    images = [given["src"] or "" for tag, given in Reader(page).opened if tag == "img"]
    step = -(-300 // len(decoded(images[0])))
    np.testing.assert_array_equal(decoded(images[0]), (large[:, ::step, ::step].transpose(1, 2, 0) * 255).round())


def decoded(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


def test_pictures_are_the_recorded_pixels(read: Reader) -> None:
    found = [given["src"] or "" for tag, given in read.opened if tag == "img"]
    made = pictures(1)
    assert len(found) == 2 * 3 * len(made)
    for place, each in enumerate(made):
        clean, middle, adversarial = (decoded(uri) for uri in found[3 * place : 3 * place + 3])
        flat = each.clean[0] if len(each.clean) == 1 else each.clean.transpose(1, 2, 0)
        np.testing.assert_array_equal(clean, (flat * 255).round())
        assert adversarial.shape == middle.shape == clean.shape
        assert not np.array_equal(adversarial, clean)
    assert "×15" in read.text


def test_amplified_perturbations_never_clip_and_put_no_change_at_mid_grey() -> None:
    change = np.array([[[0.0, 0.03, -0.04]]])
    shown, factor = amplify(change)
    assert factor == pytest.approx(12)
    np.testing.assert_allclose(shown, [[[0.5, 0.86, 0.02]]])
    np.testing.assert_array_equal(amplify(np.zeros((1, 2, 2)))[0], np.full((1, 2, 2), 0.5))
    assert amplify(np.full((1, 1, 1), -1.0))[0].min() == 0


def test_feature_space_shows_some_points_of_many_and_says_so() -> None:
    made = with_extras(evaluation(count=1500))
    page = render_page([made])
    dots = re.findall(r'class="dot c\d"', page)
    assert len(dots) == 3 * 600
    assert page.count('class="cross"') == 3 * 10
    assert "600 of 1,500 samples" in page
    assert "along which the class centers spread most" in page


def test_the_transfer_matrix_holds_who_falls_to_whom(shown: list[Evaluation], read: Reader) -> None:
    (rows,) = read.tables["transfer"]
    expected = [
        [float(target.stage(f"transfer-{source}").columns.right_share.mean()) for target in shown[:2]]
        for source in ("MMC-10", EVIL)
    ]
    assert values(rows) == expected
    own = [given for tag, given in read.opened if tag == "td" and "own" in (given.get("class") or "").split()]
    assert [float(given["data-value"] or -1) for given in own] == [expected[0][0], expected[1][1]]


def test_distortions_are_those_of_samples_that_were_right_and_broke(shown: list[Evaluation], read: Reader) -> None:
    (rows,) = read.tables["distortions"]
    cw = shown[0].stage("cw-tar").columns
    kept = cw.distortion[cw.right_before & cw.broken]
    assert values(rows)[0][1:5] == [cw.right_before.sum(), len(kept), kept.mean(), np.median(kept)]


def test_findings_come_flagged_first_with_what_was_added() -> None:
    text = Reader(render_page([masked()])).text
    section = text[text.index("A high accuracy can mean") :]
    assert section.index("88 % of the gradients") < section.index("The accuracy falls to")
    assert re.search(r"Added because of it\.\s+APGD-100, scale-free", section)
    assert "What was checked: Zero gradients; Growing epsilon; Still falling." in " ".join(section.split())
    assert "but not run" not in section
    assert "the robustness may be false" in Reader(render_page([unfinished()])).text


def test_remedies_that_did_not_run_are_named() -> None:
    made = masked()
    text = Reader(render_page([replace(made, stages=made.stages[:-1])])).text
    assert "Required by a warning, but not run: scale-free." in text
    assert "unresolved: an upper bound" in text


def test_everything_it_takes_to_reproduce_is_there(shown: list[Evaluation], read: Reader) -> None:
    for each in shown:
        for fact in (each.environment["command"], each.model_fingerprint, each.data_fingerprint, repr(each.radius)):
            assert fact in read.text
    assert "torch 2.11" in read.text
    assert '"because": "zero-gradients"' in read.text
    assert "stochastic; 20 draws per sample" in read.text


def test_sections_without_anything_to_show_are_left_out() -> None:
    bare = replace(evaluation(), findings=())
    keys = [given.get("id") for tag, given in Reader(render_page([bare])).opened if tag == "section"]
    assert keys == ["verdict", "numbers", "attacks", "breakdown", "diagnostics", "samples", "reproduce"]
    several = [str(given.get("id")) for tag, given in Reader(render_page(everything())).opened if tag == "section"]
    assert len(several) == len(set(several))
    compared = ["differences", "attacks", "breakdown", "across", "curves", "transfer", "distortions", "training"]
    assert several[: 1 + len(compared)] == ["verdict", *compared]
    first = [key.removeprefix("model-1-") for key in several if key.startswith("model-1-")]
    assert [*keys[1:-1], "curves", "features", "reproduce"] == first


def test_headings_tables_and_drawings_can_be_read_aloud(read: Reader) -> None:
    levels = [int(tag[1]) for tag, _ in read.opened if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    tags = [tag for tag, _ in read.opened]
    assert tags.count("table") == tags.count("caption")
    assert all(given.get("scope") for tag, given in read.opened if tag == "th")
    drawings = [given for tag, given in read.opened if tag == "svg" and given.get("aria-hidden") != "true"]
    assert all(given.get("role") == "img" and given.get("aria-label") for given in drawings)
    assert tags.count("title") == 1 + len(drawings)
    assert all(given.get("alt") for tag, given in read.opened if tag == "img")


def test_drawings_take_their_colours_from_the_style_sheet(page: str) -> None:
    body = page[page.index("<body>") :]
    assert not re.search(r'(fill|stroke)="(?!var\(--|none")|#[0-9a-f]{6}|rgb\(', body)


def test_twins_by_name_are_told_apart() -> None:
    first = evaluation()
    second = replace(first, seed=1)
    text = Reader(render_page([first, second])).text
    assert "MMC-10 (seed 0)" in text
    assert "MMC-10 (seed 1)" in text
    assert "MMC-10 (" not in Reader(render_page([first])).text


def test_evaluations_of_one_model_on_more_and_on_fewer_samples_are_told_apart() -> None:
    text = Reader(render_page([evaluation(), replace(evaluation(), samples=30)])).text
    assert "MMC-10 (500 samples)" in text
    assert "MMC-10 (30 samples)" in text


def test_a_model_that_stands_everywhere_is_no_lower_bound() -> None:
    first = evaluation(clean=1.0, hard=0.0, count=60)
    html = render_page([first])
    text = " ".join(Reader(html).text.split())
    assert "≥" not in text
    assert '<dt>Clean accuracy</dt><dd data-value="1.0">100.0 % [94.0, 100.0]</dd>' in html
    assert "Attacks succeed on 0.0 % [0.0, 6.0]" in text
    assert "Robust accuracy 100.0 % [94.0, 100.0] at" in text


def test_the_papers_protocol_is_shown_as_no_measure_of_robustness() -> None:
    whole = evaluation(count=60)
    clean, attack, *_ = whole.stages
    rows = attack.columns
    lost = replace(attack, columns=replace(rows, broken=rows.broken | True, right_share=rows.right_share * 0))
    paper = replace(whole, suite="paper-table1", stages=(clean, lost), comparison=True)
    verdict = verdict_of(render_page([paper]))
    assert ">0.0</span><small> %</small>" in verdict
    assert 'class="verdict level-unknown"' in verdict
    assert "Accuracy 0.0 % [0.0, 6.0] at Linf 8/255" in render_page([paper])
    assert "the paper's protocol: not a measure of robustness" in Reader(verdict).text
    for claim in ("robust accuracy", "robust at", "upper bound", "≤"):
        assert claim not in verdict.lower()
    own = verdict_of(render_page([replace(paper, comparison=False)]))
    assert 'class="verdict level-low"' in own
    assert "worst case 0.0 % (≤ 5.96)" in " ".join(Reader(own).text.split())
    assert "the paper's protocol" not in Reader(own).text
    under_way = Reader(verdict_of(render_page([replace(paper, finished=False)]))).text
    assert "unfinished" in under_way


def verdict_of(page: str) -> str:
    """The HTML of the first section alone."""
    return page[page.index('id="verdict"') :].partition("</section>")[0]


def test_before_any_attack_has_finished_no_robust_number_is_shown() -> None:
    whole = evaluation()
    clean, attack, *_ = whole.stages
    for left in ((clean,), (clean, replace(attack, finished=False))):
        stopped = replace(whole, stages=left, finished=False)
        html = render_page([stopped])
        text = " ".join(Reader(html).text.split())
        assert "no attack has finished yet at Linf 8/255" in text
        assert "No attack of strict has finished yet, so nothing is known of its robustness" in text
        assert "robust at" not in text
        assert 'class="worst-number"' not in html
        assert "Attacks succeed on –" in text
    assert 'class="worst-number"' in render_page([replace(whole, stages=(clean, attack), finished=False)])


def test_there_must_be_something_to_report(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no evaluation"):
        write_page([], tmp_path / "page.html")


def test_the_page_is_written_whole(tmp_path: Path) -> None:
    write_page([evaluation()], tmp_path / "deep" / "page.html")
    assert (tmp_path / "deep" / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_report_needs_neither_torch_nor_matplotlib() -> None:
    code = "import sys, maxmahal.report; sys.exit(bool({'torch', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("unchecked")
def test_a_large_comparison_stays_small() -> None:
    names = tuple(f"model-{number}" for number in range(5))
    made = [with_extras(evaluation(name, count=1200, seed=seed), names, seed) for seed, name in enumerate(names)]
    made = [replace(each, pictures=tuple(map(replace, each.pictures * 10))) for each in made]
    page = render_page(made)
    assert len(page.encode()) < 6_000_000
    assert page.count('class="exhibit"') == 5 * 40


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_both_themes_have_contrast_enough() -> None:
    blocks = re.findall(r"\{[^{}]*--page:[^{}]*\}", asset("style.css"))
    assert len(blocks) == 3
    themes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks]
    assert themes[1] == themes[2]
    for theme in themes:
        for text in ("ink", "soft", "accent"):
            for back in ("page", "card", "sunk"):
                assert contrast(theme[text], theme[back]) >= 4.5, (text, back)
        for tone in ("good", "amber", "bad"):
            assert contrast(theme[tone], theme["card"]) >= 4.5, tone
        for tone in ("good", "warn", "bad"):
            assert contrast(theme[tone], theme[f"{tone}-back"]) >= 4.5, tone
        for back in ("heat-low", "heat-high"):
            assert contrast(theme["ink"], theme[back]) >= 4.5, back
        for series in [f"s{number}" for number in range(8)] + [f"c{number}" for number in range(10)]:
            assert contrast(theme[series], theme["card"]) >= 3, series


@pytest.mark.parametrize(("ticks", "low"), [(linear_ticks, -3.0), (linear_ticks, 0.0), (log_ticks, 0.03)])
@pytest.mark.parametrize("high", [0.07, 0.5, 1.0, 17.0, 1234.5])
def test_ticks_are_round_and_within(ticks: Callable[[float, float], list[float]], low: float, high: float) -> None:
    found = ticks(low, high)
    assert 1 <= len(found) <= 8
    assert all(low - 1e-6 <= tick <= high + 1e-6 for tick in found)
    assert all(float(f"{tick:.2g}") == pytest.approx(tick) for tick in found)


def test_every_scale_runs_from_end_to_end() -> None:
    for scale in ("linear", "log", "root"):
        axis = Axis("x", 0.5, 8.0, scale)
        assert [axis.place(0.5), axis.place(8.0)] == pytest.approx([0, 1])
        assert axis.place(1.0) < axis.place(2.0)
    assert Axis("x", 1.0, 16.0, "log").place(4.0) == pytest.approx(0.5)
    assert Axis("x", 0.0, 16.0, "root").place(4.0) == pytest.approx(0.5)
    assert Axis("x", 2.0, 2.0).place(2.0) == 0.5
