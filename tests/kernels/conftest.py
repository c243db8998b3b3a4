"""Fused kernels are switched on for their tests."""

import pytest


@pytest.fixture(autouse=True)
def engine_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTAIL_ENGINE", "1")
