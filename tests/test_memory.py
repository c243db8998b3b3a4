"""Freed memory is kept where the C library can, and only there."""

import os
import platform
import subprocess
import sys

import pytest

from headtail import memory
from headtail.memory import keep_freed_memory
from tiny_runs import trained


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


# In a process of its own: what other tests left free in this one would be used first.
# Arrays come from the same C library as tensors, and torch takes seconds to import.
PIECES = """
import numpy as np
from headtail import memory
memory.KEPT_BYTES, memory.KEPT_SHARE = 2**28, 0.0
assert memory.keep_freed_memory()
assert not memory.hand_back_surplus()
# half a GiB, every array with a small one behind it that stays in the way
held = [np.ones(size, dtype=np.float32) for _ in range(64) for size in (2**21, 2**10)]
full, small = memory.resident_bytes(), held[1::2]
del held
assert memory.resident_bytes() > full - 2**27  # freed, and kept
assert memory.hand_back_surplus()
assert memory.resident_bytes() < full - 2**28
assert not memory.hand_back_surplus()
assert all(float(one.min()) == 1 for one in small)
"""
STEPS = """
import numpy as np
from headtail import memory
memory.KEPT_BYTES, memory.KEPT_SHARE = 2**26, 0.0
assert memory.keep_freed_memory()
memory.hand_back_surplus()  # little was needed until now
handed_back = []
for _ in range(8):
    held = [np.ones(2**21, dtype=np.float32) for _ in range(32)]  # a quarter of a GiB, every time
    del held
    handed_back.append(memory.hand_back_surplus())
assert handed_back == [True] + [False] * 7, handed_back
"""


def ended(program: str) -> "subprocess.CompletedProcess[str]":
    environment = {name: value for name, value in os.environ.items() if name != "HEADTAIL_MALLOC"}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps memory")
@pytest.mark.parametrize("program", [PIECES, STEPS], ids=["pieces", "steps"])
def test_what_lies_free_in_pieces_is_handed_back_and_what_is_needed_again_is_kept(program: str) -> None:
    run = ended(program)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize(("available", "most"), [(2**40, 2**30 + 2**31 + 2**29), (2**30, 2**30 + 2**28), (0, 2**30)])
def test_what_may_be_kept_depends_on_what_is_left(available: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Libc:
        trimmed = 0

        def malloc_trim(self, _pad: int) -> None:
            self.trimmed += 1

    libc, resident = Libc(), 2**30
    monkeypatch.setattr(memory._Keeper, "libc", libc)
    monkeypatch.setattr(memory._Keeper, "most", None)
    monkeypatch.setattr(memory, "available_bytes", lambda: available)
    monkeypatch.setattr(memory, "resident_bytes", lambda: resident)
    assert not memory.hand_back_surplus()
    resident = most
    assert not memory.hand_back_surplus()
    resident = most + 1
    assert memory.hand_back_surplus()
    assert libc.trimmed == 1
    resident = 2**35  # whatever the next piece of work needs is kept
    assert not memory.hand_back_surplus()


def test_nothing_is_handed_back_where_nothing_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory._Keeper, "libc", None)
    monkeypatch.setattr(memory, "resident_bytes", lambda: 2**60)
    assert not memory.hand_back_surplus()


@pytest.mark.parametrize("place", ["training.learner", "evaluation.evaluator", "serving.topk"])
def test_all_that_works_in_blocks_hands_back(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(f"headtail.{place}.hand_back_surplus", lambda: calls.append(place))
    trained().recommend(k=3)
    assert calls
