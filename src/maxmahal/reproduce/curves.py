"""A page of training curves alone, for a grid that attacks nothing."""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from maxmahal.records.types import Evaluation
from maxmahal.report.render import asset, render
from maxmahal.report.sections.training import training_section
from maxmahal.report.subjects import make_subjects
from maxmahal.reproduce.states import read_epochs
from maxmahal.train import RunFolder
from maxmahal.version import __version__


def render_curves(runs: Mapping[str, Path], title: str) -> str:
    """Test error against training time of the runs that have begun; empty where none has."""
    begun = [_unattacked(name, RunFolder(path)) for name, path in runs.items() if read_epochs(RunFolder(path))]
    section = training_section(make_subjects(begun)) if begun else None
    if section is None:
        return ""
    script = asset("script.js")
    page = render(
        "template.html.j2",
        title=title,
        subtitle=["trained, not attacked"],
        sections=[section],
        unfinished=[],
        style=Markup(asset("style.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        version=__version__,
    )
    return str(page)


def _unattacked(name: str, folder: RunFolder) -> Evaluation:
    """What the section about training asks of an evaluation: a name, and the epochs."""
    return Evaluation(
        name=name,
        target=str(folder.path),
        data="",
        suite="",
        suite_version=1,
        suite_about="",
        seed=0,
        samples=0,
        norm="Linf",
        epsilon="0",
        radius=0.0,
        model_fingerprint="",
        data_fingerprint="",
        class_names=(),
        model={},
        environment={},
        training=read_epochs(folder),
        stages=(),
        findings=(),
        pictures=(),
        points=(),
        centers_xy=None,
        plane="",
        finished=False,
    )
