"""When nobody looks for garbage, and that somebody looks again after it."""

import gc

from headtail.garbage import left_behind, unwatched


def test_imports_are_unwatched_and_nothing_after_them() -> None:
    assert gc.isenabled()
    with unwatched():
        assert not gc.isenabled()
        with unwatched():
            pass
        assert not gc.isenabled()  # as it was before the inner one
    assert gc.isenabled()


def test_what_a_program_leaves_is_looked_through_no_more() -> None:
    before = gc.get_freeze_count()
    with left_behind():
        kept = [[] for _ in range(100)]
    assert gc.get_freeze_count() >= before + len(kept)
