"""One typed, documented configuration tree.

The names of settings are unique over the whole tree, so a setting is written the same way everywhere:
`epochs: 25` inside `training:` in YAML, `--epochs 25` on the command line, `epochs=25` in Python.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from headtail.errors import ConfigError, did_you_mean
from headtail.presets import DEFAULT_PRESET, METHOD_DEFAULTS, PRESETS
from headtail.yamlfile import read_yaml


class Section(BaseModel):
    """Base of all sections: immutable, strict about types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def at_least(least: int, value: int | str) -> int | str:
    """Bounds a setting that is a number or a word."""
    if isinstance(value, int) and value < least:
        raise ValueError(f"must be at least {least}")
    return value


class ModelConfig(Section):
    """What is learned."""

    method: str = Field(
        "aml", description="aml, symmetric (one GNN for both ends), smlp (no GNN), or a baseline such as mf or ra"
    )
    encoder: str = Field("sage", description="head encoder: sage, gat, or a PyG convolution as pyg:GATv2Conv")
    hidden: int = Field(256, ge=1, le=65_536, description="columns of every representation (r)")
    layers: int = Field(3, ge=1, le=100, description="encoder layers (L)")
    scorer_layers: int = Field(3, ge=1, le=100, description="linear layers of the scorer MLP")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout after every layer")
    norm_momentum: float = Field(
        0.1, gt=0, le=1, description="weight of the newest batch in GraphNorm's running statistics"
    )
    norm_statistics: Literal["graph", "running"] = Field(
        "graph", description="GraphNorm's statistics in evaluation: of all nodes, or running ones from training"
    )
    reverse: bool = Field(False, description="AML-R: MLP for heads, GNN for tails")
    knowledge_transfer: bool = Field(True, description="tail branch shares the head's weights (KT)")
    residual: bool = Field(True, description="residual tail branch Δ")
    homophily: bool = Field(True, description="add the tail representation to the head's (HO)")
    pre_encoding: bool = Field(True, description="feed Â^L X to the tail encoder (PE); else X")
    evidence: str = Field(
        "none",
        description="what the scorer knows about a pair beside U ⊙ V: none, or some of degrees, common, paths, "
        "similarity and ages, with commas between",
    )


class GraphConfig(Section):
    """What the encoders see."""

    normalisation: Literal["row", "column", "symmetric"] = Field("row", description="of the message graph")
    structure: int | Literal["auto"] = Field(
        "auto",
        description="columns of structural features made from the training links; auto: `featureless` if there are "
        "no others",
    )
    featureless: int = Field(128, ge=1, description="columns of structural features for graphs without features")
    structure_from: str = Field("svd", description="what makes structural features: svd or mf (matrix factorisation)")

    @field_validator("structure")
    @classmethod
    def _not_negative(cls, value: int | str) -> int | str:
        return at_least(0, value)


class SamplingConfig(Section):
    """What a batch is."""

    batches: str = Field("rows", description="rows (Algorithm 1) or edges")
    links_per_batch: int = Field(65_536, ge=1, description="training links per batch (B)")
    batches_per_epoch: int = Field(1, ge=1, description="batches per epoch at least, with fewer links in each")
    neighbours: str = Field(
        "bns", description="neighbour sampler: bns, uniform or full; auto: full in small dense graphs, else bns"
    )
    fanout_output: int | Literal["all"] = Field(7, description="neighbours kept at the output layer (s̃₀)")
    fanout_inner: int | Literal["all"] = Field(2, description="neighbours kept at inner layers (s̃₁)")
    blocked: float = Field(0.5, gt=0, lt=1, description="share of blocked neighbours (δ, bns only)")
    negatives: str = Field(
        "auto",
        description="uniform or tail, or harder: popular or near; auto: tail for mrr, uniform for hits@K",
    )
    negatives_per_positive: int = Field(1, ge=1, description="negatives drawn for every training link")

    @field_validator("fanout_output", "fanout_inner")
    @classmethod
    def _positive(cls, value: int | str) -> int | str:
        return at_least(1, value)


