"""The figures that the paper prints, to stand beside ours where the data set is the paper's."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """Mean and standard deviation in percent over five runs, and seconds of training where the paper has them."""

    mean: float
    std: float
    seconds: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.std:.2f}"


DATA = ("ogbl-collab", "ogbl-ppa", "ogbl-citation2")

# method: (mean, std[, seconds]) on collab, ppa, citation2
_FIGURES: dict[str, tuple[tuple[float, ...], ...]] = {
    "sage": ((54.57, 0.82, 7.9e3), (50.13, 0.55, 1.0e5), (86.39, 0.15, 7.3e4)),
    "aml": ((57.26, 1.25, 4.4e3), (49.73, 0.89, 3.0e4), (86.55, 0.06, 1.0e4)),
    "gat": ((56.43, 0.86, 7.8e3), (49.71, 0.48, 1.0e5), (86.50, 0.20, 7.4e4)),
    "aml-gat": ((57.60, 0.71, 4.5e3), (50.23, 0.78, 3.2e4), (86.70, 0.05, 1.0e4)),
    "cn": ((49.96, 0.0), (27.60, 0.0), (51.47, 0.0)),
    "aa": ((56.49, 0.0), (32.45, 0.0), (51.89, 0.0)),
    "node2vec": ((49.29, 0.64), (22.26, 0.88), (61.41, 0.11)),
    "mf": ((37.93, 0.76), (32.29, 0.94), (51.86, 4.43)),
    "degnn": ((57.87, 0.79, 6.1e4), (45.70, 3.46, 2.0e6), (78.85, 0.17, 1.1e6)),
    "seal": ((57.55, 0.72, 6.5e4), (48.80, 3.16, 2.0e6), (87.67, 0.32, 1.1e6)),
    "smlp": ((47.25, 0.89), (47.42, 1.37), (69.82, 0.05)),
    "aml-r": ((57.15, 0.32), (49.73, 0.45), (85.70, 0.10)),
    "aml-r-gat": ((57.08, 1.19), (50.30, 0.61), (85.91, 0.04)),
    "aml-no-kt": ((54.50, 0.90), (49.16, 1.07), (86.24, 0.05)),
    "aml-no-delta": ((54.61, 0.62), (49.00, 0.26), (86.26, 0.02)),
    "aml-no-ho": ((55.70, 1.75), (47.74, 0.66), (85.75, 0.10)),
    "aml-no-pe": ((43.90, 0.78), (1.97, 0.27), (60.82, 0.14)),
    "aml-no-kt-gat": ((54.60, 0.60), (47.38, 0.28), (86.28, 0.05)),
    "aml-no-delta-gat": ((54.56, 1.43), (47.04, 1.03), (86.30, 0.01)),
    "aml-no-ho-gat": ((55.73, 0.34), (47.86, 1.28), (85.83, 0.04)),
    "aml-no-pe-gat": ((43.95, 1.01), (2.95, 0.35), (60.89, 0.22)),
}


def published(data: str, method: str) -> Published | None:
    """Returns what the paper prints for a method on a data set; None where it prints nothing."""
    if data not in DATA or method not in _FIGURES:
        return None
    return Published(*_FIGURES[method][DATA.index(data)])
