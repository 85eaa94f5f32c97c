import subprocess
import sys

import registry


def test_the_public_names_exist_and_are_in_order() -> None:
    assert all(hasattr(registry, name) for name in registry.__all__)
    assert len(set(registry.__all__)) == len(registry.__all__)


def test_importing_the_registry_brings_in_nothing_heavy() -> None:
    code = "import sys, registry; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert {"pydantic", "yaml"} <= set(done.stdout.split())
    assert not {"anyio", "asyncio", "anthropic", "mcp", "sqlalchemy", "rich"} & set(done.stdout.split())
