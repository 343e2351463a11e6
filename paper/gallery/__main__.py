"""Compute the record of a figure; ``python -m paper.publish write`` draws it.

python -m paper.gallery figure3b
"""

import argparse
from pathlib import Path

from paper.gallery.figure import FigureOptions
from paper.gallery.registry import FIGURES, FOLDER, make_record, record_path


def main(arguments: list[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=FIGURES)
    parser.add_argument("--records", type=Path, default=FOLDER, help="the folder of the records")
    parser.add_argument("--data-dir", type=Path, help="the folder of the data sets (default: $MAXMAHAL_DATA)")
    options = parser.parse_args(arguments)
    make_record(options.records, options.name, FigureOptions(options.data_dir))
    print(f"Wrote {record_path(options.records, options.name)}.")


if __name__ == "__main__":
    main()
