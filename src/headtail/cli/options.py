"""Options that commands share; those of the settings are generated from the configuration tree.

A command declares `source: Options` or `settings: Options`; `add_command` puts one flag per option in their
place and hands over the values that were given. What was not given is absent, so it overrides nothing.
"""

import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import typer

from headtail.config import SECTION_OF, SECTIONS
from headtail.errors import RanksError
from headtail.evaluation.heads import HEADS_SAMPLED
from headtail.given import check_data, check_files, check_split
from headtail.presets import PRESETS

Options: TypeAlias = dict[str, Any]
Flags: TypeAlias = Mapping[str, inspect.Parameter]

# metavar="": typer would print <bool> beside every switch.
Json = Annotated[bool, typer.Option("--json", metavar="", help="print one JSON object instead of tables")]
Debug = Annotated[
    bool, typer.Option("--debug", metavar="", help="show the full traceback of an error, and details of the work")
]
Device = Annotated[str, typer.Option(metavar="NAME", help="cpu, cuda or auto")]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="links as .csv, .tsv, .txt, .parquet or .npz, a packed graph, or a data set's name"
    ),
]
HeadsSampled = Annotated[
    int | None,
    typer.Option(
        metavar="int",
        min=0,
        help=f"rank links of so many heads among all nodes too; {HEADS_SAMPLED} by default, fewer where a head is "
        "dear; 0: do not",
        show_default=False,
    ),
]
Evidence = Annotated[
    Literal["all", "training"] | None,
    typer.Option(
        help="links to answer from: all of the data (default), or those of training, as the test is; of a packed "
        "graph only these",
        show_default=False,
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="run folder written by headtail train")]


