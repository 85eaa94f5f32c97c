/**
 * The answers of the HTTP API that only the pages beside the execution read; the others are in `types.js`. A time is UTC
 * text in ISO-8601; `seconds` is a number of seconds; money is US dollars.
 */

/** @import {Status} from "./types.js" */

/** @typedef {{attention: number, running: number, finished: number, approvals: number}} Counts roots, by group; approvals: open questions */

/**
 * What can be started, as the configuration declares it.
 * @typedef {object} Agents
 * @property {AgentSpec[]} agents
 * @property {ChainSpec[]} chains
 */

/**
 * @typedef {object} AgentSpec
 * @property {string} name
 * @property {string} strategy
 * @property {string} description
 * @property {string | null} model null: it asks no model
 * @property {string | null} function
 * @property {string[]} capabilities
 * @property {Record<string, unknown> | null} input_schema JSON schema of its input; null: it takes a task only
 * @property {string[]} commands
 * @property {string[]} workspaces
 * @property {string[]} mcp_servers
 * @property {string[]} sub_agents
 * @property {Record<string, number | null>} limits
 * @property {string} origin `config.yaml:14`, or `built-in`
 */

/**
 * @typedef {object} ChainSpec
 * @property {string} name
 * @property {string} description
 * @property {string[]} alert_types
 * @property {{name: string, agents: string[]}[]} stages
 * @property {Record<string, number | null>} limits
 * @property {string} origin
 */

/**
 * An upstream server, as this process sees it.
 * @typedef {object} Upstream
 * @property {string} name
 * @property {string} transport `stdio` or `http`
 * @property {string} state `idle` until an execution first needs it, `connecting`, `ready`, `unavailable`
 * @property {string | null} error why it is unavailable
 * @property {UpstreamTool[] | null} tools null while they are not known
 * @property {string[]} agents that may use it
 * @property {string} origin
 */

/** @typedef {{name: string, description: string, effect: string, gate: string}} UpstreamTool */

/**
 * Every value of the effective configuration, in the order of the file.
 * @typedef {object} Configuration
 * @property {string} source
 * @property {ConfigValue[]} values
 * @property {ModelPrice[]} prices dollars for a million tokens
 */

/** @typedef {{path: string, value: unknown, origin: string}} ConfigValue origin: `config.yaml:14`, `built-in` or `default` */

/**
 * @typedef {object} ModelPrice
 * @property {string} name
 * @property {string} model
 * @property {number | null} input null: no price is known
 * @property {number | null} output
 * @property {number | null} cache_read
 * @property {number | null} cache_write
 * @property {string} origin
 */

/**
 * @typedef {object} Usage
 * @property {string} since the first day, `2026-11-17`
 * @property {UsageRow[]} by_agent
 * @property {UsageRow[]} by_model
 * @property {UsageRow[]} by_day one row for each day with usage, oldest first
 * @property {UsageRow} total
 */

/**
 * @typedef {object} UsageRow
 * @property {string} name the agent, model or day
 * @property {number} executions
 * @property {number} failed
 * @property {number} model_calls
 * @property {number} input_tokens
 * @property {number} output_tokens
 * @property {number} cache_read_tokens
 * @property {number} cache_write_tokens
 * @property {number} cost_usd
 * @property {number} seconds
 * @property {string[]} pricing
 */

/** @typedef {{relations: {name: string, kind: "table" | "view", columns: string[]}[], examples: {title: string, sql: string}[], row_limit: number}} Schema */

/** @typedef {{columns: string[], rows: Record<string, unknown>[], truncated: boolean, seconds: number}} QueryAnswer */

/**
 * Two trees side by side.
 * @typedef {object} Comparison
 * @property {ComparedTree} a
 * @property {ComparedTree} b
 * @property {ComparedPair[]} pairs in the order of the tree: an execution of `a`, of `b`, or one of each that match
 * @property {boolean} equal
 */

/** @typedef {{id: string, short_id: string, agent: string, task: string, status: Status, outcome: string | null, seconds: number, tokens: number, cost_usd: number, pricing: string[], executions: number, created_at: string, answer: string}} ComparedTree */

/** @typedef {{level: number, agent: string, change: "same" | "changed" | "only_a" | "only_b", differs: string[], a: ComparedNode | null, b: ComparedNode | null}} ComparedPair differs: of `agent` (of the tops), `task`, `status`, `answer`, `calls`, `cost`, `time` */

/** @typedef {{id: string, short_id: string, status: Status, outcome: string | null, task: string, answer: string, seconds: number, tokens: number, cost_usd: number, tool_call_count: number, tool_calls: string[]}} ComparedNode answer: at most 2,000 characters */

/**
 * Who asks, and what this server is.
 * @typedef {object} Session
 * @property {string | null} principal null: a person at this machine
 * @property {boolean} local
 * @property {boolean} reads_all
 * @property {boolean} demo the offline demo can be started here
 * @property {string} version
 * @property {string} database a name without folders
 */

export {};
