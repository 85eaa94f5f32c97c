"""What a client's model is told about Outrider before it uses it: when to dispatch, how to wait, and never to invent."""

INSTRUCTIONS = """\
Outrider runs agents for you in the background. Each dispatched agent is an execution with an id.

When to dispatch: for work that needs tools or knowledge an agent has and you have not, that takes long, or that splits into
independent parts. Give every fact the agent needs in `task`: it sees nothing of this conversation. Dispatch what is
independent at once, one call each, before you wait for any of it.

How to wait: `dispatch_agent` and `run_chain` answer at once with an execution_id, never with a result. Then call `wait_for`
with all ids (mode `any` to work on what is there, `all` for everything) or `get_result` with one. An answer `running` is
normal: ask again after `retry_after_seconds`, or go on with something else. A call never waits longer than 50 seconds; the
execution goes on all the same, also when this conversation ends.

Never guess or invent a result. Until an execution has ended you do not have one; say so if you are asked. A result may be
`partial`, `failed`, `timed_out` or `cancelled`: report that, and what was found.

An answer with `waiting_for: approval` means that your user must decide whether a call of an agent may run. You cannot
decide: tell the user which execution waits, and for which call with which arguments, and go on waiting.

Steer a running agent with `send_message`, stop one with `cancel_agent` (mode `wrap_up` lets it answer with what it has).
Long results are cut; `read_result` reads on. `get_execution_tree` shows who did what and what it cost;
`list_executions` has earlier executions, too. The last six characters of an id will do.
"""
