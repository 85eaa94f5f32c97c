"""The packaged SRE example: one recorded incident, and three small MCP servers that let agents investigate it.

`story` says what happened, `record` writes it down as files, `incident` finds those files again, and `logs`, `metrics`
and `cluster` serve them over stdio. Nothing in here may know the runner, the registry or the database: to Outrider
these servers are upstreams like any other.
"""
