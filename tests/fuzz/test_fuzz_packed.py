"""Packed graphs with one damaged file are opened or refused, as every other input."""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from byte_mutations import BYTES
from container_mutations import JSONL, npy_with_header
from reader_targets import LINKS, links, mutations_for

from headtail import load
from headtail.cli import main
from headtail.cli.data_info import data_info
from headtail.errors import DataError, HeadtailError

pytest.importorskip("duckdb")
CASES = 150


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    lines = ["from,to,year", *(f"n{head},n{tail},{year}" for head, tail, year in links())]
    (folder / "links.csv").write_text("\n".join(lines))
    command = ["data", "pack", str(folder / "links.csv"), "--out", str(folder / "graph.ht"), "--time-column", "year"]
    assert main(command) == 0
    return folder / "graph.ht"


def test_damaged_files_of_a_store_are_refused_or_harmless(store: Path, tmp_path: Path) -> None:
    files = sorted(path.name for path in store.iterdir() if path.is_file())
    accepted = 0
    for case in range(CASES):
        rng = random.Random(f"packed/{case}")
        place = Path(shutil.copytree(store, tmp_path / str(case)))
        file = files[case % len(files)]
        known = {**BYTES, **JSONL} if file.endswith(".json") else mutations_for(file)
        content = (place / file).read_bytes()
        name = rng.choice(sorted(set(known) - {"repeated_strings"}))
        (place / file).write_bytes(known[name](rng, content))
        with suppress(HeadtailError):
            data_info(str(place), {}, as_json=True)
            accepted += 1
    assert 0 < accepted < CASES


@pytest.mark.parametrize("inner", ["[" * 4000 + "]" * 4000, "{", "(10**12,)"])
def test_headers_that_are_none(store: Path, tmp_path: Path, inner: str) -> None:
    place = Path(shutil.copytree(store, tmp_path / "store"))
    assert load(place).links.shape[1] < LINKS
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {inner}, }}"
    (place / "links.npy").write_bytes(npy_with_header(header))
    with pytest.raises(DataError, match=r"links\.npy"):
        load(place)
