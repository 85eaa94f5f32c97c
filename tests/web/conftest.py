"""The browser, and windows of it, for the tests of the page."""

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser

from tests.support.served_shell import free_port, serving
from tests.web.journeys import Journey, journey_shell
from tests.web.windows import Windows, chromium


@pytest.fixture(scope="package")
async def browser() -> AsyncIterator[Browser]:
    """One Chromium for the tests of this folder; the tests of others share no event loop with it."""
    async with chromium() as started:
        yield started


@pytest.fixture
async def windows(browser: Browser) -> AsyncIterator[Windows]:
    """Windows of the browser. A complaint of a page fails the test that opened it."""
    opened = Windows(browser)
    yield opened
    await opened.close()
    assert not opened.unexpected(), "\n".join(opened.unexpected())


@pytest.fixture(scope="package")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    """One server in a process of its own, for the tests that do not end it; each tree waits at its gate."""
    shell, port = journey_shell(tmp_path_factory.mktemp("journey")), free_port()
    gate = shell.gate("gate")
    with serving(shell, port, GATE=str(gate)):
        yield Journey(shell, f"http://127.0.0.1:{port}", gate)
