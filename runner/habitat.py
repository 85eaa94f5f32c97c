"""What executions live in. Children live where their parent does; those of another configuration have another habitat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.services import Services
from runner.tree import Tree
from runner.work import Strategy, Work

if TYPE_CHECKING:
    from runner.execution import Execution


@dataclass(frozen=True, slots=True)
class Habitat:
    """The surroundings of an execution."""

    services: Services
    tree: Tree
    begin: Callable[[Execution], tuple[Work, Strategy]]
    """Makes the work and the strategy of an execution that has just started."""
