"""Tables of ranked links: from blocks of answers to named rows, and to Parquet or CSV files."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headtail.errors import DataError
from headtail.files import replacing
from headtail.given import check_table_file
from headtail.graph.names import NodeNames
from headtail.serving.topk import TopK

ROWS_PER_GROUP = 100_000


def named_rows(blocks: Iterable[TopK], names: NodeNames) -> Iterator[pd.DataFrame]:
    """Turns blocks of answers into frames with columns head, tail, score, rank; padding is left out."""
    labels = names.array()
    for block in blocks:
        tails = block.tails.cpu().numpy()
        heads = np.repeat(block.heads.cpu().numpy(), tails.shape[1])
        ranks = np.tile(np.arange(1, tails.shape[1] + 1), tails.shape[0])
        found = tails.ravel() >= 0
        yield pd.DataFrame(
            {
                "head": labels[heads[found]],
                "tail": labels[tails.ravel()[found]],
                "score": block.scores.cpu().numpy().ravel()[found],
                "rank": ranks[found],
            }
        )


def _in_batches(frames: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Joins small frames, since every frame becomes a row group and readers want few of them."""
    waiting: list[pd.DataFrame] = []
    for frame in frames:
        waiting.append(frame)
        if sum(map(len, waiting)) >= ROWS_PER_GROUP:
            yield pd.concat(waiting, ignore_index=True)
            waiting = []
    if waiting:
        yield pd.concat(waiting, ignore_index=True)


def write_table(frames: Iterable[pd.DataFrame], path: Path) -> int:
    """Writes frames one after the other, never holding many rows; returns the number of rows.

    The file appears only when it is complete.
    """
    check_table_file(path)
    rows = 0
    with replacing(path) as temporary:
        if path.suffix.lower() == ".csv":
            with temporary.open("w", encoding="utf-8", newline="") as file:
                for number, frame in enumerate(frames):
                    frame.to_csv(file, index=False, header=number == 0)
                    rows += len(frame)
        else:
            writer: pq.ParquetWriter | None = None
            try:
                for frame in _in_batches(frames):
                    table = pa.Table.from_pandas(frame, preserve_index=False)
                    writer = writer or pq.ParquetWriter(temporary, table.schema)
                    writer.write_table(table)
                    rows += len(frame)
            finally:
                if writer is not None:
                    writer.close()
            if writer is None:
                raise DataError(f"nothing to write to {path}: no heads were asked for.")
    return rows
