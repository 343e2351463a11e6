"""The report page in a real browser: silent, self-contained, and as wide as the window."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up import EVIL, everything
from PIL import Image
from playwright.sync_api import Browser, Locator, Page

from browsing import STILL, Visit
from maxmahal.records.types import Evaluation
from maxmahal.records.verdict import give_verdict, stands
from maxmahal.report.page import write_page


@pytest.fixture(scope="module")
def shown() -> list[Evaluation]:
    return everything()


@pytest.fixture(scope="module")
def file(shown: list[Evaluation], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(shown, path)
    return path


@pytest.fixture
def visit(browser: Browser, file: Path) -> Iterator[Visit]:
    made = Visit(browser, file)
    yield made
    made.context.close()


def jump(page: Page, title: str) -> None:
    """Follow the link to a section of the open panel; its section opens."""
    link = page.locator(".panel:visible .jump a", has_text=title)
    link.click()
    page.locator(f"{link.get_attribute('href')} > .fold[open]").wait_for()
    let_scrolling_end(page)


def let_scrolling_end(page: Page) -> None:
    """Wait two frames: the page learns in the next one that it was scrolled, and hides its tip then."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def scrolled_to(mark: Locator) -> Locator:
    """The mark, once the page has scrolled there and is still."""
    mark.scroll_into_view_if_needed()
    let_scrolling_end(mark.page)
    return mark


