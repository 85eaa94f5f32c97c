"""Which settings of a configuration may hold a secret, so that none is shown or stored.

Owns: the guess from a setting's place and name. Must not know: how settings are printed or stored.
Invariant: when in doubt it is one; a secret is masked whole.
"""

import re

from registry.errors import TreePath

MASK = "***"

_NAME = re.compile(r"(?i)(?:key|token|secret|passw|pwd|credential|auth|cookie|session|dsn|private|_pat$|^pat$)")
_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.-]*://(?:[^/\s]*@|[^\s]*\?)")


def may_be_secret(path: TreePath, value: object, before: object = None) -> bool:
    """Say whether the value of a setting may be a secret; `before` is the element before it in its list."""
    if not isinstance(value, str) or not value:
        return False
    if _ADDRESS.match(value):
        return True
    if len(path) > 3 and path[0] == "mcp_servers":  # section, server, setting, and below
        if path[2] == "headers":
            return True
        if path[2] == "env":
            return _NAME.search(str(path[3])) is not None
        if path[2] == "command":
            flag, equals, _ = value.partition("=")
            following = isinstance(before, str) and before.startswith("-") and "=" not in before
            return bool((equals and _NAME.search(flag)) or (following and _NAME.search(str(before))))
    return False
