"""Numbers for nodes: rows of a feature matrix, rows of a node table, or the sorted order of ids; as `load` does it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtail.datasets.tables import pick_column
from headtail.errors import DataError
from headtail.graph.packed.engine import Engine, text
from headtail.graph.packed.manifest import NAMES_FILE
from headtail.graph.packed.sources import LinkFile, is_integer_column, open_file, time_sql


@dataclass(frozen=True)
class Numbering:
    """How many nodes there are, the file of their names in node order (None: names are numbers), and their type."""

    num_nodes: int
    named: Path | None
    integers: bool

    @property
    def sql(self) -> str:
        """Names and numbers of nodes, to select from."""
        assert self.named is not None
        return (
            f"(SELECT name, file_row_number AS node FROM read_parquet({text(str(self.named))}, file_row_number=true))"
        )


def by_rows(engine: Engine, files: Sequence[LinkFile], integers: bool, rows: int, matrix: Path) -> Numbering:
    """Takes ids as row numbers of a feature matrix."""
    if not integers:
        raise DataError(
            f"ids are not all integers, and {matrix} does not say which row is whose; give --nodes, a table of the "
            "ids in row order"
        )
    low, high = engine.row(f"SELECT min(id), max(id) FROM ({_ids(files, integers)})")
    if not 0 <= int(str(low)) <= int(str(high)) < rows:
        raise DataError(
            f"links name the nodes {low} to {high}, but {matrix} has {rows} rows, for nodes 0 … {rows - 1}; if ids are "
            "not rows, give --nodes, a table of ids in row order"
        )
    return Numbering(rows, None, integers)


def by_table(
    engine: Engine, files: Sequence[LinkFile], integers: bool, nodes: Path, node_column: str | None, folder: Path
) -> Numbering:
    """Numbers nodes by their row in a node table; every id must be there."""
    table = open_file(nodes)
    key = pick_column(table, node_column, "node_column")
    integers = integers and is_integer_column(engine, table, key)
    names = folder / NAMES_FILE
    engine.run(
        f"COPY (SELECT {table.id(key, integers)} AS name FROM {table.sql}) TO {text(str(names))} (FORMAT parquet)"
    )
    listed = f"read_parquet({text(str(names))})"
    count, distinct, empty = engine.row(
        "SELECT count(*), count(DISTINCT name), count(*) FILTER (name IS NULL OR CAST(name AS VARCHAR) = '') "
        f"FROM {listed}"
    )
    if empty or count != distinct:
        raise DataError(f"{nodes}: ids in column {key!r} are empty or repeat; a node has one row")
    missing, first = engine.row(
        f"SELECT count(DISTINCT id), min(id) FROM ({_ids(files, integers)}) WHERE id NOT IN (SELECT name FROM {listed})"
    )
    if missing:
        raise DataError(f"{nodes} lacks {missing:,} nodes that occur in links, first {first!r}; add a row for each")
    return Numbering(int(str(count)), names, integers)


def by_order(
    engine: Engine, files: Sequence[LinkFile], held_out: Sequence[LinkFile], integers: bool, folder: Path
) -> Numbering:
    """Numbers the nodes of links to train on in the order of their ids; held-out links have no others."""
    names = folder / NAMES_FILE
    engine.run(
        f"COPY (SELECT DISTINCT id AS name FROM ({_ids(files, integers)}) ORDER BY id) TO {text(str(names))} "
        "(FORMAT parquet)"
    )
    listed = f"read_parquet({text(str(names))})"
    if held_out:
        strangers, first = engine.row(
            f"SELECT count(DISTINCT id), min(id) FROM ({_ids(held_out, integers)}) "
            f"WHERE id NOT IN (SELECT name FROM {listed})"
        )
        if strangers:
            raise DataError(
                f"{strangers:,} nodes of the held-out links are not among the links to train on, the first is "
                f"{first!r}; remove their links, or give --nodes, a table that lists them"
            )
    count, low, high = engine.row(f"SELECT count(*), min(name), max(name) FROM {listed}")
    nodes = int(str(count))
    if integers and low == 0 and high == nodes - 1:
        names.unlink()
        return Numbering(nodes, None, integers)
    return Numbering(nodes, names, integers)


def link_sql(
    links: LinkFile, numbering: Numbering, directed: bool, whole_times: bool = True, in_order: bool = False
) -> str:
    """Returns the links of a file as SQL: keys head · N + tail without self-loops, and times where there are any.

    They come `in_order` of the file where that is asked for.
    """
    table = links.table
    ends = [table.id(column, numbering.integers) for column in (links.head, links.tail)]
    extra = {} if links.time is None else {"time": time_sql(links, whole_times)}
    hidden = {"place": "row_number() OVER ()"} if in_order else {}
    more = "".join(f", {sql} AS {name}" for name, sql in (extra | hidden).items())
    plain = f"SELECT {ends[0]} AS h, {ends[1]} AS t{more} FROM {table.sql}"
    if numbering.named is not None:
        kept = "".join(f", l.{name}" for name in extra | hidden)
        plain = (
            f"SELECT a.node AS h, b.node AS t{kept} FROM ({plain}) l "
            f"JOIN {numbering.sql} a ON a.name = l.h JOIN {numbering.sql} b ON b.name = l.t"
        )
    first, second = ("h", "t") if directed else ("least(h, t)", "greatest(h, t)")
    key = f"{first} * {numbering.num_nodes}::BIGINT + {second} AS key"
    columns = ", ".join([key, *extra])
    return f"SELECT {columns} FROM ({plain}) WHERE h <> t{' ORDER BY place' if in_order else ''}"


def _ids(files: Sequence[LinkFile], integers: bool) -> str:
    return " UNION ALL ".join(
        f"SELECT {links.table.id(column, integers)} AS id FROM {links.table.sql}"
        for links in files
        for column in (links.head, links.tail)
    )
