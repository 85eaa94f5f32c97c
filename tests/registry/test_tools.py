import pytest

from registry import ToolFilter


@pytest.mark.parametrize(
    ("allow", "deny", "tool", "server", "permitted"),
    [
        (None, (), "query", "loki", True),
        ((), (), "query", "loki", False),
        (("query",), (), "query", "loki", True),
        (("loki.query",), (), "query", "loki", True),
        (("loki.query",), (), "query", "prom", False),
        (("loki.*",), (), "anything", "loki", True),
        (("loki.*",), (), "dispatch_agent", None, False),
        (("*",), ("loki.delete*",), "delete_all", "loki", False),
        (("delete_all",), ("delete_all",), "delete_all", "loki", False),
        (None, ("dispatch_agent",), "dispatch_agent", None, False),
        (None, ("Query",), "query", "loki", True),
    ],
)
def test_deny_wins_and_names_match_plain_or_with_their_server(
    allow: tuple[str, ...] | None, deny: tuple[str, ...], tool: str, server: str | None, permitted: bool
) -> None:
    assert ToolFilter(allow, deny).permits(tool, server) is permitted
