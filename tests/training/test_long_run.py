"""Many epochs take no more memory and hold no more files than a few."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headtail.memory import resident_bytes
from headtail.training.observer import Observer
from tiny_runs import predictor, small_graph

WARM_EPOCHS, EPOCHS = 10, 30


class Watch(Observer):
    def __init__(self) -> None:
        self.bytes: list[int] = []
        self.files: list[int] = []

    def epoch_done(self, record: Mapping[str, Any]) -> None:
        self.bytes.append(resident_bytes())
        self.files.append(len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0)


@pytest.mark.slow
def test_nothing_grows_with_the_epochs(tmp_path: Path) -> None:
    watch = Watch()
    predictor(epochs=EPOCHS, averaging=0.9).fit(small_graph(), tmp_path / "run", observer=watch)
    assert len(watch.files) == EPOCHS
    assert len(set(watch.files[WARM_EPOCHS:])) == 1
    # A leak of the weights alone, 8 columns wide, would stay below; one of a checkpoint or a batch would not.
    assert watch.bytes[-1] - watch.bytes[WARM_EPOCHS] < 8 * 2**20
