/**
 * The answers of the HTTP API, as the pages read them. Names of columns are those of the tables.
 * A time is UTC text in ISO-8601; `seconds` is a number of seconds; money is US dollars. The answers for agents, usage, SQL,
 * comparison and session are in `types_pages.js`.
 */

/**
 * One execution of a tree, without its texts.
 * @typedef {object} TreeNode
 * @property {string} id
 * @property {string} short_id
 * @property {string | null} parent_execution_id
 * @property {string} root_execution_id
 * @property {number} level 0 for the top of the answered tree
 * @property {number} position
 * @property {string} agent
 * @property {string} role
 * @property {string} strategy
 * @property {string | null} stage
 * @property {string | null} step_id
 * @property {string | null} tool_call_id the row id of the parent's call that dispatched it
 * @property {string} task the first line, at most 200 characters
 * @property {Status} status
 * @property {string | null} outcome
 * @property {string | null} reason
 * @property {string | null} waiting_for
 * @property {string} activity what it does now, in words; empty once it has ended
 * @property {string | null} error at most 300 characters
 * @property {string | null} error_type
 * @property {string} summary of its result, at most 300 characters; empty until it has one
 * @property {boolean} owner_gone its process is gone: it can be resumed
 * @property {boolean} cancel_requested
 * @property {number} attempt more than 1: resumed after a crash
 * @property {string | null} continues_execution_id
 * @property {string | null} model
 * @property {string[]} pricing kinds of price of its calls: `priced`, `partly`, `unpriced`, `rehearsed`
 * @property {string} created_at
 * @property {string | null} started_at
 * @property {string | null} finished_at
 * @property {string | null} deadline_at
 * @property {number} turns
 * @property {number} tool_call_count
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {number} cache_read_tokens
 * @property {number} cache_write_tokens
 * @property {number} cost_usd
 * @property {number | null} budget_usd
 * @property {number | null} budget_tokens
 * @property {Times} times
 */

/** @typedef {"pending" | "running" | "completed" | "failed" | "timed_out" | "cancelled" | "blocked" | "skipped"} Status */

/**
 * Where the time of an execution went, in seconds; the parts do not overlap, and their sum is its age until now or its end.
 * @typedef {object} Times
 * @property {number} queue before it started
 * @property {number} model
 * @property {number} tool
 * @property {number} approval
 * @property {number} children it only waited for its children
 * @property {number} idle
 * @property {SpanKind | null} lasting the part that grows now; null once it has ended
 */

/** @typedef {"queue" | "model" | "tool" | "approval" | "children" | "idle"} SpanKind */

/**
 * One stretch of the time of an execution.
 * @typedef {object} Span
 * @property {SpanKind} kind
 * @property {string} started_at
 * @property {string | null} finished_at null while it lasts
 * @property {string} label the model or the tool
 * @property {string | null} ref the row id of the model call, tool call or approval
 * @property {boolean} is_error
 */

/**
 * A dispatch that was refused: a row below the execution that asked for it.
 * @typedef {object} RefusedDispatch
 * @property {string} id
 * @property {string} parent_execution_id
 * @property {string} agent
 * @property {string} kind
 * @property {string} message
 * @property {string} at
 */

/**
 * A tree, or, asked for with `after`, what of it has changed since.
 * @typedef {object} Tree
 * @property {string} id the top
 * @property {number} cursor the number of the newest event that this answer contains
 * @property {boolean} ended
 * @property {boolean} truncated
 * @property {number} executions how many there are in all
 * @property {TreeNode[]} nodes parents before children
 * @property {RefusedDispatch[]} refused
 * @property {Approval[]} approvals open questions of the tree
 * @property {string[]} critical_path ids from the top to the leaf that ended last
 */

/**
 * A question to a person.
 * @typedef {object} Approval
 * @property {string} id
 * @property {string} execution_id
 * @property {string} root_execution_id
 * @property {string} agent
 * @property {string} kind
 * @property {string} server
 * @property {string} tool
 * @property {string} arguments exactly as they will be sent, misleading characters escaped
 * @property {string} shown the digest to send with the decision
 * @property {string} requested_at
 * @property {string} expires_at
 */

/**
 * One line of a list.
 * @typedef {object} ExecutionLine
 * @property {string} id
 * @property {string} short_id
 * @property {string | null} parent_execution_id
 * @property {string} agent
 * @property {string} task
 * @property {Status} status
 * @property {string | null} outcome
 * @property {string | null} reason
 * @property {string} activity
 * @property {string | null} error
 * @property {boolean} owner_gone
 * @property {boolean} cancel_requested
 * @property {number} approvals open questions in its tree
 * @property {string | null} attention why it needs attention: `approval`, `interrupted`, `blocked`, `failed`, `timed_out`, `over_budget`
 * @property {string} created_at
 * @property {string | null} started_at
 * @property {string | null} finished_at
 * @property {number} seconds
 * @property {number} subtree_executions
 * @property {number} subtree_ended
 * @property {number} subtree_tokens
 * @property {number} subtree_cost_usd
 * @property {string[]} pricing
 */

/** @typedef {{executions: ExecutionLine[], next_cursor: string | null, searched_to: string | null}} ExecutionPage */

