"""Features from text: deterministic, well scaled, telling, and defined for odd corpora."""

import numpy as np
import pandas as pd
import pytest

from headtail.datasets.text import join_texts, text_features
from headtail.errors import DataError

TOPICS = ["audio sound player music codec", "python module parser library", "game puzzle board cards chess"]


def corpus(size: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(TOPICS[row % 3].split(), 4)) for row in range(size)]


def test_same_numbers_every_time_and_unit_variance() -> None:
    features = text_features(corpus(1500), dim=8)
    assert features.dtype == np.float32
    assert features.shape == (1500, 8)
    assert np.array_equal(features, text_features(corpus(1500), dim=8))
    assert np.allclose(np.square(features).mean(axis=1), 1, atol=1e-4)


def test_texts_on_one_topic_are_closer() -> None:
    features = text_features(corpus(300), dim=8)
    cosine = features @ features.T / 8
    topic = np.arange(300) % 3
    same = topic[:, None] == topic
    assert cosine[same].mean() > cosine[~same].mean() + 0.3


def test_word_pieces_relate_words_that_share_a_stem() -> None:
    features = text_features(["parser", "parsers", "zebra", "zebras"], dim=4)
    cosine = features @ features.T
    assert cosine[0, 1] > cosine[0, 2] + 0.1


def test_tiny_corpora_give_fewer_dimensions_and_empty_texts_zeros() -> None:
    features = text_features(["alpha beta", "", "gamma", "-- ?!"], dim=128)
    assert features.shape == (4, 2)
    assert not features[[1, 3]].any()
    assert np.isfinite(features).all()
    assert features[[0, 2]].any(axis=1).all()
    assert text_features(["one"], dim=128).shape == (1, 1)


@pytest.mark.parametrize("texts", [["", ""], []])
def test_no_words_at_all(texts: list[str]) -> None:
    with pytest.raises(DataError, match="no word"):
        text_features(texts)


def test_dim_must_be_positive() -> None:
    with pytest.raises(DataError, match="not 0"):
        text_features(["a"], dim=0)


def test_letters_of_any_alphabet_count() -> None:
    features = text_features(["музыка звук", "музыка", "игра"], dim=2)
    assert features[0] @ features[1] > features[0] @ features[2]


def test_join_texts() -> None:
    frame = pd.DataFrame({"a": ["x", None], "n": [1, 2]})
    assert join_texts(frame) == ["x 1", " 2"]
