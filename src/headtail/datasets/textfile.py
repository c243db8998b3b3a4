"""Reads delimited text fast, and finds the line to blame when it cannot be read.

The fast path hands the whole file to Arrow. Only when something is wrong is the text walked line by line.
"""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from headtail.datasets.unpacked import COMPRESSED, unpacked
from headtail.errors import DataError

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": " ", ".edges": " "}
_BLOCK_BYTES = 16 << 20


def has_link_header(first_row: Sequence[str]) -> bool:
    """Whether the first row names columns: it does unless its first two fields are integers."""
    return not all(re.fullmatch(r"\s*[+-]?\d+\s*", field) for field in first_row[:2])


class TextTable:
    """A delimited text file; every value is a string.

    Commas separate the columns of `.csv`, tabs those of `.tsv`, white space those of `.txt` and `.edges`,
    where lines that start with '#' are comments. Quotation marks enclose fields in `.csv` only. Columns of a
    file without a header are called "1", "2", ….
    """

    def __init__(self, path: Path, has_header: Callable[[Sequence[str]], bool] = has_link_header) -> None:
        self.source = str(path)
        self._suffix = suffix_of(path)
        self._data = _normalised(_read_bytes(path), path, self._suffix)
        self._quoted = self._suffix == ".csv"
        self._delimiter = "," if self._suffix == ".csv" else "\t"
        first = next(self._rows(), None)
        if first is None:
            raise DataError(f"{path} is empty; expected one row per line")
        self.columns = [field.strip() for field in first[1]]
        self._skipped = 1 if has_header(first[1]) else 0
        if not self._skipped:
            self.columns = [str(position + 1) for position in range(len(self.columns))]
        elif next(self._rows(self._skipped), None) is None:
            raise DataError(f"{path} holds a header and no rows below it")

    def load(self, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """Returns the named columns as strings, without white space around them."""
        body = pa.py_buffer(self._data)
        if self._skipped:
            body = body.slice(self._end_of_header())
        try:
            table = pacsv.read_csv(
                pa.BufferReader(body),
                read_options=pacsv.ReadOptions(column_names=self.columns, block_size=_BLOCK_BYTES),
                parse_options=pacsv.ParseOptions(
                    delimiter=self._delimiter,
                    quote_char='"' if self._quoted else False,
                    newlines_in_values=self._quoted and b'"' in self._data,
                ),
                convert_options=pacsv.ConvertOptions(
                    include_columns=list(dict.fromkeys(names)),
                    column_types={name: pa.large_string() for name in names},
                    strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid as error:
            raise self._blame(error) from error
        return [pc.utf8_trim_whitespace(table[name]) for name in names]

    def where(self, row: int) -> str:
        """Returns the place of data row `row`, counted from 0, for a message."""
        for number, (line, _) in enumerate(self._rows(self._skipped)):
            if number == row:
                return f"line {line}"
        return f"row {row}"

    def _rows(self, skip: int = 0) -> Iterator[tuple[int, list[str]]]:
        """Walks (line number, fields) over all rows that are not blank."""
        text = io.TextIOWrapper(io.BytesIO(self._data), encoding="utf-8", newline="")
        reader = csv.reader(
            text, delimiter=self._delimiter, quoting=csv.QUOTE_MINIMAL if self._quoted else csv.QUOTE_NONE
        )
        line = 1
        try:
            for fields in reader:
                if fields and skip <= 0:
                    yield line, fields
                skip -= bool(fields)
                line = reader.line_num + 1
        except csv.Error as error:
            raise DataError(f"{self.source}, line {line}: cannot be split into columns ({error})") from error

    def _end_of_header(self) -> int:
        start = len(self._data) - len(self._data.lstrip(b"\n"))
        end = self._data.find(b"\n", start)
        return len(self._data) if end < 0 else end + 1

    def _blame(self, error: pa.ArrowInvalid) -> DataError:
        expected = len(self.columns)
        for line, fields in self._rows():
            if len(fields) != expected:
                return DataError(
                    f"{self.source}, line {line}: found {len(fields)} columns, expected {expected} as in "
                    f"the first row; {self._hint(fields)}"
                )
        return DataError(f"{self.source} cannot be read as a table: {error}")

    def _hint(self, fields: Sequence[str]) -> str:
        """Returns what is probably wrong with a row of too many or too few fields."""
        if any("\n" in field for field in fields):
            return "is a quotation mark left open?"
        if SEPARATORS[self._suffix] != " ":
            first = next(self._rows())[1][0]
            if first.startswith("#") or fields[0].startswith("#"):
                return f"lines with '#' are comments in .txt and .edges files only, not in {self._suffix}"
        name = {",": "commas", "\t": "tabs", " ": "white space"}[SEPARATORS[self._suffix]]
        return f"columns of a {self._suffix} file are separated by {name}"


def suffix_of(path: Path) -> str:
    """Returns the suffix that tells the format: ".csv" for links.csv and links.csv.gz."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _read_bytes(path: Path) -> bytes:
    """Returns the unpacked bytes of a file."""
    with unpacked(path, copies=2) as stream:  # normalised, and made into columns
        return stream.read()


def _normalised(data: bytes, path: Path, suffix: str) -> bytes:
    """Returns UTF-8 text with newlines as line ends; fields of white-space files come to be one tab apart.

    Lines keep their numbers: comments become blank lines.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        raise DataError(f"{path} is a binary file or UTF-16 text; save it as UTF-8 text")
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise DataError(f"{path}, line {line}: not UTF-8 text; save the file in the encoding UTF-8") from error
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if SEPARATORS[suffix] != " ":
        return data
    if b"#" in data:
        data = re.sub(rb"(?m)^[ \t]*#[^\n]*", b"", data)
    # Byte replacement runs at memory speed; a regular expression would take longer than all the rest.
    data = data.replace(b" ", b"\t")
    while b"\t\t" in data:
        data = data.replace(b"\t\t", b"\t")
    return data.replace(b"\t\n", b"\n").replace(b"\n\t", b"\n").strip(b"\t")
