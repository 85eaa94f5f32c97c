"""Prompts: one for each chain, so that a user can start it from a client's menu.

Owns their arguments and wording. A prompt asks the client's model to call `run_chain` and wait; it starts nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping

import mcp_types as t

from registry import ChainSpec, Settings
from runner.tools.dispatch import GET_RESULT
from server.mcp_face.dispatch_tools import RUN_CHAIN

TASK, ALERT = "task", "alert"


def listed(settings: Settings) -> list[t.Prompt]:
    """A prompt for each chain, in the order of the configuration."""
    return [
        t.Prompt(name=chain.name, title=_title(chain), description=_description(chain), arguments=_fields(chain))
        for chain in settings.chains.values()
    ]


def made(chain: ChainSpec, given: Mapping[str, str]) -> t.GetPromptResult:
    """Build the prompt of a chain; raises ValueError, which names the argument that is missing or unknown."""
    fields = {field.name: bool(field.required) for field in _fields(chain)}
    for name in given:
        if name not in fields:
            raise ValueError(f"`{name}` is not a field of this prompt; its fields are: {', '.join(fields)}")
    values = {name: value.strip() for name, value in given.items() if value.strip()}
    for name, required in fields.items():
        if required and name not in values:
            raise ValueError(f"`{name}` is required")
    if not values:
        raise ValueError(f"give one of: {', '.join(f'`{name}`' for name in fields)}")
    words = [f"Run the chain `{chain.name}` with the tool `{RUN_CHAIN}`."]
    if TASK in values:
        words.append(f"Its task:\n\n{values[TASK]}")
    if ALERT in values:
        words.append(f"Its input is this alert, as an object:\n\n{values[ALERT]}")
    words.append(f"Then ask `{GET_RESULT}` until it has ended, and report what it found. Add nothing that is not in it.")
    message = t.PromptMessage(role="user", content=t.TextContent(type="text", text="\n\n".join(words)))
    return t.GetPromptResult(description=_description(chain), messages=[message])


def _title(chain: ChainSpec) -> str:
    return chain.name.replace("-", " ").replace("_", " ").capitalize()


def _description(chain: ChainSpec) -> str:
    stages = " → ".join(stage.name for stage in chain.stages)
    return chain.description or f"Run the chain {chain.name}: {stages}"


def _fields(chain: ChainSpec) -> list[t.PromptArgument]:
    task = t.PromptArgument(name=TASK, description="What to find out, in plain words.", required=not chain.alert_types)
    if not chain.alert_types:
        return [task]
    alert = f"The alert as JSON, as Alertmanager sends it ({', '.join(chain.alert_types)})."
    return [task, t.PromptArgument(name=ALERT, description=alert, required=False)]
