"""A run folder that version 0.1.0 wrote opens, and answers as it did then."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from golden_runs import ANSWERS, OLD_RUN, answers
from headtail import LinkPredictor


def test_a_run_of_the_first_version_answers_as_it_did() -> None:
    wanted: Mapping[str, Mapping[str, Sequence[Any]]] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    found = answers(LinkPredictor.load(OLD_RUN, device="cpu"), evidence="training")  # all that there was then
    assert found.keys() == wanted.keys()
    for question, columns in wanted.items():
        assert found[question].keys() == columns.keys()
        for column, values in columns.items():
            rounded = column in ("score", "probability")
            assert found[question][column] == (pytest.approx(values, rel=1e-5, abs=1e-5) if rounded else values), column
