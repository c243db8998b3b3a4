"""Reads columns of Parquet files, after a look at what they unpack to.

Parquet stores a value that repeats once: a file of a kilobyte can hold a million rows of a megabyte each. So the
longest string is looked up in the dictionaries first, which costs a page per column and row group.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headtail.limits import USED_SHARE, refuse_beyond_memory
from headtail.memory import available_bytes

_ROWS_AT_ONCE = 1 << 17
_NUMBER_BYTES = 8


def read_columns(path: Path, names: Sequence[str]) -> pa.Table:
    """Returns columns of a Parquet file.

    Raises:
        DataError: they would not fit into memory.
        pa.ArrowException, OSError, ValueError: the file is damaged.
    """
    names = list(dict.fromkeys(names))
    if _most_bytes(path, names) > USED_SHARE * available_bytes():
        # Perhaps one long text among many short ones: the exact size decides, which takes longer to find.
        refuse_beyond_memory(str(path), _exact_bytes(path, names))
    batches, held = [], 0
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=names):
            batch.validate(full=True)  # whether text is UTF-8, for one, nobody has looked at yet
            batches.append(batch)
            held += batch.nbytes
            refuse_beyond_memory(str(path), held)  # what is made of the columns takes as much again
        schema = pa.schema([file.schema_arrow.field(name) for name in names])
    return pa.Table.from_batches([batch.select(names) for batch in batches], schema)


def _most_bytes(path: Path, names: Sequence[str]) -> int:
    """Returns what the columns take if every string is as long as the longest in the dictionaries, or stored once."""
    strings = _string_columns(path, names)
    with pq.ParquetFile(path, read_dictionary=strings) as file:
        groups = file.metadata.num_row_groups
        total = file.metadata.num_rows * _NUMBER_BYTES * len(names)
        for group in range(groups if strings else 0):
            facts = file.metadata.row_group(group)
            # The first row of a column comes with its whole dictionary.
            for batch in file.iter_batches(1, [group], columns=strings):
                longest = (pc.max(pc.binary_length(column.dictionary)).as_py() or 0 for column in batch.columns)
                total += facts.num_rows * sum(longest)
                break
            total += facts.total_byte_size
        return int(total)


def _exact_bytes(path: Path, names: Sequence[str]) -> int:
    """Returns what the columns take, without unpacking strings that repeat."""
    strings, total = _string_columns(path, names), 0
    with pq.ParquetFile(path, read_dictionary=strings) as file:
        total = file.metadata.num_rows * _NUMBER_BYTES * len(names)
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=strings) if strings else ():
            for column in batch.columns:
                lengths = pc.binary_length(column.dictionary).cast(pa.int64()).take(column.indices)
                total += pc.sum(lengths).as_py() or 0
    return int(total)


def _string_columns(path: Path, names: Sequence[str]) -> list[str]:
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
    return [name for name in names if _is_string(schema.field(name).type)]


def _is_string(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_string(kind.value_type)
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
