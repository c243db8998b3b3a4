"""`headtail data split`: holds links out and writes everything as one npz."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtail.cli.options import Data, Json, Options, check_source
from headtail.cli.output import print_json, say
from headtail.config import SECTIONS, make_config
from headtail.errors import DataError

if TYPE_CHECKING:
    from headtail.graph.split import Split
    from headtail.graph.task import ProvenSplit

SPLIT_SETTINGS = (*SECTIONS["split"].model_fields, "metric", "eval_negatives", "seed")


def data_split(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help="npz file to write")],
    source: Options,
    settings: Options,
    as_json: Json = False,
) -> None:
    """Split the links of a graph once, so that every later run is judged on the same ones.

    The npz holds the training, validation and test links, the negatives they are ranked against, features and
    node names, as plain arrays; train on it as on any other file.

    Example:
        headtail data split links.csv --time-column year --split time --out links.npz
        headtail train links.npz --out runs/first
    """
    if out.suffix.lower() != ".npz":
        raise DataError(f"cannot write {out}: a split is written as .npz, name the file so.")
    config = make_config("paper", None, settings)
    check_source(data, source)

    from headtail import load
    from headtail.datasets.npz import write_npz
    from headtail.datasets.raw import RawGraph, RawSplit
    from headtail.graph.task import prove_split

    graph = load(data, **source)
    proven = prove_split(graph, config)
    split, metric = proven.split, proven.metric
    say(f"{graph.cleaning}.")
    say(f"{proven.leaks}.")
    valid, test = split.valid, split.test
    assert valid.negatives is not None
    assert test.negatives is not None
    raw = RawGraph(
        source=graph.source,
        num_nodes=graph.num_nodes,
        links=split.train.numpy(),
        directed=graph.directed,
        names=graph.names.index,
        times=None if split.train_times is None else split.train_times.numpy(),
        features=None if graph.features is None else graph.features.numpy(),
        split=RawSplit(
            valid.positives.numpy(), test.positives.numpy(), valid.negatives.numpy(), test.negatives.numpy()
        ),
        metric=metric,
    )
    write_npz(raw, out)
    if as_json:
        print_json({"file": str(out), **split_facts(proven)})
    else:
        sizes = ", ".join(f"{size:,} {part}" for part, size in split_sizes(split).items())
        print(f"{out}: {sizes} links ({split.strategy} split, {metric}). Next:\n  headtail train {out} --out RUN")


def split_sizes(split: "Split") -> dict[str, int]:
    """Returns the links of each part."""
    parts = {"train": split.train, "valid": split.valid.positives, "test": split.test.positives}
    return {name: links.shape[1] for name, links in parts.items()}


def split_facts(proven: "ProvenSplit") -> dict[str, object]:
    """Returns what is to be known of a split."""
    return {
        "strategy": proven.split.strategy,
        **split_sizes(proven.split),
        "metric": proven.metric,
        "reversed_links": proven.leaks.reversed_links,
        "dropped": proven.leaks.dropped,
    }
