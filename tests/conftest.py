"""What every test shares: one hypothesis profile, and clean skips where a GPU or the real graphs are absent."""

import gc
import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# The same examples on every machine and in every run, and no time limit that a busy machine could miss.
settings.register_profile("headtail", max_examples=25, deadline=None, derandomize=True, database=None)
settings.load_profile("headtail")

REPOSITORY = Path(__file__).resolve().parents[1]


def shared_folder() -> Path:
    """Where the real graphs lie: $HEADTAIL_SHARED_DATA, or shared/data beside the repository."""
    chosen = os.environ.get("HEADTAIL_SHARED_DATA")
    return Path(chosen) if chosen else REPOSITORY.parent / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips `shared` and `gpu` tests where they cannot run."""
    folder = shared_folder()
    missing = {}
    if not folder.is_dir():
        missing["shared"] = f"the real graphs are not at {folder} (set HEADTAIL_SHARED_DATA)"
    if not torch.cuda.is_available():
        missing["gpu"] = "needs a CUDA device"
    for item in items:
        for marker, reason in missing.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Takes what is there for good, modules and tests, out of garbage collection: each would walk over it all."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Hands it back: libraries count what is left when a process ends."""
    gc.unfreeze()


@pytest.fixture
def shared_data() -> Path:
    """The folder of the real graphs, for tests marked `shared`."""
    return shared_folder()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Every device that the code under test must run on alike."""
    return torch.device(request.param)


@pytest.fixture
def generator() -> torch.Generator:
    """A source of randomness that is the same in every run."""
    return torch.Generator().manual_seed(0)
