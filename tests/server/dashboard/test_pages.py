"""The files of the pages and the data beside them."""

import re
from pathlib import Path

import pytest

from server.api.endpoint import JSON
from server.api.openapi import OPENAPI
from server.api.table import ENDPOINTS
from server.dashboard.files import STATIC
from server.site import twins
from tests.support.api_serving import ApiOptions, served_api
from tests.support.models import say

CONFIG = """
models: {m: {model: none}}
agents:
  Quick: {description: answers at once}
"""
TOKENS = """
serve: {http: {tokens: {alice: {token: '${ALICE}'}}}}
"""
SCRIPTS = {"Quick": [say("done")]}
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A small page, and a file beside the folder that no page may read."""
    folder = tmp_path / "static"
    (folder / "js").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Outrider</title>", encoding="utf-8")
    (folder / "js" / "app.js").write_text("export {};", encoding="utf-8")
    (folder / ".hidden").write_text("hidden", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (folder / "link.js").symlink_to(tmp_path / "secret.txt")
    return folder


async def test_every_page_is_the_same_file_with_a_policy_without_inline_code(tmp_path: Path, files: Path) -> None:
    async with served_api(tmp_path, CONFIG, SCRIPTS, ApiOptions(files=files)) as api, api.client() as client:
        for path in ("/", "/executions", "/executions/abc", "/agents", "/usage", "/sql", "/compare", "/static/js/app.js"):
            answer = await client.http.get(path)
            assert answer.status_code == 200, path
            parts = [each.strip().partition(" ") for each in answer.headers["content-security-policy"].split(";")]
            policy = {name: value for name, _, value in parts}
            assert policy == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            kind = "text/javascript" if path.endswith(".js") else "text/html"
            assert answer.headers["content-type"] == f"{kind}; charset=utf-8"


async def test_a_file_that_has_not_changed_is_not_sent_again(tmp_path: Path, files: Path) -> None:
    async with served_api(tmp_path, CONFIG, SCRIPTS, ApiOptions(files=files)) as api, api.client() as client:
        first = await client.http.get("/static/js/app.js")
        again = await client.http.get("/static/js/app.js", headers={"If-None-Match": first.headers["etag"]})
        (files / "js" / "app.js").write_text("export const x = 1;", encoding="utf-8")
        changed = await client.http.get("/static/js/app.js", headers={"If-None-Match": first.headers["etag"]})

    assert first.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert (changed.status_code, changed.text) == (200, "export const x = 1;")


async def test_an_address_with_a_version_is_asked_for_once_and_changes_with_any_file(tmp_path: Path, files: Path) -> None:
    (files / "index.html").write_text('<script src="/static/js/app.js"></script>', encoding="utf-8")
    async with served_api(tmp_path, CONFIG, SCRIPTS, ApiOptions(files=files)) as api, api.client() as client:

        async def named() -> str:
            page = await client.http.get("/")
            assert page.headers["cache-control"] == "no-cache"
            return page.text.split('"')[1]

        first = await named()
        kept = await client.http.get(first)
        (files / "js" / "app.js").write_text("export const x = 1;", encoding="utf-8")
        late = await client.http.get(first)
        second = await named()
        new, old = await client.http.get(second), await client.http.get(first)
        for strange in ("/static/v-0/js/app.js", second.removesuffix("js/app.js"), f"{second}x"):
            assert "immutable" not in (await client.http.get(strange)).headers.get("cache-control", "")

    assert (kept.text, kept.headers["cache-control"]) == ("export {};", "max-age=31536000, immutable")
    assert second != first
    assert (new.text, new.headers["cache-control"]) == ("export const x = 1;", "max-age=31536000, immutable")
    for other in (late, old):  # the content of another version is never kept under this one
        assert (other.text, other.headers["cache-control"]) == ("export const x = 1;", "no-cache")


@pytest.mark.parametrize(
    "path",
    [
        "/static/../secret.txt",
        "/static/%2e%2e/secret.txt",
        "/static/..%2fsecret.txt",
        "/static/js/..%2f..%2fsecret.txt",
        "/static/v-0/../secret.txt",
        "/static/v-0/..%2fsecret.txt",
        "/static/v-0",
        "/static//etc/passwd",
        "/static/%2fetc/passwd",
        "/static/.hidden",
        "/static/link.js",
        "/static/js",
        "/static/",
        "/static/nothing.js",
        "/static/a%00b",
        "/static/" + "x" * 5_000,
        "/favicon.ico",
    ],
)
async def test_no_path_names_what_is_not_a_file_of_the_pages(tmp_path: Path, files: Path, path: str) -> None:
    async with served_api(tmp_path, CONFIG, SCRIPTS, ApiOptions(files=files)) as api:
        status, body = await api.raw(path)

    assert status == 404
    assert "secret" not in body
    assert "root:" not in body


@pytest.mark.parametrize("config", [CONFIG, CONFIG + TOKENS])
async def test_a_browser_at_an_unknown_path_is_shown_the_page_and_a_program_gets_a_problem(
    tmp_path: Path, files: Path, config: str
) -> None:
    options = ApiOptions(files=files, environ={"ALICE": "a" * 40})
    async with served_api(tmp_path, config, SCRIPTS, options) as api, api.client() as client:
        page = await client.http.get("/nowhere/at/all", headers={"accept": "text/html,*/*;q=0.8"})
        others = [
            await client.http.get(path, headers={"accept": accept})
            for path in ("/nowhere", "/api/nowhere", "/static/nothing", "/executions/x.json")
            for accept in ("text/html", "*/*")
            if (path, accept) != ("/nowhere", "text/html")
        ]

    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"]
    assert "<title>Outrider</title>" in page.text
    assert {answer.headers["content-type"] for answer in others} == {"application/problem+json"}
    assert {answer.status_code for answer in others} <= {401, 404}


async def test_the_data_of_each_page_is_beside_it(tmp_path: Path, files: Path) -> None:
    async with served_api(tmp_path, CONFIG, SCRIPTS, ApiOptions(files=files)) as api, api.client() as client:
        run = (await client.post("/api/executions", 201, name="Quick", task="go"))["execution_id"]
        await client.ended(run)
        for page, asked in (
            ("/executions.json", "/api/executions"),
            (f"/executions/{run}.json", f"/api/executions/{run}"),
            (f"/executions/{run[-6:]}.json", f"/api/executions/{run}"),
            ("/agents.json", "/api/agents"),
            ("/usage.json?days=3", "/api/usage?days=3"),
            (f"/compare.json?a={run}&b={run}", f"/api/compare?a={run}&b={run}"),
            ("/sql.json", "/api/sql/schema"),
        ):
            assert await client.get(page) == await client.get(asked)
        rows = await client.get("/sql.json", sql="select agent from executions")
        await client.get("/executions/nothing.json", 404)

    assert rows["rows"] == [{"agent": "Quick"}]


async def test_no_browser_keeps_data_or_takes_them_for_a_page(tmp_path: Path, files: Path) -> None:
    async with served_api(tmp_path, CONFIG, SCRIPTS, ApiOptions(files=files)) as api, api.client() as client:
        run = (await client.post("/api/executions", 201, name="Quick", task="<script>"))["execution_id"]
        await client.ended(run)
        looked = [each for each in (*ENDPOINTS, OPENAPI) if each.method == "GET" and each.answers == JSON]
        paths = [*(f"/api{each.path}" for each in looked), *(each.path for each in twins())]
        answers = [await client.http.get(path.format(id=run)) for path in paths]
        answers += [await client.http.get(path) for path in ("/nothing", "/api/nothing", "/executions/<script>.json")]

    assert {answer.status_code for answer in answers} == {200, 404, 422}
    for answer in answers:
        assert answer.headers["content-type"] in ("application/json", "application/problem+json"), answer.url
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; ")
        assert answer.headers["content-security-policy"].endswith("; sandbox")


async def test_with_tokens_the_page_is_open_and_its_data_is_not(tmp_path: Path, files: Path) -> None:
    options = ApiOptions(environ={"ALICE": "a" * 40}, files=files)
    async with served_api(tmp_path, CONFIG + TOKENS, SCRIPTS, options) as api, api.client() as client:
        for path, status in (
            ("/", 200),
            ("/executions/abc", 200),
            ("/static/js/app.js", 200),
            ("/executions.json", 401),
            ("/executions/abc.json", 401),
            ("/sql.json", 401),
            ("/api/openapi.json", 401),
        ):
            assert (await client.http.get(path)).status_code == status, path
        assert (await client.http.post("/")).status_code == 401


def test_the_packaged_page_loads_nothing_from_elsewhere_and_has_no_inline_code() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")

    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"<style|\bstyle=|\bon\w+=|https?://|javascript:", page)
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert loaded
    for each in loaded:
        assert each.startswith(("/static/", "data:", "#")), each
        if each.startswith("/static/"):
            assert (STATIC / each.removeprefix("/static/")).is_file(), each
