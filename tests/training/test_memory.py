"""Freed memory is kept where the C library can, and only there."""

import platform

import pytest

from headtail.training.memory import keep_freed_memory


def test_freed_memory_is_kept_with_glibc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTAIL_MALLOC", raising=False)
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")


def test_the_user_may_keep_the_systems_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_name: object) -> None:
        raise AssertionError("the C library must not be touched")

    monkeypatch.setattr("ctypes.CDLL", forbidden)
    monkeypatch.setenv("HEADTAIL_MALLOC", "system")
    assert keep_freed_memory() is False


def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADTAIL_MALLOC", raising=False)
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert keep_freed_memory() is False
