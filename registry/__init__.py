"""What exists: `config.yaml` as validated, frozen specs.

Owns: agents, chains, models, upstream servers, users, limits, prices and catalogues as declared. Must not know: how
anything is run or stored. Invariant: no I/O but reading files; what was loaded never changes.
"""

from registry.agents import AgentOverrides, AgentReference, AgentSpec, Requires
from registry.catalogue import CatalogueEntry, resolve_catalogue, sub_agent_registry
from registry.chains import ChainSpec, Place, StageAgent, StageSpec
from registry.chat import ChatMemorySpec, ChatSpec
from registry.commands import ARGUMENTS, TOLD, ArgumentSpec, CommandSpec, PhaseSpec, RuleSpec, When
from registry.components import Part, component_of, is_component
from registry.context import ContextSpec, MemoryShown
from registry.context_files import ContextFiles
from registry.describe import describe
from registry.effective import is_rehearsed
from registry.endpoints import NO_ENDPOINT_HINT, check_endpoints, lacks_endpoint, no_endpoint
from registry.errors import ConfigError, Problem, RegistryError, UnknownName
from registry.folder import Folder, Unreadable
from registry.input_schema import filled_in, meant
from registry.iterating import ComponentSpec, IterateSpec
from registry.limits import RESERVE_SHARE, LimitOverrides, Limits, resolve_limits
from registry.loading import load, missing_variables, restore
from registry.masking import held_secrets
from registry.models import ModelSpec, Retry, StreamTimeouts
from registry.names import fold, nearest
from registry.output_schema import misfits
from registry.planning import OnEmptyPlan, PlanSpec
from registry.pricing import Cost, Price, Rates, Tokens, cost_of
from registry.provenance import PlaceLimits, Value, chain_limits, values
from registry.rendering import TooMuch
from registry.routing import RouteSpec
from registry.schema import json_schema
from registry.serving import HttpSpec, OAuthSpec, OnDisconnect, ServeSpec, TokenSpec
from registry.settings import Defaults, Settings
from registry.staff import SYNTHESIZER
from registry.strategies import CALLERS, CHOOSERS
from registry.template_words import to_yaml
from registry.templates import Template
from registry.tools import ToolFilter
from registry.upstreams import Effect, UpstreamSpec
from registry.users import UserSpec
from registry.work_items import NOT_STARTED, Complexity, WorkItemSpec, WorkItemsSpec
from registry.workspaces import WorkspaceSpec

__all__ = [
    "ARGUMENTS",
    "CALLERS",
    "CHOOSERS",
    "NOT_STARTED",
    "NO_ENDPOINT_HINT",
    "RESERVE_SHARE",
    "SYNTHESIZER",
    "TOLD",
    "AgentOverrides",
    "AgentReference",
    "AgentSpec",
    "ArgumentSpec",
    "CatalogueEntry",
    "ChainSpec",
    "ChatMemorySpec",
    "ChatSpec",
    "CommandSpec",
    "Complexity",
    "ComponentSpec",
    "ConfigError",
    "ContextFiles",
    "ContextSpec",
    "Cost",
    "Defaults",
    "Effect",
    "Folder",
    "HttpSpec",
    "IterateSpec",
    "LimitOverrides",
    "Limits",
    "MemoryShown",
    "ModelSpec",
    "OAuthSpec",
    "OnDisconnect",
    "OnEmptyPlan",
    "Part",
    "PhaseSpec",
    "Place",
    "PlaceLimits",
    "PlanSpec",
    "Price",
    "Problem",
    "Rates",
    "RegistryError",
    "Requires",
    "Retry",
    "RouteSpec",
    "RuleSpec",
    "ServeSpec",
    "Settings",
    "StageAgent",
    "StageSpec",
    "StreamTimeouts",
    "Template",
    "TokenSpec",
    "Tokens",
    "TooMuch",
    "ToolFilter",
    "UnknownName",
    "Unreadable",
    "UpstreamSpec",
    "UserSpec",
    "Value",
    "When",
    "WorkItemSpec",
    "WorkItemsSpec",
    "WorkspaceSpec",
    "chain_limits",
    "check_endpoints",
    "component_of",
    "cost_of",
    "describe",
    "filled_in",
    "fold",
    "held_secrets",
    "is_component",
    "is_rehearsed",
    "json_schema",
    "lacks_endpoint",
    "load",
    "meant",
    "misfits",
    "missing_variables",
    "nearest",
    "no_endpoint",
    "resolve_catalogue",
    "resolve_limits",
    "restore",
    "sub_agent_registry",
    "to_yaml",
    "values",
]