class WalksConfig(Section):
    """What Node2vec walks."""

    walk_length: int = Field(20, ge=2, description="nodes of a random walk")
    walks_per_node: int = Field(2, ge=1, description="walks that start at every node, per epoch")
    window: int = Field(5, ge=1, description="steps apart at which two nodes of a walk still count as near")
    return_weight: float = Field(1.0, gt=0, description="weight 1/p of stepping back to where the walk came from")
    explore_weight: float = Field(1.0, gt=0, description="weight 1/q of stepping away from where the walk came from")


class SubgraphsConfig(Section):
    """What SEAL and DE-GNN cut out around a pair."""

    hops: int = Field(1, ge=1, le=100, description="hops around the two ends of a pair")
    nodes_per_hop: int | Literal["all"] = Field(50, description="most nodes that one hop adds, drawn at random")
    links_per_epoch: int | Literal["all"] = Field("all", description="training links drawn per epoch, to save time")

    @field_validator("nodes_per_hop", "links_per_epoch")
    @classmethod
    def _positive(cls, value: int | str) -> int | str:
        return at_least(1, value)


class TrainingConfig(Section):
    """How it is learned."""

    epochs: int = Field(50, ge=1, description="passes over the training links (T)")
    learning_rate: float = Field(
        0.005, gt=0, allow_inf_nan=False, description="of Adam, decays to 0 along a cosine (η)"
    )
    supervision: Literal["all", "newest"] = Field(
        "all", description="links to learn from: all; or, where links are dated, the newest given the older ones"
    )
    folds: int = Field(
        1,
        ge=1,
        description="parts that an epoch's links are dealt into, each hidden from encoders while it is learned",
    )
    averaging: float = Field(
        0.0, ge=0, lt=1, description="what a running average of the weights keeps of itself per step; 0: no average"
    )
    weight_decay: float = Field(0.0, ge=0, description="λ of the λ/2·‖W‖² penalty")
    objective: str = Field(
        "auto",
        description="focused, cross_entropy or squared_hinge; auto: cross_entropy for mrr, squared_hinge for hits@K",
    )
    final: bool = Field(False, description="once judged, also learn all links, held-out ones too, and answer by that")
    evaluate_every: int = Field(1, ge=1, description="epochs between evaluations on the validation links")
    seed: int = Field(0, ge=0, lt=2**63, description="fixes splits, weights, batches and negatives")
    device: str = Field("auto", description="cpu, cuda or auto")
    features_on: Literal["auto", "device", "host", "disk"] = Field(
        "auto", description="where features lie: device, host memory or disk; auto: the first that has room for them"
    )
    precision: Literal["auto", "bf16", "tf32", "fp32"] = Field(
        "auto",
        description="of matrix products and tables on a GPU; auto: bf16 with encoders sage and gat, else fp32",
    )


class SplitConfig(Section):
    """What is held out."""

    split: str = Field("auto", description="random, time, source or given; auto: given, else time, else random")
    valid_share: float = Field(0.05, gt=0, lt=0.5, description="share of links held out for validation")
    test_share: float = Field(0.1, gt=0, lt=0.5, description="share of links held out for the test")
    protocol: Literal["clean", "ogb", "val-as-train"] = Field(
        "clean",
        description="clean: no held-out link is seen; ogb: the split as published, leaks and all; "
        "val-as-train: that, and validation links are trained on",
    )
    drop_leaks: bool = Field(False, description="remove training links that are also held out, instead of refusing")
    drop_reversed: bool = Field(False, description="directed: also remove training links that reverse a held-out one")


class EvaluationConfig(Section):
    """How it is judged."""

    metric: str = Field("auto", description="mrr or hits@K; auto: what the data says, else mrr")
    eval_negatives: int = Field(
        300,
        ge=1,
        description="negatives where the data has none: per held-out link (mrr), in thousands (hits@K)",
    )
    test_graph: Literal["train", "train+valid"] = Field(
        "train", description="links the encoder may see when the test links are scored"
    )
    answers: Literal["chosen", "exact"] = Field(
        "chosen",
        description="what recommend ranks: chosen: candidates, by what is best on the validation links; exact: all "
        "nodes, by the method's own score, as methods that learn nothing always do",
    )