def flag(name: str, kind: Any, help: str, declared: str | None = None, **more: Any) -> inspect.Parameter:
    """Returns a flag that is None unless it is given: `links_per_batch` becomes --links-per-batch."""
    dashed = name.replace("_", "-")
    if kind is bool:
        declared = declared or f"--{dashed}/--no-{dashed}"
        more["metavar"] = ""
    annotation = Annotated[kind | None, typer.Option(declared or f"--{dashed}", help=help, **more)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def source_flags() -> Flags:
    """The options of `headtail.load`."""
    panel = "What the data is"
    file = functools.partial(flag, kind=Path, metavar="FILE", rich_help_panel=panel)
    column = functools.partial(flag, kind=str, metavar="NAME", rich_help_panel=panel)
    flags = [
        file("features", help="node features: .npy, .npz, or .csv, .tsv, .parquet with an id column"),
        file("nodes", help="table of all nodes; features are made from its columns"),
        column(
            "text", kind=list[str], help="column of --nodes to make text features from, and no others; may be repeated"
        ),
        column(
            "columns", kind=list[str], help="column of --nodes to make features from, all by default; may be repeated"
        ),
        column("source_column", help="column of the heads; the first by default"),
        column("target_column", help="column of the tails; the second by default"),
        column("time_column", help="column that dates the links"),
        column("node_column", help="id column of --nodes and of a feature table; the first by default"),
        file("valid", help="validation links of a split of your own; DATA is then its training links"),
        file("test", help="test links of that split"),
        file("root", metavar="FOLDER", help="folder of OGB's data sets; dataset by default"),
        flag(
            "directed",
            bool,
            "whether links have a direction; links of files do by default",
            declared="--directed/--undirected",
            rich_help_panel=f"{panel}: switches",
        ),
        flag(
            "download",
            bool,
            "fetch an OGB data set that is not in --root yet; needs the package ogb",
            declared="--download",
            rich_help_panel=f"{panel}: switches",
        ),
    ]
    return {parameter.name: parameter for parameter in flags}


def check_source(data: str, source: Options) -> None:
    """Refuses data and files of `source_flags` that are not there, before anything large is imported."""
    from headtail.datasets.catalog import DATASETS

    check_data(data, DATASETS)
    check_split(source.get("valid"), source.get("test"))
    check_files(source[name] for name in ("features", "nodes", "valid", "test") if name in source)


def setting_flags(names: Iterable[str] = tuple(SECTION_OF)) -> Flags:
    """A flag for each of the named settings, grouped by section."""
    return {name: _setting_flag(name) for name in names}


def _setting_flag(name: str) -> inspect.Parameter:
    section = SECTIONS[SECTION_OF[name]]
    field = section.model_fields[name]
    kind: Any = field.annotation
    panel = (section.__doc__ or "").strip().rstrip(".")
    # Switches have two names: among other flags they would squeeze the help of all into a narrow column.
    more: Options = {"rich_help_panel": f"{panel}: switches" if kind is bool else panel}
    if get_origin(kind) in (Union, UnionType):
        # int | Literal["auto"]: the words pass, everything else must be the number.
        words = [str(word) for part in get_args(kind) for word in get_args(part)]
        number = next(part for part in get_args(kind) if get_origin(part) is not Literal)
        more |= {"parser": _number_or_word(number, words), "metavar": "|".join([number.__name__, *words])}
        kind = str
    elif get_origin(kind) is Literal:
        # As text: the configuration refuses a wrong choice in the words it has for YAML and Python too.
        more["metavar"], kind = "|".join(str(choice) for choice in get_args(kind)), str
    elif kind is not bool:
        more["metavar"] = "NAME" if kind is str else kind.__name__
    return flag(name, kind, f"{field.description} ({_default(name, field.default)})", **more)


def _default(name: str, plain: object) -> str:
    """Says what a setting is without the flag, preset by preset where they differ."""
    values: dict[str, object] = {preset: changed.get(name, plain) for preset, changed in PRESETS.items()}
    if isinstance(plain, bool):
        values = {preset: "on" if value else "off" for preset, value in values.items()}
    if len(set(values.values())) == 1:
        return f"default {next(iter(values.values()))}"
    # A space after commas lets a list of names break into lines.
    return "; ".join(f"{preset} {value}" for preset, value in sorted(values.items())).replace(",", ", ")


def _number_or_word(number: type, words: list[str]) -> Callable[[str], object]:
    def parse(text: str) -> object:
        if text in words:
            return text
        try:
            value: object = number(text)
        except ValueError as error:
            raise typer.BadParameter(f"{text!r} is neither {number.__name__} nor {' or '.join(words)}.") from error
        return value

    return parse


# Commands that several ranks can run together.
SPREAD = ("train", "evaluate", "recommend")


def refuse_ranks(command: str) -> None:
    """Refuses several ranks where each would do all of the work, and write the same files."""
    size = os.environ.get("WORLD_SIZE", "1")
    if size not in ("", "0", "1"):
        raise RanksError(
            f"headtail {command} runs in one process, but WORLD_SIZE says that {size} were started; start it without "
            f"torchrun ({', '.join(SPREAD)} take several)."
        )


def add_command(app: typer.Typer, name: str, function: Callable[..., int | None], **groups: Flags) -> None:
    """Adds a function to the command line; its docstring is the help, what follows "Example:" stands at the end.

    Args:
        app: where the command goes.
        name: what it is called there.
        function: runs the command and returns its exit code, None for 0.
        **groups: for each parameter of the function that is an `Options`, the flags that fill it.
    """

    def run(**given: object) -> int | None:
        del given["debug"]  # main() looks for it itself, since arguments may fail to parse
        if name not in SPREAD:
            refuse_ranks(name)
        for group, flags in groups.items():
            values = {name: given.pop(name) for name in flags}
            given[group] = {name: value for name, value in values.items() if value not in (None, [])}
        return function(**given)

    own = [p for p in inspect.signature(function).parameters.values() if p.name not in groups]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    debug = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    generated = [parameter for flags in groups.values() for parameter in flags.values()]
    run.__signature__ = inspect.Signature([*parameters, debug, *generated])  # type: ignore[attr-defined]
    text, _, example = inspect.cleandoc(function.__doc__ or "").partition("Example:\n")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    epilog = "Example:\n" + textwrap.indent(inspect.cleandoc(example), "$ ")
    app.command(name, help="\n\n".join(paragraphs), epilog=epilog)(run)
