"""Baselines that are trained: their registry."""

from collections.abc import Callable
from typing import TypeAlias

from headtail.config import Config
from headtail.graph.task import LinkTask
from headtail.registry import Registry
from headtail.training.task_method import TaskMethod

Maker: TypeAlias = Callable[[LinkTask, Config], TaskMethod]
BASELINES: Registry[Maker] = Registry("trained baseline")
