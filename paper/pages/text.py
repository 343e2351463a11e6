"""How pages are written: templates filled with values, Markdown tables, and the format of every kind of number."""

import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache, lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from maxmahal.records.statistics import Comparison, Rate
from maxmahal.report.wording import duration, p_value, points
from maxmahal.report.wording import listed as listed
from paper import reproduce

NOT_RUN = "not run"
_NUMBERS = ("no", *["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"])
_SHOWN = 0.0005  # a smaller share reads as 0.0 % with one digit


def render(template: str, **values: object) -> str:
    """A template of ``templates/`` with its values, at most one empty line in a row; a missing value is an error."""
    text = _environment().get_template(f"{template}.md.j2").render(values)
    return re.sub(r"\n\s*\n", "\n\n", text).strip() + "\n"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown, from our own records
    )
    texts = (listed, difference, points, plural, percent, rounded, p_told, paired_test, counted, duration)
    for function in (*texts, rate_cell, rate_text, markdown_table):
        environment.globals[function.__name__] = environment.filters[function.__name__] = function
    environment.globals["NOT_RUN"] = NOT_RUN
    environment.globals["reproduce"] = reproduce
    environment.filters |= {"anchor": anchor, "oneline": one_line, "thousands": "{:,}".format}
    return environment


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first columns, of words, are aligned left, and whose columns of numbers are aligned right."""
    lines = [_line(header), "|" + "---|" * words + "---:|" * (len(header) - words)]
    return "\n".join([*lines, *(_line(row) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def anchor(title: str) -> str:
    """A heading's address within its page, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def one_line(text: str) -> str:
    """Paragraphs of one line each: a template may break its lines where it reads best."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip()))


def plural(count: int, noun: str) -> str:
    """ "1 seed", "3 seeds", "1,000 images"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def difference(size: float, interval: tuple[float, float] | None = None) -> str:
    """A difference in percentage points: "+0.2 [−0.3, +0.8]"; "−0.04" where one digit would hide the sign."""
    text = _signed(size)
    return text if interval is None else f"{text} [{_signed(interval[0])}, {_signed(interval[1])}]"


def _signed(size: float) -> str:
    digits = next((count for count in (1, 2, 3) if float(rounded(size, count))), 1)
    text = rounded(size, digits)
    return f"−{text[1:]}" if text.startswith("-") and float(text) else f"+{text.removeprefix('-')}"


def rounded(value: float, digits: int = 1) -> str:
    """Halves away from zero: 0.25 is 0.3 and 0.35 is 0.4, though binary fractions are slightly off."""
    exact = Decimal(repr(round(float(value), 9)))
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):f}"


def percent(share: float) -> str:
    """One digit, without the sign."""
    return rounded(100 * share)


def paired_test(pair: Comparison, p_value: float | None = None) -> str:
    """ "p = 0.385, 362 to 338 of 10,000 images": McNemar's test, and the images that one model alone gets right.

    ``p_value`` is the test's p where it was corrected for several comparisons.
    """
    test = p_told(pair.p_value if p_value is None else p_value)
    return f"{test}, {pair.first_only:,} to {pair.second_only:,} of {pair.total:,} images"


def rate_cell(rate: Rate) -> str:
    """A share in percent for a cell of a table: "43.7", "0.0 (≤ 0.04)" for none, "0.03 (3 of 10,000)" for very few."""
    if not rate.count:
        return f"0.0 (≤ {100 * rate.interval[1]:.2f})"
    if rate.value < _SHOWN:
        return f"{100 * rate.value:.2g} ({rate.count:g} of {rate.total:,})"
    return rate_text(rate).replace(" %", "") if rate.count == rate.total else percent(rate.value)


@lru_cache(maxsize=4096)  # an exact interval is slow, and many cells repeat
def rate_text(rate: Rate) -> str:
    """A share with its interval: "43.7 % [42.8, 44.7]"."""
    if not rate.count:
        return f"0.0 % (≤ {100 * rate.interval[1]:.2f} %)"
    low, high = (100 * end for end in rate.interval)
    if rate.value >= _SHOWN:
        return f"{percent(rate.value)} % [{rounded(low)}, {rounded(high)}]"
    return f"{100 * rate.value:.2g} % [{low:.2f}, {high:.2f}] ({rate.count:g} of {rate.total:,})"


def p_told(value: float) -> str:
    """ "p = 0.385" or "p < 0.001", in a sentence."""
    text = p_value(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def counted(noun: str, *counts: int) -> str:
    """ "no seeds", "one seed", "three seeds", "three to five seeds", "14 seeds": from the fewest to the most."""
    ends = dict.fromkeys((min(counts), max(counts)))
    told = [_NUMBERS[each] if each < len(_NUMBERS) else str(each) for each in ends]
    return f"{' to '.join(told)} {noun}{'' if max(counts) == 1 else 's'}"
