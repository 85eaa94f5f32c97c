"""The windows in which tests look at pages notice what goes wrong there."""

import base64
import shutil

import pytest
from playwright.async_api import Browser

from tests.web.windows import NARROW, Windows, executable

POLICY = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">"""


def document(body: str) -> str:
    """The address of a page with this body, served by nobody."""
    return "data:text/html;base64," + base64.b64encode(f"<!doctype html><title>t</title>{body}".encode()).decode()


async def complaints(browser: Browser, body: str) -> list[str]:
    """The complaints of a page with this body."""
    windows = Windows(browser)
    page = await windows.open(document(body))
    await page.evaluate("1")
    await windows.close()
    return windows.unexpected()


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("<script>console.error('alas')</script>", "console: alas"),
        ("<script>throw new Error('oh')</script>", "uncaught: oh"),
        (POLICY + "<script>window.x = 1</script>", "console: policy: script-src-elem refuses inline"),
        (POLICY + "<p style='color: red'>red</p>", "console: policy: style-src-attr refuses inline"),
    ],
)
async def test_a_window_complains_of_errors_and_of_what_the_policy_refuses(
    browser: Browser, body: str, complaint: str
) -> None:
    assert any(each.startswith(complaint) for each in await complaints(browser, body))


async def test_a_window_is_silent_about_a_page_in_order_and_about_what_is_allowed(windows: Windows) -> None:
    windows.allow("^console: alas")
    await windows.open(document("<p>well</p><script>console.error('alas'); console.log('hello')</script>"))

    assert windows.unexpected() == []


async def test_windows_are_light_or_dark_and_wide_or_narrow(windows: Windows) -> None:
    dark = await windows.open(document(""), theme="dark", width=NARROW)
    light = await windows.open(document(""))

    assert await dark.evaluate("[matchMedia('(prefers-color-scheme: dark)').matches, innerWidth]") == [True, 390]
    assert await light.evaluate("[matchMedia('(prefers-color-scheme: dark)').matches, innerWidth]") == [False, 1440]


def test_without_a_browser_tests_fail_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)

    with pytest.raises(pytest.fail.Exception, match=r"no browser on the PATH: .*\nhint: run `make servers`"):
        executable()
