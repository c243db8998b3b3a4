"""A few hundred of the ten thousand damaged files of scripts/fuzz_readers.py, and any bytes at all for every suffix."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headtail import load
from headtail.config import make_config
from headtail.errors import HeadtailError
from headtail.files import read_tensors

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_few_hundred_damaged_files_are_accepted_or_refused() -> None:
    command = [sys.executable, str(REPOSITORY / "scripts" / "fuzz_readers.py"), "--count", "240", "--spare", "256"]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src"), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "| **all** | 240 |" in ended.stdout


SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".csv.gz", ".tsv.xz", ".parquet", ".npz")
ANY = st.binary(max_size=200) | st.text(alphabet='a1,;"\t\n\r #\0é', max_size=60).map(lambda text: text.encode())


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(content=ANY)
@settings(max_examples=40)
def test_any_bytes_are_a_graph_or_refused(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    path.write_bytes(content)
    with suppress(HeadtailError):
        assert load(path).num_nodes >= 2


@given(content=ANY)
@settings(max_examples=60)
def test_any_bytes_are_settings_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(content)
    with suppress(HeadtailError):
        make_config("fast", path)


@given(content=ANY)
@settings(max_examples=60)
def test_any_bytes_are_no_tensors(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(content)
    with pytest.raises(HeadtailError):
        read_tensors(path)
