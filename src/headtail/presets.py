"""Presets: settings that belong together, by name; and what single methods need in their place."""

Value = bool | int | float | str

PRESETS: dict[str, dict[str, Value]] = {
    # What the paper publishes for ogbl-citation2 (docs/method.md, 5).
    "paper": {},
    # Meant to be at least as right as any heuristic on any graph (docs/strong.md).
    "strong": {
        "layers": 2,
        "evidence": "degrees,common,paths,similarity,ages",
        "batches_per_epoch": 8,
        "neighbours": "auto",
        "supervision": "newest",
        "folds": 3,
        "objective": "focused",
        "averaging": 0.99,
        "epochs": 24,
        "evaluate_every": 2,
        "learning_rate": 0.003,
        "featureless": 256,
    },
    # Good accuracy in minutes on two CPU cores.
    "fast": {
        "hidden": 64,
        "layers": 2,
        "scorer_layers": 2,
        "structure": 128,
        "links_per_batch": 4096,
        "epochs": 10,
        "learning_rate": 0.01,
        "negatives_per_positive": 2,
    },
}
DEFAULT_PRESET = "strong"

# What a method needs in place of the preset's settings: a subgraph per pair allows neither wide layers nor
# batches of 65,536, and a factorisation is one table of 128 columns (docs/method.md, 8).
METHOD_DEFAULTS: dict[str, dict[str, Value]] = {
    "mf": {"hidden": 128, "layers": 3, "scorer_layers": 1, "batches": "edges", "learning_rate": 0.01},
    "node2vec": {"hidden": 128, "layers": 1, "scorer_layers": 2, "learning_rate": 0.01},
    "seal": {"hidden": 32, "layers": 3, "dropout": 0.5, "links_per_batch": 256, "learning_rate": 0.001},
    "degnn": {"hidden": 32, "links_per_batch": 256, "learning_rate": 0.001},
}