class Config(Section):
    """Everything that decides a run."""

    model: ModelConfig = ModelConfig()
    graph: GraphConfig = GraphConfig()
    sampling: SamplingConfig = SamplingConfig()
    walks: WalksConfig = WalksConfig()
    subgraphs: SubgraphsConfig = SubgraphsConfig()
    training: TrainingConfig = TrainingConfig()
    split: SplitConfig = SplitConfig()
    evaluation: EvaluationConfig = EvaluationConfig()

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(), sort_keys=False)


SECTIONS: dict[str, type[Section]] = {
    "model": ModelConfig,
    "graph": GraphConfig,
    "sampling": SamplingConfig,
    "walks": WalksConfig,
    "subgraphs": SubgraphsConfig,
    "training": TrainingConfig,
    "split": SplitConfig,
    "evaluation": EvaluationConfig,
}
# setting → its section; unique names are what lets flags and keyword arguments be flat
SECTION_OF: dict[str, str] = {setting: section for section, kind in SECTIONS.items() for setting in kind.model_fields}


def make_config(
    preset: str = DEFAULT_PRESET, file: str | Path | None = None, settings: Mapping[str, object] | None = None
) -> Config:
    """Builds a configuration: preset, what the method needs, YAML file, single settings; the later override.

    Raises:
        ConfigError: an unknown preset, key or value, with the nearest right one.
    """
    if preset not in PRESETS:
        raise ConfigError(f"unknown preset {preset!r}; {did_you_mean(preset, PRESETS)}")
    chosen = _read_yaml(Path(file)) if file is not None else {}
    chosen |= settings or {}
    merged: dict[str, object] = {**PRESETS[preset], **METHOD_DEFAULTS.get(str(chosen.get("method")), {}), **chosen}
    tree: dict[str, dict[str, object]] = {section: {} for section in SECTIONS}
    for key, value in merged.items():
        if key not in SECTION_OF:
            raise ConfigError(f"unknown setting {key!r}; {did_you_mean(key, SECTION_OF)}")
        tree[SECTION_OF[key]][key] = _number(key, value)
    return _validated(tree)


def _number(setting: str, value: object) -> object:
    """Reads a float that YAML takes for text: 1e-3 is a number to everyone but YAML 1.1."""
    if isinstance(value, str) and SECTIONS[SECTION_OF[setting]].model_fields[setting].annotation is float:
        try:
            return float(value)
        except ValueError:
            return value
    return value


def load_config(file: Path) -> Config:
    """Reads a complete configuration as `Config.to_yaml` wrote it; that of 0.1.0, which did not choose, is exact."""
    return make_config("paper", file, {} if "answers" in _read_yaml(file) else {"answers": "exact"})


def _read_yaml(file: Path) -> dict[str, object]:
    """Reads settings from YAML, under their sections or flat."""
    content = read_yaml(file)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{file} must map setting names to values, for example 'epochs: 25'.")
    flat: dict[str, object] = {}
    for key, value in content.items():
        if isinstance(value, dict) or (value is None and key in SECTIONS):
            if key not in SECTIONS:
                raise ConfigError(f"{file}: unknown section {key!r}; {did_you_mean(str(key), SECTIONS)}")
            fields = SECTIONS[key].model_fields
            for setting, chosen in (value or {}).items():
                if setting not in fields:
                    raise ConfigError(
                        f"{file}: unknown setting '{key}.{setting}'; {did_you_mean(str(setting), fields)}"
                    )
                flat[setting] = chosen
        elif key in SECTION_OF:
            flat[str(key)] = value
        else:
            known = [*SECTIONS, *SECTION_OF]
            raise ConfigError(f"{file}: unknown setting {key!r}; {did_you_mean(str(key), known)}")
    return flat


def _validated(tree: Mapping[str, Any]) -> Config:
    try:
        return Config.model_validate({name: SECTIONS[name](**values) for name, values in tree.items()})
    except ValidationError as error:
        first = error.errors()[0]
        setting = str(first["loc"][0])
        hint = SECTIONS[SECTION_OF[setting]].model_fields[setting].description
        raise ConfigError(
            f"setting '{setting}' cannot be {first['input']!r}: {first['msg'].lower()} ({hint})."
        ) from error