def background(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def test_it_opens_in_silence_and_asks_for_nothing(visit: Visit, file: Path) -> None:
    visit.page.mouse.wheel(0, 20_000)
    visit.page.wait_for_timeout(100)
    assert visit.complaints == []
    assert [url for url in visit.requests if url != file.as_uri() and not url.startswith("data:")] == []
    assert visit.page.locator("main > section").count() == 1
    assert visit.page.locator(".panel").count() == 7
    assert visit.page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


def test_names_do_not_run(visit: Visit) -> None:
    assert visit.page.evaluate("window.pwned === undefined")
    assert visit.page.locator("#verdict h3 a").nth(1).inner_text().strip() == EVIL


def test_tables_equal_the_records(visit: Visit, shown: list[Evaluation]) -> None:
    read = """table => [...table.rows].slice(1).map(row => [...row.cells].slice(1).map(cell => cell.dataset.value))"""
    rows = visit.page.locator("table[data-table=attacks]").first.evaluate(read)
    for place, each in enumerate(shown[:5]):
        verdict = give_verdict(each)
        assert float(rows[0][place]) == verdict.clean.value
        assert float(rows[1][place]) == verdict.stages[1].accuracy.value  # type: ignore[union-attr]
        assert float(rows[-1][place]) == verdict.robust.value


def test_a_table_sorts_by_its_exact_values(visit: Visit) -> None:
    table = visit.page.locator("table[data-table=attacks]").first
    table.locator("thead button").nth(1).click()
    column = "table => [...table.tBodies[0].rows].map(row => row.cells[1].dataset.value).filter(Boolean).map(Number)"
    rising = table.evaluate(column)
    assert rising == sorted(rising)
    table.locator("thead button").nth(1).click()
    assert table.evaluate(column) == sorted(rising, reverse=True)
    assert table.evaluate("table => table.rows[table.rows.length - 1].cells[0].textContent") == "Worst case"


def test_one_panel_at_a_time_by_mouse_by_keyboard_and_by_address(visit: Visit, file: Path) -> None:
    page = visit.page
    seen = lambda: page.locator(".panel:visible").evaluate_all("all => all.map(one => one.id)")  # noqa: E731
    assert seen() == ["compare"]
    page.get_by_role("tab", name="Masked").click()
    assert seen() == ["model-4"]
    assert page.get_by_role("tab", selected=True).inner_text() == "Masked"
    page.keyboard.press("ArrowRight")
    assert seen() == ["model-5"]
    page.keyboard.press("Home")
    assert seen() == ["compare"]
    page.keyboard.press("ArrowLeft")
    assert seen() == ["model-6"]
    assert page.url.endswith("#model-6")
    page.locator("#verdict h3 a").first.click()
    page.locator("#model-1").wait_for()
    assert seen() == ["model-1"]
    page.goto(f"{file.as_uri()}#model-2-reproduce")
    page.reload()
    assert seen() == ["model-2"]
    assert page.locator("#model-2-reproduce pre").first.is_visible()


@pytest.mark.parametrize("width", [390, 1024, 1440])
def test_it_is_at_most_six_screens_tall_and_folded_sections_open(browser: Browser, file: Path, width: int) -> None:
    visit = Visit(browser, file, width)
    page = visit.page
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert page.evaluate("document.documentElement.scrollHeight") <= 6 * 900, tab.inner_text()
    page.get_by_role("tab", name="Compare").click()
    jump(page, "Training")
    assert page.locator("#training svg.chart").is_visible()
    visit.context.close()


def test_samples_are_filtered_by_class_attack_and_outcome(visit: Visit, shown: list[Evaluation]) -> None:
    page, each = visit.page, shown[0]
    page.get_by_role("tab", name="MMC-10").first.click()
    jump(page, "Samples")
    box = page.locator("#model-1 .explorer")
    form, count = box.locator("form"), box.locator("form output")
    clean, margin = each.stage("clean").columns, each.stage("apgd-margin").columns
    assert count.inner_text() == "500 of 500 samples"
    form.get_by_label("Outcome").select_option("wrong without an attack")
    assert count.inner_text() == f"{(clean.right_share < 0.5).sum()} of 500 samples"
    form.get_by_label("Outcome").select_option("broken by the attack")
    form.locator("[name=attack]").select_option("APGD-100, margin")
    assert count.inner_text() == f"{(margin.right_before & margin.broken).sum()} of 500 samples"
    form.locator("[name=label]").select_option("cat")
    wanted = margin.sample[margin.right_before & margin.broken & (margin.label == 3)]
    assert count.inner_text() == f"{len(wanted)} of 500 samples"
    rows = box.locator(".rows tbody th")
    assert rows.all_inner_texts() == [f"Sample {sample}" for sample in wanted[:8]]
    box.get_by_role("button", name="Next samples of MMC-10").click()
    assert rows.all_inner_texts() == [f"Sample {sample}" for sample in wanted[8:16]]
    assert set(box.locator(".rows td[data-head='true class']").all_inner_texts()) == {"cat"}
    samples = {int(one.get_attribute("data-sample") or -1) for one in box.locator(".exhibit:visible").all()}
    assert samples == {picture.sample for picture in each.pictures} & set(wanted.tolist())


def test_every_picture_can_be_reached(browser: Browser, tmp_path: Path) -> None:
    made = everything()[0]
    several = tuple(
        replace(each, sample=int(sample)) for sample in made.stages[1].columns.sample[:3] for each in made.pictures
    )
    write_page([replace(made, pictures=several)], tmp_path / "one.html")
    visit = Visit(browser, tmp_path / "one.html")
    jump(visit.page, "Samples")
    found, onward = 0, visit.page.get_by_role("button", name="Next images")
    while True:
        found += visit.page.locator(".exhibit:visible").count()
        if onward.is_disabled():
            break
        onward.click()
    assert found == len(several) == 12
    assert visit.complaints == []
    visit.context.close()


def test_one_sample_is_shown_on_every_model(visit: Visit, shown: list[Evaluation]) -> None:
    page = visit.page
    box = page.locator(".across")
    jump(page, "One sample")
    assert box.locator("tbody tr").count() == 5
    box.get_by_label("Show").select_option("samples on which models differ")
    sample = int(box.get_by_role("spinbutton", name="Sample").input_value())
    rows = [int(np.searchsorted(each.stages[0].columns.sample, sample)) for each in shown[:5]]
    robust = [bool(stands(each)[row]) for each, row in zip(shown, rows, strict=False)]
    assert len(set(robust)) == 2
    told = box.locator("td[data-head=outcome]").all_inner_texts()
    assert [text == "still correct" for text in told] == robust
    box.get_by_role("spinbutton", name="Sample").fill("9")
    box.get_by_role("spinbutton", name="Sample").press("Enter")
    assert box.locator("caption").inner_text() == "Sample 9 of cifar10, true class truck"
    assert box.locator("tbody tr").first.locator("img").count() == 3
    page.get_by_role("tab", name="Masked").click()
    jump(page, "Samples")
    page.locator("#model-4 .rows tbody button").nth(2).click()
    page.locator("#across").wait_for()
    assert box.locator("caption").inner_text().startswith("Sample 11 of cifar10")


@pytest.mark.parametrize("name", ["Download as {}: Accuracy against epsilon", "Download as {}: claims and worst cases"])
def test_figures_are_saved_with_their_colours(visit: Visit, tmp_path: Path, name: str) -> None:
    page = visit.page
    jump(page, "Curves")
    for format in ("SVG", "PNG"):
        with page.expect_download() as download:
            page.get_by_role("button", name=name.format(format)).first.click()
        download.value.save_as(tmp_path / "figure")
        content = (tmp_path / "figure").read_bytes()
        if format == "SVG":
            text = content.decode()
            assert text.startswith("<svg")
            assert "var(--" not in text
            assert "MMC-10" in text
            assert EVIL not in text
        else:
            with Image.open(tmp_path / "figure") as image:
                assert image.width == 2 * 672
                assert image.height > 400
                assert len(image.convert("RGB").getcolors(1 << 20) or []) > 20
    assert visit.complaints == []


def test_files_are_downloaded(visit: Visit) -> None:
    for label, name in (("CSV", "robustness.csv"), ("JSON", "robustness.json"), ("BibTeX", "maxmahal.bib")):
        with visit.page.expect_download() as download:
            visit.page.get_by_role("link", name=label, exact=True).click()
        assert download.value.suggested_filename == name
        assert Path(download.value.path()).stat().st_size > 100


def test_pointing_at_a_cell_and_at_a_mark_shows_its_tip(visit: Visit) -> None:
    page, tip = visit.page, visit.page.locator("#tip")
    assert not tip.is_visible()
    jump(page, "Training")
    cell = page.locator("table[data-table=attacks] td").first
    scrolled_to(cell).hover()
    assert tip.inner_text().startswith("MMC-10, Clean: ")
    assert tip.inner_text() == cell.get_attribute("data-tip")
    mark = page.locator("#training path[data-tip]").nth(3)
    scrolled_to(mark).hover()
    assert "test error" in tip.inner_text()
    page.mouse.move(5, 5)
    assert not tip.is_visible()


def test_tips_come_to_the_keyboard_and_to_fingers(browser: Browser, file: Path) -> None:
    visit = Visit(browser, file)
    page, tip = visit.page, visit.page.locator("#tip")
    page.locator("#breakdown svg.stack").first.focus()
    page.keyboard.press("ArrowRight")
    assert "wrong without an attack" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert "broken by APGD-100, margin" in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    visit.context.close()
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, **STILL)
    page = context.new_page()
    page.goto(f"{file.as_uri()}#breakdown")
    scrolled_to(page.locator("#breakdown svg.stack path").first).tap()
    assert "wrong without an attack" in page.locator("#tip").inner_text()
    context.close()


