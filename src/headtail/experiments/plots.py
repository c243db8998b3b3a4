"""Plots: accuracy against time, the picture that shows what a method costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headtail.files import replacing


@dataclass(frozen=True)
class Curve:
    """The accuracy of one method after `seconds` of work; a method without training is a single point."""

    name: str
    seconds: Sequence[float]
    values: Sequence[float]


def accuracy_time_plot(curves: Sequence[Curve], metric: str, title: str, path: Path) -> None:
    """Writes a PNG or SVG, as the path says: trained methods as curves, others as level lines from their point."""
    import matplotlib

    matplotlib.use("Agg")  # no screen is needed
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.5), dpi=130)
    end = max(max(curve.seconds) for curve in curves)
    colours = plt.get_cmap("tab10")
    for place, curve in enumerate(curves):
        colour = colours(place % 10)
        if len(curve.seconds) > 1:
            axes.plot(curve.seconds, curve.values, "o-", color=colour, markersize=4, linewidth=2, label=curve.name)
        else:
            axes.plot(curve.seconds, curve.values, "s", color=colour, markersize=5, label=curve.name)
            axes.plot([curve.seconds[0], end], [curve.values[0]] * 2, ":", color=colour, linewidth=1.2)
    axes.set_xlabel("seconds of training; of scoring, where there is none")
    axes.set_ylabel(metric)
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    figure.tight_layout()
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.removeprefix("."))
    plt.close(figure)
