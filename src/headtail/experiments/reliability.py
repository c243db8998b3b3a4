"""The reliability plot: predicted probability against the share of links that came true."""

from pathlib import Path

from headtail.evaluation.reliability import Reliability
from headtail.files import replacing
from headtail.given import check_plot_file


def reliability_plot(reliability: Reliability, title: str, path: Path) -> None:
    """Writes a PNG or SVG, as the path says: observed shares beside the diagonal, and below the pairs of each bin."""
    check_plot_file(path)
    import matplotlib

    matplotlib.use("Agg")  # no screen is needed
    import matplotlib.pyplot as plt

    bins = reliability.bins
    figure, (axes, counts) = plt.subplots(2, figsize=(6, 7.5), dpi=130, height_ratios=(3, 1))
    axes.plot([0, 1], [0, 1], ":", color="grey", linewidth=1.2, label="perfectly calibrated")
    axes.plot([b.predicted for b in bins], [b.observed for b in bins], "o-", markersize=5, linewidth=2, label="tested")
    axes.set_xlabel("predicted probability (mean of the bin)")
    axes.set_ylabel("observed share of links (weighted: links as many as negatives)")
    axes.set_aspect("equal")
    axes.set_title(f"{title}\n{_in_words(reliability)}", loc="left", fontsize=11)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="upper left")
    places = range(len(bins))
    counts.bar([place - 0.2 for place in places], [b.links for b in bins], width=0.4, label="links")
    counts.bar([place + 0.2 for place in places], [b.negatives for b in bins], width=0.4, label="negatives")
    counts.set_yscale("symlog", linthresh=1)  # a bin may lack one of the two
    counts.set_xticks(places, [f"{b.predicted:.3g}" for b in bins], fontsize=7)
    counts.set_xlabel("bins, by predicted probability")
    counts.set_ylabel("pairs")
    counts.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)
    figure.tight_layout()
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower().removeprefix("."))
    plt.close(figure)


def _in_words(reliability: Reliability) -> str:
    figures = reliability.figures()
    return f"Brier {figures['brier']:.4f}, log loss {figures['log_loss']:.4f}, ECE {figures['ece']:.4f}"
