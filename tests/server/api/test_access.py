"""Who may do what: the same as over MCP, and no page of another site in the name of a person."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.api.table import ENDPOINTS
from server.caller.sessions import Sessions
from server.identity import LOCAL
from tests.support.api_serving import MARK, ApiClient, ApiOptions, ServedApi, served_api
from tests.support.models import say

CONFIG = """
models: {m: {model: none}}
agents:
  Quick: {description: answers at once}
"""
TOKENS = """
serve:
  http:
    max_body: 100000
    tokens:
      alice: {token: '${ALICE}'}
      bob: {token: '${BOB}', scopes: ['executions:read_all']}
"""
ALICE, BOB = "a" * 40, "b" * 40
WITH_TOKENS = ApiOptions(environ={"ALICE": ALICE, "BOB": BOB})
PROBLEM = "application/problem+json"


@asynccontextmanager
async def two_principals(folder: Path) -> AsyncIterator[tuple[ServedApi, ApiClient, ApiClient]]:
    """A service with two callers."""
    serving = served_api(folder, CONFIG + TOKENS, {"Quick": [say("done")]}, WITH_TOKENS)
    async with serving as api, api.client(ALICE) as alice, api.client(BOB) as bob:
        yield api, alice, bob


async def ran(client: ApiClient) -> str:
    """An execution that has ended."""
    started = await client.post("/api/executions", 201, name="Quick", task="go")
    await client.ended(started["execution_id"])
    return str(started["execution_id"])


def problem_of(answer: httpx2.Response, status: int) -> dict[str, Any]:
    """The problem in an answer, after the checks that hold for every problem."""
    assert answer.status_code == status, (answer.status_code, answer.text)
    assert answer.headers["content-type"] == PROBLEM
    found: dict[str, Any] = answer.json()
    assert set(found) == {"type", "title", "status", "detail", "hint"}
    assert (found["status"], bool(found["title"]), bool(found["detail"]), bool(found["hint"])) == (status, True, True, True)
    assert "Traceback" not in answer.text
    return found


def bodies() -> dict[str, Any]:
    return {"/message": {"text": "x"}, "/approve": {"shown": "x"}, "/deny": {"shown": "x"}}


async def test_what_belongs_to_another_is_as_unknown_as_what_never_was(tmp_path: Path) -> None:
    async with two_principals(tmp_path) as (_api, alice, bob):
        theirs = await ran(alice)
        paths = [endpoint for endpoint in ENDPOINTS if "/{id}" in endpoint.path]
        for endpoint in paths:
            answers = set[str]()
            for given in (theirs, theirs[::-1], theirs[-6:]):
                body: dict[str, Any] = next((each for end, each in bodies().items() if endpoint.path.endswith(end)), {})
                url = "/api" + endpoint.path.replace("{id}", given)
                sent = json.dumps(body).encode() if endpoint.method != "GET" else None
                answer = await bob.http.request(
                    endpoint.method, url, content=sent, headers={**MARK, "Content-Type": "application/json"}
                )
                problem_of(answer, 404)
                answers.add(answer.text)
            assert len(answers) == 1, endpoint.path
        assert len(paths) > 15
        for both in ({"a": theirs, "b": theirs},):
            problem_of(await bob.http.get("/api/compare", params=both), 404)
        assert (await bob.get("/api/executions"))["executions"] == []
        assert (await bob.get("/api/usage"))["by_agent"] == []
        assert await bob.get("/api/counts") == {"attention": 0, "running": 0, "finished": 0, "approvals": 0}
        assert len((await alice.get("/api/executions"))["executions"]) == 1


async def test_sql_needs_the_scope_that_reads_all(tmp_path: Path) -> None:
    async with two_principals(tmp_path) as (_api, alice, bob):
        asked = {"sql": "select count(*) as n from executions"}
        for answer in (
            await alice.http.post("/api/sql", json=asked),
            await alice.http.get("/api/sql/schema"),
            await alice.http.get("/sql.json", params=asked),
        ):
            assert "executions:read_all" in problem_of(answer, 403)["hint"]
        assert (await bob.post("/api/sql", sql=asked["sql"]))["rows"] == [{"n": 0}]
        twice = await bob.post("/api/sql", sql="select 1 as n, 2 as n")
        assert (twice["columns"], twice["rows"]) == (["n", "n_2"], [{"n": 1, "n_2": 2}])
        problem_of(await bob.http.post("/api/sql", json={"sql": "delete from executions"}), 422)


async def test_callers_with_tokens_start_what_is_configured_and_no_demo(tmp_path: Path) -> None:
    async with two_principals(tmp_path) as (_api, alice, _bob):
        assert (await alice.get("/api/session"))["demo"] is False
        assert "outrider demo" in problem_of(await alice.http.post("/api/demo", json={}, headers=MARK), 409)["hint"]


async def test_sql_answers_an_integer_that_a_browser_would_round_as_text(tmp_path: Path) -> None:
    async with two_principals(tmp_path) as (_api, _alice, bob):
        wide = "select 9007199254740991 as held, -9007199254740993 as wide, 9007199254740993.5 as near"
        assert (await bob.post("/api/sql", sql=wide))["rows"] == [
            {"held": 2**53 - 1, "wide": "-9007199254740993", "near": 9007199254740993.5}
        ]


async def test_every_path_but_the_pages_needs_a_token(tmp_path: Path) -> None:
    async with two_principals(tmp_path) as (api, _alice, _bob), api.client() as nobody:
        for path in ("/api/session", "/api/executions", "/api/nothing", "/executions.json", "/nothing", "/metrics"):
            answer = await nobody.http.get(path)
            problem_of(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
        problem_of(await nobody.http.get("/api/session", headers={"Authorization": "Bearer wrong"}), 401)
        assert (await nobody.http.post("/mcp")).json() == {"error": "missing bearer token"}
        assert (await nobody.http.head("/")).status_code == 200


async def test_a_token_is_exchanged_for_a_cookie_that_stands_for_its_principal_and_scopes(tmp_path: Path) -> None:
    async with two_principals(tmp_path) as (api, alice, _bob), api.client() as browser:
        mine = await ran(alice)
        problem_of(await browser.http.post("/api/session", json={"token": "no such token"}, headers=MARK), 401)
        entered = await browser.http.post("/api/session", json={"token": ALICE}, headers=MARK)
        cookie = entered.headers["set-cookie"]
        assert (entered.status_code, entered.content) == (204, b"")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert ALICE not in cookie
        who = await browser.get("/api/session")
        assert (who["principal"], who["local"], who["reads_all"]) == ("alice", False, False)
        assert [line["id"] for line in (await browser.get("/api/executions"))["executions"]] == [mine]
        assert (await browser.http.post("/mcp", headers=MARK)).status_code == 401  # no cookie opens MCP
        kept = cookie.partition(";")[0]
        for beside in ('theirs={"x": 1}', "two words", "flag", 'open="', "[a]=b", "name=é"):
            found = await browser.http.get("/api/session", headers=[(b"cookie", f"{beside}; {kept}".encode())])
            assert found.status_code == 200, beside
        left = await browser.http.delete("/api/session", headers={"X-Outrider": "1"})
        assert left.status_code == 204
        problem_of(await browser.http.get("/api/session", headers={"Cookie": kept}), 401)


@pytest.mark.parametrize("authenticated", [True, False])
async def test_a_page_of_another_site_changes_nothing(tmp_path: Path, authenticated: bool) -> None:
    options = WITH_TOKENS if authenticated else ApiOptions()
    config = CONFIG + TOKENS if authenticated else CONFIG
    async with served_api(tmp_path, config, {"Quick": [say("done")]}, options) as api, api.client() as browser:
        if authenticated:
            await browser.post("/api/session", 204, token=ALICE)
        kind = {"Content-Type": "application/json"}
        start = json.dumps({"name": "Quick", "task": "go"}).encode()
        for status, headers in (
            (403, kind),
            (403, {**kind, "X-Outrider": "yes"}),
            (415, MARK),
            (415, {**MARK, "Content-Type": "text/plain"}),
            (415, {**MARK, "Content-Type": "application/x-www-form-urlencoded"}),
            (403, {**kind, **MARK, "Sec-Fetch-Site": "cross-site"}),
            (403, {**kind, **MARK, "Sec-Fetch-Site": "same-site"}),
            (403, {**kind, **MARK, "Origin": "http://localhost:1"}),
            (403, {**kind, **MARK, "Origin": "http://evil.example"}),
        ):
            problem_of(await browser.http.post("/api/executions", content=start, headers=headers), status)
        problem_of(await browser.http.get("/api/executions", headers={"Sec-Fetch-Site": "cross-site"}), 403)
        assert api.bench.sql("select id from executions") == []
        own = {**kind, **MARK, "Sec-Fetch-Site": "same-origin", "Origin": api.url}
        assert (await browser.http.post("/api/executions", content=start, headers=own)).status_code == 201


async def test_a_one_time_token_opens_one_page_and_nothing_else_does(tmp_path: Path) -> None:
    sessions = Sessions()
    token = sessions.ticket(LOCAL)
    options = ApiOptions(sessions=sessions, asks_everyone=True)
    serving = served_api(tmp_path, CONFIG, {"Quick": [say("done")]}, options)
    async with serving as api, api.client() as first, api.client() as second, api.client(token) as bearer:
        problem_of(await first.http.get("/api/session"), 401)
        problem_of(await bearer.http.get("/api/session"), 401)
        await first.post("/api/session", 204, token=token)
        assert (await first.get("/api/session"))["local"] is True
        used = problem_of(await second.http.post("/api/session", json={"token": token}, headers=MARK), 401)
        assert "used" in used["detail"]
        problem_of(await second.http.get("/api/executions"), 401)
        assert (await first.http.post("/mcp", headers=MARK)).status_code == 401


async def test_every_refusal_is_a_problem(tmp_path: Path) -> None:
    async with two_principals(tmp_path) as (api, alice, _bob):
        post = alice.http.post
        problem_of(await alice.http.get("/api/nothing"), 404)
        problem_of(await alice.http.get("/nothing"), 404)
        wrong = await alice.http.put("/api/executions")
        problem_of(wrong, 405)
        assert wrong.headers["allow"] == "GET, HEAD, POST"
        problem_of(await post("/api/executions", content=b"{" * 200_000), 413)
        problem_of(await alice.http.get("/api/session", headers={"Host": "evil.example"}), 421)
        problem_of(await alice.http.get("/api/session", headers={"Origin": "http://evil.example"}), 403)
        problem_of(await alice.http.get("/api/session", headers={"X-Long": "x" * 20_000}), 431)
        for body in (
            b"",
            b"{",
            b"[]",
            b"5",
            b'{"name": 5}',
            b'{"name": "Quick", "task": "x", "more": 1}',
            b'{"name": "\xff"}',
            b'{"name": "Quick", "task": "x", "input": {"a": NaN}}',
            b'{"name": "Quick", "task": "x", "input": {"a": [1e400]}}',
            b'{"name": "Quick", "task": "x", "budget_usd": Infinity}',
            b'{"name": "Quick", "task": "x", "budget_usd": 1e400}',
            b'{"name": "Quick", "task": " "}',
            b'{"name": "Quick", "task": "x", "input": ' + b"[" * 5_000,
        ):
            problem_of(await post("/api/executions", content=body), 422)
        mine = await ran(alice)
        for path in (
            f"/api/executions/{mine}/tree?after={2**63}",
            f"/api/executions/{mine}/tree?first=0",
            f"/api/executions/{mine}/tree?first=10&after=1",
            f"/api/executions/{mine}/timeline?after={10**30}",
            f"/api/executions/{mine}/transcript?from={2**63}",
            "/api/executions?limit=0",
            "/api/executions?limit=x",
            "/api/executions?nothing=1",
            "/api/usage?days=-1",
            "/api/executions?cursor=zz",
            "/api/executions?cursor=%00",
            "/api/errors?cursor=zz",
        ):
            fault = problem_of(await alice.http.get(path), 422)
            assert "`" in fault["detail"]
        unknown = problem_of(await post("/api/executions", json={"name": "Qick", "task": "x"}), 404)
        assert "Quick" in unknown["hint"]
        assert unknown["type"] == "urn:outrider:problem:unknown_agent"
        problem_of(await post(f"/api/executions/{mine}/message", json={"text": " \n"}), 422)
        assert api.bench.sql("select id from executions") == [{"id": mine}]


def test_sessions_are_bounded_in_number_and_in_time() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0], most=2)
    first, second = sessions.enter(LOCAL), sessions.enter(LOCAL)
    assert sessions.find(first) == LOCAL  # used last
    third = sessions.enter(LOCAL)
    assert [sessions.find(each) for each in (first, second, third)] == [LOCAL, None, LOCAL]
    short = Sessions(lambda: now[0])
    bound = short.enter(LOCAL, expires_at=100.0)
    idle = short.enter(LOCAL)
    now[0] = 101.0
    assert short.find(bound) is None
    now[0] = 13 * 3600.0
    assert short.find(idle) is None
