"""The process the suite is run against: `python -m tests.conformance.server FOLDER`. It tells its URL on standard error.

The product as `outrider serve --http` makes it, with the fixtures installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from registry import HttpSpec, load
from server.app import Blueprint
from server.http_face.app import Building, over_http
from server.http_face.listen import parse_address
from server.serve import Serving
from server.service import Service
from tests.conformance.changing import enter_changes
from tests.conformance.installation import Installation
from tests.conformance.work import AGENTS, ASKING, FUNCTIONS, GATED, enter_work
from tests.support.models import ScriptedModel
from tests.support.service import OneModel

CONFIG = "agents: {confirm_delete: {description: Asks once.}, multi_input: {description: Asks twice.}}\n"


def main(folder: Path) -> None:
    """Serve until a signal comes."""
    file = folder / "config.yaml"
    file.write_text(CONFIG, encoding="utf-8")

    def blueprint() -> Blueprint:
        settings = load(file, {}, AGENTS)
        model = OneModel(ScriptedModel(ASKING))
        return Blueprint(settings, folder / "outrider.db", models=model, extra_tools=GATED, functions=FUNCTIONS)

    serving = Serving(blueprint)
    carry = over_http(Building(HttpSpec(), {}, serving), parse_address("127.0.0.1:0"), tell)

    async def with_fixtures(service: Service) -> None:
        installation = Installation(await service.server())
        installation.install()
        enter_work(installation.product)
        enter_changes(serving.updates)
        await carry(service)

    anyio.run(serving.run, with_fixtures)


def tell(url: str) -> None:
    """Say where it is."""
    sys.stderr.write(f"{url}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
