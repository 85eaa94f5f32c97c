"""The configuration: `config.yaml` as validated, frozen specs. `__all__` is what the other packages import.

Owns: agents, chains, models, upstream servers, users, limits, prices and catalogues as declared. Must not know: how
anything is run or stored. Invariant: no I/O but reading files; loaded settings never change.
"""

from registry.checks.input_schema import filled_in, meant
from registry.checks.output_schema import misfits
from registry.load.effective import is_rehearsed
from registry.load.endpoints import NO_ENDPOINT_HINT, check_endpoints, lacks_endpoint, no_endpoint
from registry.load.loading import load, missing_variables, restore
from registry.load.settings import Defaults, Settings
from registry.show.describe import describe, json_schema
from registry.show.provenance import PlaceLimits, Value, chain_limits, values
from registry.specs.agents import AgentOverrides, AgentReference, AgentSpec, Requires
from registry.specs.builtin_agents import SYNTHESIZER
from registry.specs.catalogue import CatalogueEntry, resolve_catalogue, sub_agent_registry
from registry.specs.chains import ChainSpec, StageAgent, StagePlace, StageSpec
from registry.specs.commands import ARGUMENTS, TOLD, ArgumentSpec, CommandSpec, PhaseSpec, RuleSpec, When
from registry.specs.components import Part, component_of
from registry.specs.context import ContextSpec, MemoryShown
from registry.specs.context_files import ContextFiles
from registry.specs.iterate import ComponentSpec, IterateSpec, is_component
from registry.specs.limits import RESERVE_SHARE, LimitOverrides, Limits, resolve_limits
from registry.specs.models import ModelSpec, Retry, StreamTimeouts
from registry.specs.plan import OnEmptyPlan, PlanSpec
from registry.specs.pricing import Cost, Price, Rates, Tokens, cost_of
from registry.specs.route import RouteSpec
from registry.specs.secrets import held_secrets
from registry.specs.serve import HttpSpec, OAuthSpec, OnDisconnect, ServeSpec, TokenSpec
from registry.specs.strategies import COMPOSITE, ROUTING_OR_PLAN
from registry.specs.tool_filter import ToolFilter
from registry.specs.upstreams import Effect, UpstreamSpec
from registry.specs.users import ChatMemorySpec, ChatSpec, UserSpec
from registry.specs.work_items import NOT_STARTED, Complexity, WorkItemSpec, WorkItemsSpec
from registry.specs.workspaces import WorkspaceSpec
from registry.text.errors import ConfigError, ConfigProblem, RegistryError, UnknownName
from registry.text.folder import Folder, UnreadableFile
from registry.text.names import fold, nearest
from registry.text.template_rendering import TooMuch
from registry.text.template_words import to_yaml
from registry.text.templates import Template

__all__ = [
    "ARGUMENTS",
    "COMPOSITE",
    "NOT_STARTED",
    "NO_ENDPOINT_HINT",
    "RESERVE_SHARE",
    "ROUTING_OR_PLAN",
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
    "ConfigProblem",
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
    "PlaceLimits",
    "PlanSpec",
    "Price",
    "Rates",
    "RegistryError",
    "Requires",
    "Retry",
    "RouteSpec",
    "RuleSpec",
    "ServeSpec",
    "Settings",
    "StageAgent",
    "StagePlace",
    "StageSpec",
    "StreamTimeouts",
    "Template",
    "TokenSpec",
    "Tokens",
    "TooMuch",
    "ToolFilter",
    "UnknownName",
    "UnreadableFile",
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
