"""Results that are too long for a model: cut where it can see it, stored, and read on with `read_result`."""

import re
from pathlib import Path

from runner.llm.protocol import Request
from tests.support.models import Turn, call, say
from tests.support.reading import answer, results, text_of
from tests.support.servers import raw_server
from tests.support.service import bench

CAP = 262_144
WHOLE = 7_980_000


async def test_a_long_result_is_cut_with_a_marker_stored_and_read_on_from_there(tmp_path: Path) -> None:
    def read_on(request: Request) -> Turn:
        marker = re.search(r'execution_id "([^"]+)", offset (\d+)', text_of(results(request)[0]))
        assert marker is not None
        return call("read_result", execution_id=marker[1], offset=int(marker[2]), limit=10)

    config = f"{{mcp_servers: {{box: {raw_server('large')}}}, agents: {{Solo: {{mcp_servers: [box]}}}}}}"
    async with bench(tmp_path, config, {"Solo": [call("box__poke"), read_on, say("read")]}) as service:
        assert (await service.run("Solo")).status == "completed"

        page = answer(service.model.of("Solo")[2])
        assert (page["text"], page["total"], page["next_offset"]) == ("x" * 10, WHOLE, page["offset"] + 10)
        query = "select length(result) as shown, length(full_result) as kept from tool_calls where tool = 'box.poke'"
        (row,) = service.sql(query)
        assert (CAP - 200 < row["shown"] <= CAP, row["kept"]) == (True, WHOLE)
