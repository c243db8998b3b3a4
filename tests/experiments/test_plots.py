"""The accuracy–time plot is a picture of every curve, written whole or not at all."""

from pathlib import Path

import matplotlib.image
import pytest
from matplotlib.figure import Figure

from headtail.errors import HeadtailError
from headtail.experiments.plots import Curve, accuracy_time_plot

CURVES = [Curve("aml", [1.0, 2.0, 4.0], [10.0, 30.0, 35.0]), Curve("cn", [0.5], [20.0])]


def test_the_plot_shows_every_method(tmp_path: Path, drawn: list[Figure]) -> None:
    path = tmp_path / "deep" / "plot.png"
    accuracy_time_plot(CURVES, "MRR (%)", "A title", path)
    assert matplotlib.image.imread(path).shape[:2] == (585, 975)
    assert [entry.name for entry in path.parent.iterdir()] == ["plot.png"]
    (axes,) = drawn[0].axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["aml", "cn"]
    assert axes.get_ylabel() == "MRR (%)"
    assert "seconds" in axes.get_xlabel()
    assert axes.get_title(loc="left") == "A title"
    curve, point, level = axes.get_lines()
    assert list(curve.get_xdata()) == CURVES[0].seconds
    assert list(curve.get_ydata()) == CURVES[0].values
    assert list(point.get_ydata()) == [20.0]
    assert (list(level.get_xdata()), list(level.get_ydata())) == ([0.5, 4.0], [20.0, 20.0])


def test_no_figure_stays_open(tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    accuracy_time_plot(CURVES, "MRR (%)", "A title", tmp_path / "plot.png")
    assert plt.get_fignums() == before


def test_a_plot_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HeadtailError, match="cannot write"):
        accuracy_time_plot(CURVES, "MRR (%)", "A title", tmp_path / "file" / "plot.png")
