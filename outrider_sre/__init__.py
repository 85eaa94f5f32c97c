"""The packaged SRE example: one recorded incident, and three small MCP servers that let agents investigate it.

`incident` finds the recorded files; `logs`, `metrics` and `cluster` serve them over stdio. The package imports nothing of
Outrider: to Outrider these servers are upstreams like any other. `tools/incident` of the repository writes the recording.
"""
