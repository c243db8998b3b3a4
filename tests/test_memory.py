"""Freed memory is kept where the C library can, and only there."""

import platform

import pytest
import torch

from headtail import memory
from headtail.memory import keep_freed_memory


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


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is kept from here on, with a small bound."""
    monkeypatch.delenv("HEADTAIL_MALLOC", raising=False)
    if not keep_freed_memory():
        pytest.skip("this C library keeps nothing")
    monkeypatch.setattr(memory, "KEPT_BYTES", 2**28)
    monkeypatch.setattr(memory, "KEPT_SHARE", 0.0)
    monkeypatch.setattr(memory._Keeper, "needed", memory.resident_bytes())


def pieces(count: int) -> list[torch.Tensor]:
    """Tensors of half a GiB in all, each with a small one behind it that stays in the way."""
    return [torch.ones(size) for _ in range(count) for size in (2**27 // count, 1)]


@pytest.mark.usefixtures("keeping")
def test_what_lies_free_in_pieces_is_handed_back() -> None:
    held = pieces(64)
    full = memory.resident_bytes()
    small = held[1::2]
    del held
    assert memory.resident_bytes() > full - 2**28  # it is kept
    assert memory.hand_back_surplus()
    assert memory.resident_bytes() < full - 2**28
    assert not memory.hand_back_surplus()  # there is nothing to spare any more
    assert all(float(one) == 1 for one in small)


@pytest.mark.usefixtures("keeping")
def test_what_is_in_use_is_never_counted_twice() -> None:
    held = pieces(64)
    memory.hand_back_surplus()  # more is in use than before: the bound rises with it
    assert not memory.hand_back_surplus()
    assert all(float(one.min()) == 1 for one in held)


def test_nothing_is_handed_back_where_nothing_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory._Keeper, "libc", None)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 2**60)
    assert not memory.hand_back_surplus()
