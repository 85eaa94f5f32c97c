"""Endpoints: finds models of other vendors, by their ids, that have no `base_url`.

Owns: the names of other vendors' models, and the problem of one without an address. Must not know: how a model is
called. Invariant: an id without a known vendor is left to the provider.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from registry.load.settings import Settings
from registry.specs.models import ModelSpec
from registry.text.errors import ConfigError, TreePath

BASE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
"""The address of all models without their own."""
NO_ENDPOINT_HINT = f"give it the `base_url` of an endpoint that speaks the Messages API, or set `{BASE_URL_VARIABLE}`"

_OTHERS = (
    *("gpt", "chatgpt", "codex", "davinci", "o1", "o3", "o4", "gemini", "gemma", "palm", "llama", "codellama", "mistral"),
    *("mixtral", "ministral", "magistral", "codestral", "devstral", "deepseek", "qwen", "qwq", "grok", "command", "nova"),
    *(
        "titan",
        "phi",
        "kimi",
        "moonshot",
        "glm",
        "jamba",
        "falcon",
        "granite",
        "nemotron",
        "dbrx",
        "olmo",
        "sonar",
        "minimax",
    ),
)
_FOREIGN = re.compile(rf"(?:{'|'.join(_OTHERS)})(?=[-.:_\d]|$)", re.IGNORECASE)


def lacks_endpoint(spec: ModelSpec, environ: Mapping[str, str]) -> bool:
    """Say whether a model of another vendor or a gateway (`provider/id`) has no address."""
    foreign = "/" in spec.model or _FOREIGN.match(spec.model) is not None
    return foreign and spec.base_url is None and not environ.get(BASE_URL_VARIABLE)


def no_endpoint(spec: ModelSpec) -> str:
    """The message about such a model."""
    return f"`{spec.model}` is not a model of Anthropic, and `{spec.name}` has no `base_url`"


def check_endpoints(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise ConfigError with every model without an endpoint, except models that run rehearsed."""
    faulty = [
        spec
        for spec in settings.models.values()
        if lacks_endpoint(spec, environ) and (spec.rehearsal is None or environ.get(spec.api_key_env))
    ]
    if faulty:
        raise ConfigError(
            [settings.located.problem(_place(settings, spec), no_endpoint(spec), NO_ENDPOINT_HINT) for spec in faulty]
        )


def _place(settings: Settings, spec: ModelSpec) -> TreePath:
    """The path of a model's id: in its own entry, else its first mention."""
    own = ("models", spec.name, "model")
    if settings.located.value(own) is not None:
        return own
    return next((path for path in _named(settings.located.tree, ()) if settings.located.value(path) == spec.name), own)


def _named(value: Any, path: TreePath) -> Iterator[TreePath]:
    """Yield the paths that name a model."""
    steps: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, Mapping):
        steps = list(value.items())
    elif isinstance(value, list):
        steps = list(enumerate(value))
    for step, each in steps:
        if step == "model" and isinstance(each, str):
            yield (*path, step)
        elif step == "fallback" and isinstance(each, list):
            yield from ((*path, step, index) for index in range(len(each)))
        else:
            yield from _named(each, (*path, step))
