import json

import pytest

from registry import OAuthSpec, TokenSpec, describe, restore
from tests.registry.conftest import Load, Problems
from tests.support.requirement import requirement

AGENTS = """
agents:
  Worker: {description: Works}
  Silent: {}
  Lead: {description: Leads, type: orchestrator}
"""

WHOLE = (
    AGENTS
    + """
serve:
  agents: [lead, Worker]
  on_disconnect: cancel
  http:
    allowed_hosts: [Agents.Example.org, "10.1.2.3:8080", "[fd00::1]:80"]
    allowed_origins: [https://Console.example.org]
    max_body: 1000
    tokens: {alice: {token: "${ALICE_TOKEN}", scopes: [executions:read_all]}}
    oauth: {issuer: https://login.example.org, audience: https://agents.example.org/mcp, scopes: [agents]}
"""
)


def test_by_default_every_agent_with_a_description_is_offered_and_no_caller_authenticates(load_yaml: Load) -> None:
    settings = load_yaml(AGENTS)

    assert [entry.name for entry in settings.offered()] == ["Worker", "Lead", "Synthesizer"]
    assert (settings.serve.on_disconnect, settings.serve.shutdown_grace) == ("keep", 25.0)
    assert not settings.serve.http.authenticates


def test_the_section_says_who_is_offered_and_who_may_call(load_yaml: Load) -> None:
    serve = (settings := load_yaml(WHOLE)).serve

    assert [entry.name for entry in settings.offered()] == ["Lead", "Worker"]
    assert serve.on_disconnect == "cancel"
    assert serve.http.allowed_hosts == ("agents.example.org", "10.1.2.3:8080", "[fd00::1]:80")
    assert serve.http.allowed_origins == ("https://console.example.org",)
    assert serve.http.max_body == 1000
    assert dict(serve.http.tokens) == {"alice": TokenSpec("alice", "ALICE_TOKEN", frozenset({"executions:read_all"}))}
    assert serve.http.oauth == OAuthSpec("https://login.example.org", "https://agents.example.org/mcp", None, ("agents",))
    assert serve.http.authenticates
    assert settings.secret_variables() == {"ALICE_TOKEN", "ANTHROPIC_API_KEY"}


def test_an_empty_list_offers_no_agent(load_yaml: Load) -> None:
    assert load_yaml(f"{AGENTS}\nserve: {{agents: []}}").offered() == ()


def test_what_holds_is_shown_and_stored_with_tokens_by_reference(load_yaml: Load) -> None:
    settings = load_yaml(WHOLE, {"ALICE_TOKEN": "canary-7391-canary"})

    shown = describe(settings)
    assert 'token: "${ALICE_TOKEN}"  # config.yaml:14' in shown
    assert "on_disconnect: cancel  # config.yaml:9" in shown
    assert "canary" not in shown + settings.snapshot + repr(settings.serve)
    assert restore(settings.snapshot, {}).serve == settings.serve
    assert json.loads(load_yaml(AGENTS).snapshot)["config"]["serve"] == {
        "on_disconnect": "keep",
        "shutdown_grace": 25.0,
        "http": {"max_body": 4 * 1024 * 1024},
    }


@requirement("S2-VA-1", "S2-VA-3")
@pytest.mark.parametrize(
    ("serve", "path", "message", "hint"),
    [
        ("{agnets: []}", "serve.agnets", "unknown key `agnets`", "did you mean `agents`?"),
        ("{http: {token: {}}}", "serve.http.token", "unknown key", "did you mean `tokens`?"),
        ("{http: {oauth: {isuer: x}}}", "serve.http.oauth.isuer", "unknown key", "did you mean `issuer`?"),
        ("{agents: [Wroker]}", "serve.agents[0]", "no agent named `Wroker`", "did you mean `Worker`?"),
        ("{agents: [Silent]}", "serve.agents[0]", "`Silent` has no description", "`description`"),
        ("{agents: [Worker, worker]}", "serve.agents[1]", "`worker` is listed twice", "remove one"),
        ("{agents: }", "serve.agents", "has no value", "remove the key"),
        ("{on_disconnect: kep}", "serve.on_disconnect", "`kep` is not allowed here", "did you mean `keep`?"),
        ("{http: {max_body: 0}}", "serve.http.max_body", "must be at least 1", ""),
        ("{http: {allowed_hosts: ['https://x']}}", "serve.http.allowed_hosts[0]", "a host is a name", "agents.example.org"),
        ("{http: {allowed_hosts: ['x:99999']}}", "serve.http.allowed_hosts[0]", "a host is a name", "agents.example.org"),
        ("{http: {allowed_hosts: ['*']}}", "serve.http.allowed_hosts[0]", "a host is a name", "agents.example.org"),
        ("{http: {allowed_origins: [x]}}", "serve.http.allowed_origins[0]", "an `http://` or `https://` address", ""),
        ("{http: {allowed_origins: ['https://x/']}}", "serve.http.allowed_origins[0]", "a host is a name", ""),
        ("{http: {tokens: {a b: {token: '${T}'}}}}", "serve.http.tokens.a b", "cannot be a name here", "rename it"),
        ("{http: {tokens: {a: {scopes: []}}}}", "serve.http.tokens.a.token", "`token` is missing", "add `token:`"),
        ("{http: {tokens: {a: {token: literal}}}}", "serve.http.tokens.a.token", "never by its value", "${ALICE_TOKEN}"),
        ("{http: {tokens: {a: {token: '${T:-x}'}}}}", "serve.http.tokens.a.token", "never by its value", "${ALICE_TOKEN}"),
        (
            "{http: {tokens: {a: {token: '${T}'}, b: {token: '${T}'}}}}",
            "serve.http.tokens.b.token",
            "`${T}` is already the token of `a`",
            "a variable of its own",
        ),
        (
            "{http: {oauth: {issuer: 'http://login.example.org', audience: 'https://x/mcp'}}}",
            "serve.http.oauth.issuer",
            "an `https://` address is expected",
            "this machine",
        ),
        (
            "{http: {oauth: {issuer: 'https://u:p@login.example.org', audience: 'https://x/mcp'}}}",
            "serve.http.oauth.issuer",
            "without user, query and fragment",
            "",
        ),
        (
            "{http: {oauth: {issuer: 'https://login.example.org'}}}",
            "serve.http.oauth.audience",
            "`audience` is missing",
            "add `audience:`",
        ),
    ],
)
def test_a_mistake_in_the_section_is_told_with_its_line(
    problems_of: Problems, serve: str, path: str, message: str, hint: str
) -> None:
    problems = {problem.path: problem for problem in problems_of(f"{AGENTS}\nserve: {serve}")}
    problem = problems[path]

    assert (problem.file, problem.line) == ("config.yaml", 7)
    assert message in problem.message
    assert hint in problem.hint


def test_two_missing_tokens_are_two_problems_and_not_one_token_given_twice(problems_of: Problems) -> None:
    problems = problems_of("serve: {http: {tokens: {a: {token: first}, b: {token: second}}}}")

    assert [problem.path for problem in problems] == ["serve.http.tokens.a.token", "serve.http.tokens.b.token"]
    assert not [problem for problem in problems if "first" in problem.message or "already" in problem.message]