/**
 * One execution with its texts.
 * @typedef {object} Execution
 * @property {TreeNode} node
 * @property {string} task
 * @property {unknown} input
 * @property {Result | null} result
 * @property {{id: string, agent: string}[]} ancestors from the root down to its parent
 * @property {string | null} principal
 * @property {string | null} cancelled_by
 * @property {string | null} cancel_reason
 * @property {number | null} timeout_seconds
 * @property {{executions: number, tokens: number, cost_usd: number, seconds: number, by_status: Record<string, number>}} subtree
 * @property {string[]} warnings in words
 * @property {{words: string, hint: string}[]} needs what this process lacks to resume it
 * @property {Citation[]} citations calls that the answer names
 * @property {string[]} actions the actions that make sense now: `cancel`, `wrap-up`, `message`, `resume`, `rerun`
 * @property {string | null} clock_stopped_at since when its time stands still for a person; null: it runs
 * @property {{forked_from: string, at: string, kept: number} | null} origin of the top of a fork
 * @property {{id: string, agent: string}[]} continued_by
 */

/**
 * The return contract.
 * @typedef {object} Result
 * @property {string} outcome
 * @property {string} summary
 * @property {unknown} output
 * @property {string | null} reason
 * @property {Record<string, unknown>[]} artifacts
 * @property {{type: string, message: string, code: string | null, severity: string, recommendation: string | null}[]} errors
 * @property {string[]} next_steps
 * @property {Record<string, unknown>} signals
 * @property {Record<string, unknown>} metadata
 */

/**
 * A call that an answer cites as its evidence.
 * @typedef {object} Citation
 * @property {string} cited as it is written in the answer
 * @property {string | null} call_id null: no such call was made
 * @property {string | null} execution_id
 * @property {string} tool
 */

/**
 * @typedef {object} Transcript
 * @property {string} id
 * @property {TranscriptMessage[]} messages
 * @property {ModelCall[]} model_calls
 * @property {number} total messages in all
 * @property {number | null} next_position the position to go on from
 */

/**
 * @typedef {object} TranscriptMessage
 * @property {string} id
 * @property {number} position
 * @property {string} role
 * @property {string} kind
 * @property {Record<string, unknown>[]} content blocks; a text block has `type: "text"` and `text`
 * @property {string} created_at
 * @property {TranscriptCall[]} calls
 */

/**
 * @typedef {object} TranscriptCall
 * @property {string} id
 * @property {string} call_id
 * @property {string} tool
 * @property {string} server
 * @property {unknown} arguments
 * @property {string} effect
 * @property {string} status
 * @property {boolean} is_error
 * @property {string | null} error_type
 * @property {string | null} result
 * @property {boolean} truncated the result is cut here
 * @property {string} started_at
 * @property {string | null} finished_at
 * @property {string | null} child_execution_id the execution it started
 */

/**
 * @typedef {object} ModelCall
 * @property {string} id
 * @property {number} turn
 * @property {string} model
 * @property {string | null} stop_reason
 * @property {string} pricing
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {number} cache_read_tokens
 * @property {number} cache_write_tokens
 * @property {number} cost_usd
 * @property {string} started_at
 * @property {string} finished_at
 */

/**
 * A stored event has a number, `seq`; one that is not stored has none.
 * @typedef {object} StreamEvent
 * @property {number | null} seq
 * @property {string} type
 * @property {string} execution_id
 * @property {string | null} parent_execution_id
 * @property {string} root_execution_id
 * @property {string} at
 * @property {Record<string, unknown>} payload
 */

/** @typedef {{id: string, spans: Span[], events: StreamEvent[], next_seq: number | null}} Timeline */
/** @typedef {{type: string, title: string, status: number, detail: string, hint: string}} Problem */
/** @typedef {{words: string[], executions: number, running: number, pending: number}} Consequences */

/**
 * What a shell gives the core: where the data comes from, and what can be done.
 * @typedef {object} Source
 * @property {number | null} [writtenAt] when a file was written whose tree had not ended, in milliseconds
 * @property {(id: string, first?: number) => Promise<Tree>} tree all of it, or so many executions nearest to its top
 * @property {(id: string, after: number) => Promise<Tree>} changes
 * @property {(id: string) => Promise<Execution>} execution
 * @property {(id: string, from: number) => Promise<Transcript>} transcript
 * @property {(id: string) => Promise<Timeline>} timeline
 * @property {((id: string) => Promise<TranscriptCall>) | null} call one tool call with its whole result; null: none is cut
 * @property {((id: string) => Promise<Record<string, unknown> | null>) | null} plan its plan or tasks; null: none are known here
 * @property {((id: string, action: string) => Promise<Consequences>) | null} consequences what an action will do below, before it is done
 * @property {((id: string, action: string, body: Record<string, unknown>) => Promise<Record<string, unknown>>) | null} act null: read-only
 * @property {((id: string, after: number, listener: StreamListener) => () => void) | null} follow null: nothing changes any more
 */

/**
 * Everything about one tree in one file: what a page without a server shows. A file may hold more than this.
 * @typedef {object} Bundle
 * @property {string} format `outrider-bundle`
 * @property {number} version
 * @property {string} id the top
 * @property {string | null} [written_at] when it was written, if the tree had not ended
 * @property {Tree} tree
 * @property {Record<string, Execution>} executions by id
 * @property {Record<string, Transcript>} transcripts by id of the execution; whole
 * @property {Record<string, Timeline>} timelines by id of the execution; whole
 * @property {Record<string, unknown> | null} [recording] for a replay
 * @property {Record<string, unknown> | null} [digests] for a replay
 */

/** @typedef {"live" | "reconnecting" | "caught_up" | "ended"} StreamState */
/** @typedef {{event: (event: StreamEvent) => void, state: (state: StreamState, tries: number) => void}} StreamListener */

export {};
