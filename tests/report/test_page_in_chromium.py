"""The report page in a real browser: silent, self-contained, and as wide as the window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up import EVIL, everything
from playwright.sync_api import Browser, Page

from browsing import Visit
from maxmahal.records.types import Evaluation
from maxmahal.records.verdict import give_verdict
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


def background(page: Page) -> str:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return colour


def test_it_opens_in_silence_and_asks_for_nothing(visit: Visit, file: Path) -> None:
    visit.page.mouse.wheel(0, 20_000)
    visit.page.wait_for_timeout(100)
    assert visit.complaints == []
    assert [url for url in visit.requests if url != file.as_uri() and not url.startswith("data:")] == []
    assert visit.page.locator("main > section").count() == 12
    assert visit.page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


def test_names_do_not_run(visit: Visit) -> None:
    assert visit.page.evaluate("window.pwned === undefined")
    assert visit.page.locator("#verdict .card h3").nth(1).inner_text().strip() == EVIL


def test_tables_equal_the_records(visit: Visit, shown: list[Evaluation]) -> None:
    read = """table => [...table.tBodies[0].rows].map(row => [...row.cells].slice(1).map(cell => cell.dataset.value))"""
    rows = visit.page.locator("table[data-table=attacks]").first.evaluate(read)
    assert len(rows) == 5
    for each, row in zip(shown[:5], rows, strict=True):
        verdict = give_verdict(each)
        assert float(row[0]) == verdict.clean.value
        assert float(row[1]) == verdict.stages[1].accuracy.value  # type: ignore[union-attr]
        assert float(row[-1]) == verdict.robust.value


def test_a_table_sorts_by_its_exact_values(visit: Visit) -> None:
    table = visit.page.locator("table[data-table=attacks]").first
    table.locator("th.worst button").click()
    column = "table => [...table.tBodies[0].rows].map(row => Number(row.cells[row.cells.length - 1].dataset.value))"
    rising = table.evaluate(column)
    assert rising == sorted(rising)
    table.locator("th.worst button").click()
    assert table.evaluate(column) == sorted(rising, reverse=True)


def test_pointing_at_a_cell_and_at_a_mark_shows_its_tip(visit: Visit) -> None:
    page, tip = visit.page, visit.page.locator("#tip")
    assert not tip.is_visible()
    cell = page.locator("table[data-table=attacks] td").first
    cell.hover()
    assert tip.inner_text().startswith("MMC-10, Clean: ")
    assert tip.inner_text() == cell.get_attribute("data-tip")
    mark = page.locator("#training path[data-tip]").nth(3)
    mark.hover()
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
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(file.as_uri())
    page.locator("#breakdown svg.stack path").first.tap()
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


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_of_the_window(browser: Browser, file: Path, width: int, scheme: str) -> None:
    visit = Visit(browser, file, width, scheme)
    visit.page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert visit.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    wide = visit.page.locator(".scroll:has(table.wide)").first
    assert wide.evaluate("box => box.scrollWidth > box.clientWidth")  # it scrolls inside its own container
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
    page.wait_for_timeout(100)
    assert float(view(page)[0].split()[2]) < 400
    page.keyboard.press("-")
    page.keyboard.press("-")
    assert view(page) == start


def test_a_page_that_scrolls_past_feature_space_keeps_scrolling(visit: Visit) -> None:
    page = visit.page
    panel = page.locator("svg.space").first
    panel.scroll_into_view_if_needed()
    panel.hover()
    before, start = page.evaluate("scrollY"), view(page)
    page.mouse.wheel(0, 200)
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") > before
    assert view(page) == start


def test_another_attack_can_be_picked_and_points_speak(visit: Visit) -> None:
    page = visit.page
    space = page.locator(".zoomed").first
    figures = space.locator("[data-picked]")
    assert [figures.nth(place).is_visible() for place in (0, 1)] == [True, False]
    space.get_by_role("button", name="Square, 5000 queries").click()
    assert [figures.nth(place).is_visible() for place in (0, 1)] == [False, True]
    dot = space.locator("svg.space").first.locator(".dot").last
    dot.evaluate("dot => dot.scrollIntoView({ block: 'center', behavior: 'instant' })")
    place = dot.evaluate("dot => { const box = dot.getBoundingClientRect(); return [box.x, box.y]; }")
    page.mouse.move(*place)
    assert page.locator("#tip").inner_text() == dot.get_attribute("data-tip") == "sample 1005, dog"


def test_it_prints_on_white_with_everything_readable(browser: Browser, file: Path) -> None:
    visit = Visit(browser, file, 1440, "dark")
    page = visit.page
    page.get_by_role("button", name="Dark").click()
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 29, 32)"
    assert not page.locator(".theme").is_visible()
    assert not page.locator("nav.contents").is_visible()
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
