"""The progress bar on a terminal, and its lines where there is none."""

import io

from rich.console import Console

from headtail.training.progress import ProgressBar
from tiny_runs import predictor, small_graph, trained


def shown(terminal: bool, **settings: int) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120)
    predictor(epochs=2, **settings).fit(small_graph(), observer=ProgressBar(console))
    return text.getvalue()


def test_a_line_per_epoch_where_there_is_no_terminal() -> None:
    history = trained(epochs=2).history
    lines = shown(terminal=False).splitlines()
    assert len(lines) == 2
    for epoch, (line, record) in enumerate(zip(lines, history, strict=True), 1):
        wanted = f"epoch {epoch}/2  loss {record['loss']:.4f}  valid mrr {100 * record['valid_mrr']:.2f}  "
        assert line.startswith(wanted)
        assert line.endswith(" links/s")


def test_an_epoch_without_validation_says_so() -> None:
    first, second = shown(terminal=False, evaluate_every=2).splitlines()
    assert "valid –" in first
    assert "valid mrr" in second


def test_a_terminal_sees_epoch_loss_metric_speed_and_time_left() -> None:
    last = shown(terminal=True).split("epoch")[-1]
    for part in (" 2/2 ", "loss 1.", "valid mrr", "links/s", "left"):
        assert part in last, part