def test_the_theme_switches_and_is_remembered(visit: Visit) -> None:
    page = visit.page
    light = background(page)
    page.get_by_role("button", name="Dark").click()
    dark = background(page)
    assert dark != light
    page.wait_for_timeout(500)  # what a page stores leaves its process a moment later, and a reload may start another
    page.reload()
    assert background(page) == dark
    assert page.get_by_role("button", name="Dark").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="Auto").click()
    assert background(page) == light
    page.emulate_media(color_scheme="dark")
    assert background(page) == dark
    page.get_by_role("button", name="Light").click()
    assert background(page) == light


def test_the_theme_recolours_the_drawings(visit: Visit) -> None:
    fill = """getComputedStyle(document.querySelector('#curves path[stroke^="var(--s"]')).stroke"""
    before = visit.page.evaluate(fill)
    visit.page.get_by_role("button", name="Dark").click()
    assert visit.page.evaluate(fill) != before


@pytest.mark.parametrize("width", [390, 1024, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off(browser: Browser, file: Path, width: int, scheme: str) -> None:
    visit = Visit(browser, file, width, scheme)
    page = visit.page
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        cut = """[...document.querySelectorAll(".scroll, pre")].filter(box => box.scrollWidth > box.clientWidth + 1)
            .map(box => box.closest("section").id + ": " + box.textContent.trim().slice(0, 40))"""
        assert page.evaluate(cut) == [], tab.inner_text()
    assert visit.complaints == []
    visit.context.close()


def view(page: Page) -> list[str]:
    found: list[str] = (
        page.locator(".zoomed")
        .first.locator("svg.space")
        .evaluate_all("all => all.map(one => one.getAttribute('viewBox'))")
    )
    return found


def test_feature_space_zooms_in_every_panel_at_once(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("tab", name="MMC-10").first.click()
    jump(page, "Features")
    start = view(page)
    space = page.locator(".zoomed").first
    space.get_by_role("button", name="Zoom in").click()
    near = view(page)
    assert near != start
    assert len(set(near)) == 1
    assert float(near[0].split()[2]) == pytest.approx(400 / 1.6)
    space.get_by_role("button", name="Reset").click()
    assert view(page) == start
    panel = space.locator("svg.space").first
    panel.scroll_into_view_if_needed()
    panel.click(position={"x": 5, "y": 5})
    page.mouse.wheel(0, -100)
    page.wait_for_function("document.querySelector('.zoomed svg.space').viewBox.baseVal.width < 400")
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert view(page) == start


def test_a_page_that_scrolls_past_feature_space_keeps_scrolling(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("tab", name="MMC-10").first.click()
    jump(page, "Features")
    panel = page.locator("svg.space").first
    scrolled_to(panel).hover()
    before, start = page.evaluate("scrollY"), view(page)
    page.mouse.wheel(0, 200)
    page.wait_for_function("before => scrollY > before", arg=before)
    assert view(page) == start


def test_another_attack_can_be_picked_and_points_speak(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("tab", name="MMC-10").first.click()
    jump(page, "Features")
    space = page.locator(".zoomed").first
    figures = space.locator("[data-picked]")
    assert [figures.nth(place).is_visible() for place in (0, 1)] == [True, False]
    space.get_by_label("Attack to show").select_option("Square, 5000 queries")
    assert [figures.nth(place).is_visible() for place in (0, 1)] == [False, True]
    dot = space.locator("svg.space").first.locator(".dot").last
    dot.evaluate("dot => dot.scrollIntoView({ block: 'center', behavior: 'instant' })")
    let_scrolling_end(page)
    page.mouse.move(*dot.evaluate("dot => { const box = dot.getBoundingClientRect(); return [box.x, box.y]; }"))
    assert page.locator("#tip").inner_text() == dot.get_attribute("data-tip") == "sample 1005, dog"


def test_it_prints_on_white_with_everything_readable(browser: Browser, file: Path) -> None:
    visit = Visit(browser, file, 1440, "dark")
    page = visit.page
    page.get_by_role("button", name="Dark").click()
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 29, 32)"
    assert not page.locator(".theme").is_visible()
    assert not page.locator(".tabs").is_visible()
    assert page.locator("#model-2 .panel-title").is_visible()
    assert page.locator("#attacks table").first.is_visible()
    assert len(page.pdf(format="A4")) > 10_000
    page.set_viewport_size({"width": 700, "height": 1000})
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    visit.context.close()


def test_it_reads_without_javascript(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("svg.chart").first.is_visible()
    assert page.locator("[data-picked]").nth(1).is_visible()
    assert not page.locator(".theme").is_visible()
    assert not page.locator("[data-zoom]").first.is_visible()
    context.close()
