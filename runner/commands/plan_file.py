"""The file with the plan of a work item: in a workspace of those who work for commands, or beside the configuration.

Owns where it is looked for. Invariant: nothing outside of these folders is read.
"""

from __future__ import annotations

from registry import AgentSpec, Folder, Settings


def plan_text(settings: Settings, route: AgentSpec, path: str) -> str:
    """The text of a plan, whose path may begin with the name of a workspace; raises Unreadable."""
    workspaces = {each.name: each.path for name in route.route.commanded for each in settings.agent(name).workspaces}
    name, _, rest = path.partition("/")
    if rest and name in workspaces:
        return Folder(workspaces[name]).read(rest)
    return settings.context_files.folder.read(path)
