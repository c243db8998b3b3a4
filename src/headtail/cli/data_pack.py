"""`headtail data pack`: links of any size as a folder of mapped arrays."""

from pathlib import Path
from typing import Annotated

import typer

from headtail.cli.options import Json
from headtail.cli.output import print_json, say
from headtail.given import check_files, check_split

# Parts of the links, and the arrays that hold them.
PARTS = {"train": "links", "valid": "valid", "test": "test"}


def data_pack(
    links: Annotated[list[Path], typer.Argument(metavar="LINKS", help="files of links: .parquet, .csv, .tsv, .csv.gz")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="folder to write, say graph.ht")],
    features: Annotated[Path | None, typer.Option(metavar="FILE", help="node features: .npy, a row per node")] = None,
    nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="table of all ids, in the order of the features' rows")
    ] = None,
    source_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="column of the heads; the first by default")
    ] = None,
    target_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="column of the tails; the second by default")
    ] = None,
    time_column: Annotated[str | None, typer.Option(metavar="NAME", help="column that dates the links")] = None,
    node_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="id column of --nodes; the first by default")
    ] = None,
    directed: Annotated[
        bool, typer.Option("--directed/--undirected", metavar="", help="whether links have a direction")
    ] = True,
    valid: Annotated[Path | None, typer.Option(metavar="FILE", help="validation links of a split of your own")] = None,
    test: Annotated[Path | None, typer.Option(metavar="FILE", help="test links of that split")] = None,
    drop_leaks: Annotated[
        bool, typer.Option("--drop-leaks", metavar="", help="leave out links to train on that are also held out")
    ] = False,
    split: Annotated[
        str, typer.Option(metavar="NAME", help="links to hold out: random or time; auto: time where links are dated")
    ] = "auto",
    valid_share: Annotated[float, typer.Option(metavar="float", help="share of links held out for validation")] = 0.05,
    test_share: Annotated[float, typer.Option(metavar="float", help="share of links held out for the test")] = 0.1,
    most_held_out: Annotated[
        int, typer.Option(metavar="int", help="links held out at most, for validation and test each")
    ] = 20_000,
    seed: Annotated[int, typer.Option(metavar="int", help="fixes which links are held out")] = 0,
    memory: Annotated[
        float | None,
        typer.Option(metavar="GiB", help="memory that sorting may use; by default a share of what is free"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", metavar="", help="replace what is packed in FOLDER")
    ] = False,
    as_json: Json = False,
) -> None:
    """Pack links, also more than fit into memory, into a folder that is mapped instead of read.

    Links are cleaned, sorted and held out on disk. An interrupted packing goes on when the same command is run
    again; the folder appears when it is complete. Needs DuckDB: pip install 'headtail[pack]'.

    Example:
        headtail data pack links.parquet --features x.npy -o graph.ht
        headtail data pack part-*.csv.gz --time-column year --undirected -o graph.ht
        headtail train graph.ht --preset paper --out runs/first
    """
    check_split(valid, test)
    check_files([*links, *(file for file in (features, nodes, valid, test) if file is not None)])

    from headtail.graph.packed.hold_out import HoldOut
    from headtail.graph.packed.pack import pack

    manifest = pack(
        links,
        out,
        features=features,
        nodes=nodes,
        source_column=source_column,
        target_column=target_column,
        time_column=time_column,
        node_column=node_column,
        directed=directed,
        valid=valid,
        test=test,
        drop_leaks=drop_leaks,
        hold_out=HoldOut(split, valid_share, test_share, most_held_out, seed),
        memory=memory,
        overwrite=overwrite,
        say=say,
    )
    sizes = {name: manifest.arrays[array].shape[1] for name, array in PARTS.items()}
    if as_json:
        facts = manifest.model_dump(
            include={"num_nodes", "directed", "strategy", "self_loops", "duplicates", "dropped"}
        )
        print_json({"folder": str(out), **facts, **sizes})
    else:
        told = ", ".join(f"{size:,} {name}" for name, size in sizes.items())
        print(
            f"{out}: {manifest.num_nodes:,} nodes; {told} links ({manifest.strategy} split). Next:\n"
            f"  headtail train {out} --out RUN"
        )
