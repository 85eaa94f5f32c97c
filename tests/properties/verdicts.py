"""What must hold of the rows once everything has ended, each as a query for its violations.

Owns: the promises of the store about ends, cancels and deliveries, in SQL. Must not know: how the rows came about.
"""

from tests.support.service import Bench

PROMISES = {
    "every execution has ended": """
        select id from executions where status in ('pending', 'running') or finished_at is null""",
    "every execution has exactly one terminal event": """
        select executions.id, count(events.seq) as n from executions
        left join events on events.execution_id = executions.id and events.type = 'execution.status'
          and json_extract(events.payload, '$.status') not in ('pending', 'running')
        group by executions.id having n != 1""",
    "the terminal event says what the row says": """
        select executions.id from executions
        join events on events.execution_id = executions.id and events.type = 'execution.status'
        where json_extract(events.payload, '$.status') not in ('pending', 'running', executions.status)""",
    "every execution tells that it was born, that it started if it did, and its end": """
        select executions.id, count(events.seq) as n from executions
        left join events on events.execution_id = executions.id and events.type = 'execution.status'
        group by executions.id having n != 2 + (executions.started_at is not null)""",
    "whatever began in a timeline ended, once": """
        select begun.seq, count(ended.seq) as n from events as begun
        left join events as ended on ended.execution_id = begun.execution_id and ended.type = 'timeline_event.completed'
          and json_extract(ended.payload, '$.id') = json_extract(begun.payload, '$.id')
        where begun.type = 'timeline_event.created' group by begun.seq having n != 1""",
    "whatever ended in a timeline had begun, once": """
        select ended.seq, count(begun.seq) as n from events as ended
        left join events as begun on begun.execution_id = ended.execution_id and begun.type = 'timeline_event.created'
          and json_extract(begun.payload, '$.id') = json_extract(ended.payload, '$.id') and begun.seq < ended.seq
        where ended.type = 'timeline_event.completed' group by ended.seq having n != 1""",
    "every event says in which session its execution works": """
        select events.seq from events join executions on executions.id = events.execution_id
        where events.session_id is null or events.session_id is not executions.session_id""",
    "nothing succeeds or starts once it was asked to stop": """
        select happened.execution_id from events as happened
        join events as wish on wish.execution_id = happened.execution_id
        where wish.type = 'execution.progress' and json_extract(wish.payload, '$.action') = 'cancel requested'
          and happened.type = 'execution.status' and happened.seq > wish.seq
          and json_extract(happened.payload, '$.status') in ('pending', 'running', 'completed')""",
    "no tool call begins once its execution was asked to stop": """
        select begun.seq from events as begun
        join events as wish on wish.execution_id = begun.execution_id and wish.type = 'execution.progress'
          and json_extract(wish.payload, '$.action') = 'cancel requested'
        where begun.type = 'timeline_event.created' and begun.seq > wish.seq
          and json_extract(begun.payload, '$.kind') = 'tool'""",
    "nothing is born below a cancelled one": """
        with recursive above (id, ancestor) as (
            select id, parent_execution_id from executions where parent_execution_id is not null
            union all
            select above.id, executions.parent_execution_id from above
            join executions on executions.id = above.ancestor where executions.parent_execution_id is not null)
        select above.id from above
        join events as wish on wish.execution_id = above.ancestor and wish.type = 'execution.progress'
          and json_extract(wish.payload, '$.action') = 'cancel requested'
        join events as born on born.execution_id = above.id and born.type = 'execution.status'
        where born.seq > wish.seq and json_extract(born.payload, '$.status') in ('pending', 'running')""",
    "children end before their parents": """
        select child.execution_id from events as child
        join events as parent on parent.execution_id = child.parent_execution_id and parent.type = 'execution.status'
        where child.type = 'execution.status' and child.seq > parent.seq
          and json_extract(parent.payload, '$.status') not in ('pending', 'running')
          and json_extract(child.payload, '$.reason') is not 'parent_ended'""",
    "every child has exactly one delivery, in its parent's inbox": """
        select executions.id, count(deliveries.id) as n from executions
        left join deliveries on deliveries.child_execution_id = executions.id
          and deliveries.execution_id = executions.parent_execution_id
        where executions.parent_execution_id is not null group by executions.id having n != 1""",
    "one that completed has read everything": """
        select deliveries.id from deliveries join executions on executions.id = deliveries.execution_id
        where executions.status = 'completed' and deliveries.consumed_at is null""",
    "what was consumed is shown by the message or tool result that consumed it": """
        select deliveries.id from deliveries
        left join messages on messages.id = deliveries.consumed_by and messages.execution_id = deliveries.execution_id
        left join tool_calls on tool_calls.id = deliveries.consumed_by
          and tool_calls.execution_id = deliveries.execution_id
        where deliveries.consumed_at is not null
          and instr(coalesce(messages.content, tool_calls.result, ''), deliveries.child_execution_id) = 0""",
    "no report is shown twice, nor one that was read before": """
        select deliveries.id, count(messages.id) as n from deliveries
        join messages on messages.execution_id = deliveries.execution_id and messages.kind = 'delivery'
          and instr(messages.content, 'execution_id=\\"' || deliveries.child_execution_id) > 0
        group by deliveries.id
        having n > 1 or deliveries.consumed_by is null or max(messages.id) != deliveries.consumed_by""",
    "what get_result has told is not pushed afterwards": """
        select deliveries.id from tool_calls
        join deliveries on deliveries.child_execution_id = json_extract(tool_calls.result, '$.execution_id')
        join messages on messages.id = deliveries.consumed_by
        where tool_calls.tool = 'get_result' and not tool_calls.is_error
          and json_extract(tool_calls.result, '$.status') not in ('pending', 'running')
          and messages.created_at > tool_calls.finished_at""",
    "every tool call has its result": """
        select id from tool_calls where status = 'started' or result is null""",
    "a dispatch that made a child is answered with the child's id": """
        select executions.id from executions join tool_calls on tool_calls.id = executions.tool_call_id
        where tool_calls.status != 'completed' or instr(tool_calls.result, executions.id) = 0""",
    "siblings are numbered without repeats": """
        select parent_execution_id from executions where parent_execution_id is not null
        group by parent_execution_id having count(distinct position) != count(*)""",
    "own totals are the sums of the calls": """
        select executions.id from executions left join model_calls on model_calls.execution_id = executions.id
          and model_calls.pricing != 'lost'
        group by executions.id
        having executions.turns != count(model_calls.id)
          or executions.output_tokens != coalesce(sum(model_calls.output_tokens), 0)""",
}


def violations(service: Bench) -> list[str]:
    """The promises that are broken, with the rows that break them."""
    broken = {promise: service.sql(query) for promise, query in PROMISES.items()}
    return [f"{promise}: {rows[:3]} of {len(rows)}" for promise, rows in broken.items() if rows]
