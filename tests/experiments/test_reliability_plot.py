"""The reliability plot shows every bin and its figures, and is written whole or not at all."""

from pathlib import Path

import matplotlib.image
import pytest
from matplotlib.figure import Figure

from headtail.errors import DataError, HeadtailError
from headtail.evaluation.reliability import Bin, Reliability
from headtail.experiments.reliability import reliability_plot

RESULT = Reliability(0.1234, 0.4321, 0.0567, [Bin(0.1, 0.2, 0, 900), Bin(0.6, 0.5, 30, 80), Bin(0.95, 0.9, 70, 3)])


def test_the_plot_shows_bins_counts_and_figures(tmp_path: Path, drawn: list[Figure]) -> None:
    reliability_plot(RESULT, "A title", tmp_path / "plot.PNG")
    assert matplotlib.image.imread(tmp_path / "plot.PNG", format="png").shape[:2] == (975, 780)
    shares, counts = drawn[0].axes
    assert shares.get_title(loc="left") == "A title\nBrier 0.1234, log loss 0.4321, ECE 0.0567"
    diagonal, tested = shares.get_lines()
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [0, 1]
    assert (list(tested.get_xdata()), list(tested.get_ydata())) == ([0.1, 0.6, 0.95], [0.2, 0.5, 0.9])
    assert [bar.get_height() for bar in counts.patches] == [0, 30, 70, 900, 80, 3]
    assert [label.get_text() for label in counts.get_xticklabels()] == ["0.1", "0.6", "0.95"]


def test_a_plot_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"plots are written as \.png or \.svg"):
        reliability_plot(RESULT, "A title", tmp_path / "plot.pdf")
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadtailError, match="cannot write"):
        reliability_plot(RESULT, "A title", tmp_path / "file" / "plot.png")
