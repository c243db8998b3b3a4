"""Tables of links and nodes as SQL: which columns they have, what their ids are, and what is wrong with them."""

import csv
import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headtail.datasets.edges import LinkColumns
from headtail.datasets.tables import PARQUET, ParquetTable, pick_column
from headtail.datasets.textfile import has_link_header, suffix_of
from headtail.errors import DataError
from headtail.given import no_file
from headtail.graph.packed.engine import Engine, quoted, text

DELIMITERS = {".csv": ",", ".tsv": "\t"}
_HEADER_BYTES = 2**16


@dataclass(frozen=True)
class FileTable:
    """A file that the engine reads: what to select from, its columns, and which of them hold integers by their type."""

    source: str
    sql: str
    columns: list[str]
    integers: frozenset[str]
    dates: frozenset[str]

    def trimmed(self, column: str) -> str:
        """Returns a column as SQL; text is without white space around it."""
        return quoted(column) if column in self.integers | self.dates else f"trim({quoted(column)})"

    def id(self, column: str, integer: bool) -> str:
        """Returns a column of ids as SQL, as integers or as text."""
        return f"CAST({self.trimmed(column)} AS {'BIGINT' if integer else 'VARCHAR'})"


@dataclass(frozen=True)
class LinkFile:
    """A file of links: its columns of heads, tails and times."""

    table: FileTable
    head: str
    tail: str
    time: str | None


@dataclass(frozen=True)
class LinkFacts:
    """What was found in a file of links: rows, self-loops, whether all ids, and all times, are integers."""

    rows: int
    self_loops: int
    integers: bool
    whole_times: bool


def open_file(path: Path) -> FileTable:
    """Looks at the head of a Parquet, CSV or TSV file.

    Raises:
        DataError: it is missing, of another format, or cannot be read.
    """
    if not path.is_file():
        raise no_file(path)
    if any(sign in str(path) for sign in "*?["):
        raise DataError(f"{path}: packing takes *, ? and [ in a name for a pattern; rename the file")
    suffix = suffix_of(path)
    if suffix in PARQUET and path.suffix.lower() == suffix:
        return _parquet(path)
    if suffix in DELIMITERS and path.suffix.lower() in (suffix, ".gz"):
        return _text(path, suffix)
    known = ", ".join((*DELIMITERS, *PARQUET))
    raise DataError(f"{path}: packing reads {known}, text also with .gz after it; convert the file to one of these")


def open_links(path: Path, columns: LinkColumns) -> LinkFile:
    """Chooses the columns of a file of links as `load` does."""
    table = open_file(path)
    named = [columns.source, columns.target, columns.time]
    head = pick_column(table, columns.source, "source_column", named)
    tail = pick_column(table, columns.target, "target_column", [head, *named])
    time = None if columns.time is None else pick_column(table, columns.time, "time_column")
    if len({head, tail, time}) < 3:
        raise DataError(f"{table.source}: source, target and time must be different columns")
    return LinkFile(table, head, tail, time)


def look(engine: Engine, links: LinkFile) -> LinkFacts:
    """Reads a file of links once.

    Raises:
        DataError: an id or a time is missing, or of a kind that cannot be one.
    """
    table = links.table
    ends = (links.head, links.tail)
    missing = " + ".join(f"count(*) FILTER ({_is_missing(table, column)})" for column in ends)
    integer = " AND ".join(_is_integer(table, column) for column in ends)
    when = "true" if links.time is None else _is_integer(table, links.time)
    untimed = "0" if links.time is None else f"count(*) FILTER ({_is_missing(table, links.time)})"
    same = f"{table.id(links.head, False)} = {table.id(links.tail, False)}"
    rows, loops, empty, undated, integers, whole = engine.row(
        f"SELECT count(*), count(*) FILTER ({same}), {missing}, {untimed}, bool_and({integer}), bool_and({when}) "
        f"FROM {table.sql}"
    )
    if not rows:
        raise DataError(f"{table.source} is empty: it holds no rows")
    if empty:
        raise DataError(f"{table.source}: {empty:,} ids are empty; remove these rows or name the nodes")
    if undated:
        raise DataError(
            f"{table.source}: {undated:,} times in column {links.time!r} are empty; remove or date the links"
        )
    return LinkFacts(int(str(rows)), int(str(loops)), bool(integers), bool(whole))


def is_integer_column(engine: Engine, table: FileTable, column: str) -> bool:
    """Whether all ids of a column are integers written plainly."""
    return bool(engine.row(f"SELECT bool_and({_is_integer(table, column)}) FROM {table.sql}")[0])


def time_sql(links: LinkFile, whole: bool) -> str:
    """Returns times as SQL: integers as they are, dates as seconds since 1970."""
    assert links.time is not None
    column = links.table.trimmed(links.time)
    return f"CAST({column} AS BIGINT)" if whole else f"CAST(floor(epoch(CAST({column} AS TIMESTAMP))) AS BIGINT)"


def _is_missing(table: FileTable, column: str) -> str:
    empty = f"{quoted(column)} IS NULL"
    return empty if column in table.integers | table.dates else f"({empty} OR {table.trimmed(column)} = '')"


def _is_integer(table: FileTable, column: str) -> str:
    """Whether an id is an integer that comes back as it was: "007" and "+7" would not."""
    if column in table.dates:
        return "false"
    value = table.trimmed(column)
    return f"coalesce(CAST(TRY_CAST({value} AS BIGINT) AS VARCHAR) = CAST({value} AS VARCHAR), false)"


def _parquet(path: Path) -> FileTable:
    columns = ParquetTable(path).columns
    schema = pq.read_schema(path)
    integers, dates = set(), set()
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_integer(kind):
            integers.add(field.name)
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            dates.add(field.name)
    _refuse_twice(path, columns)
    return FileTable(str(path), f"read_parquet({text(str(path))})", columns, frozenset(integers), frozenset(dates))


def _text(path: Path, suffix: str) -> FileTable:
    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
        lines = head.decode("utf-8-sig", errors="ignore").splitlines()
    except (OSError, EOFError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    delimiter, quotes = DELIMITERS[suffix], suffix == ".csv"
    first = next(csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE), None)
    if not first:
        raise DataError(f"{path} is empty; expected one row per line")
    header = has_link_header(first)
    columns = (
        [field.strip() or str(place + 1) for place, field in enumerate(first)]
        if header
        else [str(place + 1) for place in range(len(first))]
    )
    _refuse_twice(path, columns)
    kinds = ", ".join(f"{text(name)}: 'VARCHAR'" for name in columns)
    mark = "'\"'" if quotes else "''"
    sql = (
        f"read_csv({text(str(path))}, delim={text(delimiter)}, header={str(header).lower()}, quote={mark}, "
        f"escape={mark}, auto_detect=false, columns={{{kinds}}})"
    )
    return FileTable(str(path), sql, columns, frozenset(), frozenset())


def _refuse_twice(path: Path, columns: Sequence[str]) -> None:
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise DataError(f"{path}: two columns are called {twice[0]!r}; rename one")
