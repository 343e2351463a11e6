"""The gallery page in a real browser: silent, self-contained, as wide as the window; films play and the solid turns."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from browsing import Visit
from paper.gallery import FigureRecord, render_gallery

# What a canvas shows, and in how many colours.
LOOK = "canvas => canvas.toDataURL()"
COLOURS = """canvas => new Set(new Uint32Array(
    canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""


@pytest.fixture(scope="module")
def file(records: dict[str, FigureRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "gallery.html"
    path.write_text(render_gallery(records), encoding="utf-8")
    return path


@pytest.fixture
def visit(browser: Browser, file: Path) -> Iterator[Visit]:
    made = Visit(browser, file)
    yield made
    assert made.complaints == []
    made.context.close()


def film(page: Page, name: str) -> Locator:
    return page.locator(f"#{name} [data-player]")


def frame(player: Locator) -> int:
    return int(player.get_attribute("data-frame") or "-1")


def wait_beyond(page: Page, name: str, passed: int) -> None:
    """Until the film has come past a frame; a function, since the page forbids evaluating text."""
    test = "([name, passed]) => Number(document.querySelector(`#${name} [data-player]`).dataset.frame) > passed"
    page.wait_for_function(test, arg=[name, passed])


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_in_silence_and_fits(
    browser: Browser, file: Path, records: dict[str, FigureRecord], width: int, scheme: str
) -> None:
    visit = Visit(browser, file, width, scheme)
    page = visit.page
    page.mouse.wheel(0, 30_000)
    page.wait_for_timeout(100)
    assert visit.complaints == []
    assert [url for url in visit.requests if url != file.as_uri() and not url.startswith("data:")] == []
    assert page.locator("main > section").count() == len(records)
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    wide = """() => [...document.querySelectorAll("canvas, svg.drawing, .controls, .legend li")]
        .filter(each => each.getBoundingClientRect().right > innerWidth + 1).length"""
    assert page.evaluate(wide) == 0
    # A canvas is as sharp as the screen, square, and not blank.
    for canvas in page.locator("canvas").all():
        box = canvas.bounding_box()
        assert box is not None
        assert box["width"] == pytest.approx(box["height"], abs=1)
        assert box["width"] > 200
        assert canvas.evaluate(COLOURS) > 5
    visit.context.close()


def test_a_film_plays_and_pauses(visit: Visit) -> None:
    player = film(visit.page, "training-movie")
    last = int(player.locator("input").get_attribute("max") or "0")
    assert frame(player) == last  # the end, for those who never press play
    player.get_by_role("button", name="Play").click()
    wait_beyond(visit.page, "training-movie", 2)
    player.get_by_role("button", name="Pause").click()
    stopped = frame(player)
    visit.page.wait_for_timeout(500)
    assert frame(player) == stopped
    assert 3 <= stopped < last


def test_the_slider_sets_the_frame_and_the_picture(visit: Visit, records: dict[str, FigureRecord]) -> None:
    player = film(visit.page, "figure3b-digits")
    canvas = player.locator("canvas").first
    end = canvas.evaluate(LOOK)
    player.locator("input").fill("4")
    assert frame(player) == 4
    assert player.locator("output").inner_text() == f"step 4 of {records['figure3b-digits']['steps']}"
    assert canvas.evaluate(LOOK) != end
    player.locator("input").fill(str(records["figure3b-digits"]["steps"]))
    assert canvas.evaluate(LOOK) == end


def test_keys_play_and_step(visit: Visit) -> None:
    player = film(visit.page, "figure3b-digits")
    player.focus()
    visit.page.keyboard.press("Home")
    assert frame(player) == 0
    visit.page.keyboard.press("ArrowLeft")
    assert frame(player) == 0
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("ArrowRight")
    assert frame(player) == 2
    visit.page.keyboard.press("Space")
    wait_beyond(visit.page, "figure3b-digits", 3)
    visit.page.keyboard.press("Space")
    assert player.locator("button.play").inner_text() == "Play"


def test_a_film_that_ended_starts_over(visit: Visit) -> None:
    player = film(visit.page, "figure3b-digits")
    last = frame(player)
    player.get_by_role("button", name="Play").click()
    assert frame(player) < last, "however slow the machine, it is not through again at once"


def test_the_solid_turns_by_mouse_and_by_keys(visit: Visit) -> None:
    solid = visit.page.locator("#figure5 [data-turntable]")
    canvas = solid.locator("canvas")
    canvas.scroll_into_view_if_needed()
    start, look = solid.get_attribute("data-turn"), canvas.evaluate(LOOK)
    box = canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    visit.page.mouse.move(x, y)
    visit.page.mouse.move(x + 40, y)  # nothing is held yet
    assert solid.get_attribute("data-turn") == start
    visit.page.mouse.down()
    visit.page.mouse.move(x + 85, y + 18)
    visit.page.mouse.up()
    about, towards = map(float, (solid.get_attribute("data-turn") or "").split())
    first = [float(number) for number in (start or "").split()]
    assert about - first[0] == pytest.approx(45 / 90, abs=0.01)
    assert towards - first[1] == pytest.approx(18 / 90, abs=0.01)
    assert canvas.evaluate(LOOK) != look
    canvas.focus()
    visit.page.keyboard.press("ArrowRight")
    assert float((solid.get_attribute("data-turn") or "").split()[0]) == pytest.approx(about + 0.12, abs=0.002)


def test_the_solid_turns_by_finger(browser: Browser, file: Path) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(file.as_uri())
    solid = page.locator("#figure5 [data-turntable]")
    canvas = solid.locator("canvas")
    canvas.scroll_into_view_if_needed()
    start, box = solid.get_attribute("data-turn"), canvas.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = context.new_cdp_session(page)
    for kind, points in (
        ("touchStart", [{"x": x, "y": y}]),
        ("touchMove", [{"x": x + 50, "y": y + 5}]),
        ("touchEnd", []),
    ):
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.wait_for_function("start => document.querySelector('[data-turntable]').dataset.turn !== start", arg=start)
    context.close()


def test_the_theme_recolours_canvases_and_drawings(visit: Visit) -> None:
    page = visit.page
    canvas = page.locator("canvas").first
    fill = """getComputedStyle(document.querySelector('#figure6 path[stroke="var(--bad)"]')).stroke"""
    before = canvas.evaluate(LOOK), page.evaluate(fill)
    page.get_by_role("button", name="Dark").click()
    page.wait_for_timeout(50)
    after = canvas.evaluate(LOOK), page.evaluate(fill)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_numbers_are_under_the_figures(visit: Visit, records: dict[str, FigureRecord]) -> None:
    table = visit.page.locator("#figure6 table")
    assert table.locator("tbody tr").count() == 4
    assert table.locator("td.strong").count() == len(records["figure6"]["best"])


def test_it_shows_stills_without_javascript(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.locator("#training-movie svg.drawing").count() == 3
    assert page.locator("#training-movie svg.drawing").first.is_visible()
    assert not page.locator("[data-player]").first.is_visible()
    assert page.locator("#figure5 svg.drawing").last.is_visible()
    context.close()
