"""Rewrites the generated tables of docs/reference.md from the code they describe.

    python scripts/make_reference.py            write them
    python scripts/make_reference.py --check    only compare; exit code 1 where the page is out of date

A table stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from typer.main import get_command

from headtail import methods
from headtail.cli.app import app
from headtail.cli.options import source_flags
from headtail.config import SECTIONS
from headtail.datasets.catalog import DATASETS
from headtail.graph.evidence_kinds import EVIDENCE
from headtail.graph.split import SPLITS
from headtail.graph.structure import STRUCTURES
from headtail.nn.convolutions import ENCODERS
from headtail.presets import METHOD_DEFAULTS, PRESETS
from headtail.registry import Registry
from headtail.sampling.batches import BATCHES
from headtail.sampling.negatives import NEGATIVES
from headtail.sampling.neighbours import NEIGHBOURS
from headtail.serving import sources  # noqa: F401, registers those that come with headtail
from headtail.serving.candidates import SOURCES
from headtail.training.objectives import OBJECTIVES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference.md"
# where a component is named → its registry
COMPONENTS: dict[str, Registry[Any]] = {
    "setting `encoder`": ENCODERS,
    "setting `evidence`": EVIDENCE,
    "setting `batches`": BATCHES,
    "setting `neighbours`": NEIGHBOURS,
    "setting `negatives`": NEGATIVES,
    "setting `objective`": OBJECTIVES,
    "setting `split`": SPLITS,
    "setting `structure_from`": STRUCTURES,
    "candidates": SOURCES,
    "DATA": DATASETS,
}


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table; a bar inside a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def kind_of(annotation: object) -> str:
    """Returns what a setting may be, in words."""
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(kind_of(part) for part in get_args(annotation))
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(annotation))
    names = {bool: "on or off", int: "whole number", float: "number", str: "name"}
    assert isinstance(annotation, type)
    return names[annotation]


def shown(value: object) -> str:
    """Returns a default as it is written in YAML."""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def settings() -> str:
    """Returns a table per section of the configuration."""
    parts = []
    for section, kind in SECTIONS.items():
        rows = []
        for name, field in kind.model_fields.items():
            defaults = [shown(preset.get(name, field.default)) for preset in PRESETS.values()]
            rows.append((f"`{name}`", kind_of(field.annotation), *defaults, field.description))
        parts.append(f"### `{section}`: {(kind.__doc__ or '').rstrip('.').lower()}")
        parts.append(table(["setting", "kind", *PRESETS, "meaning"], rows))
    return "\n\n".join(parts)


def data_options() -> str:
    """Returns the options that say what the data is."""
    command: Any = get_command(app)
    options = {option.name: option for option in command.commands["train"].params}
    rows = []
    for name in source_flags():
        option = options[name]
        flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
        rows.append((flags, f"`{name}`", option.help))
    return table(["flag", "in Python", "meaning"], rows)


def components() -> str:
    """Returns every registered component with its summary."""
    rows = [("setting `method`", f"`{name}`", summary) for name, summary in methods.summaries().items()]
    rows += [
        (where, f"`{name}`", summary)
        for where, registry in COMPONENTS.items()
        for name, summary in registry.summaries().items()
    ]
    return table(["named in", "name", "what it is"], rows)


def method_needs() -> str:
    """Returns the settings that methods bring in place of a preset's."""
    rows = [
        (f"`{method}`", ", ".join(f"`{name}: {value}`" for name, value in needs.items()))
        for method, needs in METHOD_DEFAULTS.items()
    ]
    return table(["method", "settings"], rows)


GENERATED = {
    "data options": data_options,
    "settings": settings,
    "method needs": method_needs,
    "components": components,
}


def regenerated(page: str) -> str:
    """Returns the page with fresh tables.

    Raises:
        ValueError: a table has no place on the page.
    """
    for name, make in GENERATED.items():
        begin, end = f"<!-- generated: {name} -->", f"<!-- end of {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        if len(pattern.findall(page)) != 1:
            raise ValueError(f"{PAGE.name} needs exactly one pair of lines {begin!r} … {end!r}")
        before, after = pattern.split(page)
        page = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 where something would change")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page to work on")
    options = parser.parse_args()
    page = options.page.read_text(encoding="utf-8")
    fresh = regenerated(page)
    if fresh == page:
        return 0
    if options.check:
        print(f"{options.page} is out of date; run: python scripts/make_reference.py", file=sys.stderr)
        return 1
    options.page.write_text(fresh, encoding="utf-8")
    print(f"rewrote the tables of {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
