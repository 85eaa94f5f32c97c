"""The faults of upstream servers: what each does wrong, and what becomes of it over stdio and over HTTP.

Owns: the declarations. Must not know: how they are run or measured.
Invariant: a mode names the same misbehaviour on both transports; where only one can misbehave so, only one is declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.fault import Fault


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the model reads: the answer if `error` is empty, else an error of that type."""

    words: str
    error: str = ""
    not_taken: bool = False
    """Whether the error says that the call was not taken; after any other nobody knows what became of it."""


@dataclass(frozen=True, slots=True)
class UpstreamFault:
    """A fault and its outcome on each transport."""

    fault: Fault
    stdio: Outcome | None
    http: Outcome | None


def _both(name: str, happens: str, ends: str, outcome: Outcome, http: Outcome | None = None) -> UpstreamFault:
    return UpstreamFault(Fault(name, happens, ends), outcome, http or outcome)


def _stdio(name: str, happens: str, ends: str, outcome: Outcome) -> UpstreamFault:
    return UpstreamFault(Fault(name, happens, ends), outcome, None)


def _http(name: str, happens: str, ends: str, outcome: Outcome) -> UpstreamFault:
    return UpstreamFault(Fault(name, happens, ends), None, outcome)


_SILENT = Outcome("did not answer within", "timeout")
_INVALID = Outcome("not a valid message", "tool_error")
_LONG = Outcome("longer than 10 MB", "tool_error")
_OK = Outcome("ok")

CALLS: Sequence[UpstreamFault] = (
    _both("hangs", "never answers a call", "`timeout`; a server that gives no other sign of life is replaced", _SILENT),
    _both("dribbles", "answers with one byte each second", "`timeout`", _SILENT),
    _both(
        "dies",
        "ends, or cuts the connection, in the middle of a call",
        "`unavailable` with its last words; the next call reconnects",
        Outcome("ended with exit code 3; it said: panic: no more disk", "unavailable"),
        Outcome("broke off", "unavailable"),
    ),
    _both(
        "ends",
        "closes its output, or ends the stream, without an answer",
        "`unavailable`; the next call reconnects",
        Outcome("closed its output", "unavailable"),
        Outcome("ended its answer without a result", "unavailable"),
    ),
    _both(
        "cut_answer",
        "goes away after half an answer",
        "`unavailable`; the half is not used",
        Outcome("ended with exit code 3", "unavailable"),
        Outcome("broke off", "unavailable"),
    ),
    _both("huge", "answers with 100 MB", "`tool_error`; nothing is gathered beyond 10 MB", _LONG),
    _both("long_line_id_last", "answers with 12 MB, its id at the end", "`tool_error`", _LONG),
    _both("endless_line", "never ends its answer", "`tool_error` as soon as it passes 10 MB", _LONG),
    _both(
        "large",
        "answers with 8 MB",
        "the first 50 kB and where to read on; all of it is stored",
        Outcome("Read on with `read_result`"),
    ),
    _both(
        "wide",
        "answers with three million empty lists",
        "`tool_error`; they are never made",
        Outcome("more than 100000 values", "tool_error"),
    ),
    _both("deep_json", "answers with 100,000 nested lists", "`tool_error`", _INVALID),
    _both("cut_json", "answers with half a message", "`tool_error` at once", _INVALID),
    _both("surrogate", "answers with half a character", "`tool_error` at once", _INVALID),
    _both("bad_utf8", "answers in another encoding", "what can be read is", Outcome("caf�")),
    _both("nul", "answers with a NUL", "what can be read is", Outcome("a�b")),
    _both(
        "wrong_shape",
        "answers with something else than content",
        "`tool_error`",
        Outcome("an unusable answer", "tool_error"),
    ),
    _both(
        "wrong_id",
        "answers a question nobody asked",
        "stdio: `timeout`; HTTP: the answer, which only this request can mean",
        _SILENT,
        _OK,
    ),
    _both(
        "stale",
        "repeats earlier answers first",
        "stdio: the right answer; HTTP: the first, which only this request can mean",
        _OK,
        Outcome("stale"),
    ),
    _both("twice", "answers twice", "the first answer counts", Outcome("first")),
    _both("noise", "writes lines that are no messages around the answer", "the answer", _OK),
    _both("newlines", "writes 50,000 empty lines first", "the answer", _OK),
    _both("chatters", "writes 10 MB to standard error, or as comments", "the answer", _OK),
    _both("flood", "sends 19,200 notifications first, 18 MB", "the answer", _OK),
    _both(
        "endless_notifications",
        "sends notifications and nothing else",
        "`timeout`, or sooner the end of the connection",
        Outcome("whether it took effect is unknown", "timeout"),
    ),
    _both("change_flood", "tells 20,000 times that its tools changed", "the answer; one event", _OK),
    _both("question_flood", "asks 20,000 questions of its own first", "the answer", _OK),
    _stdio(
        "breeds", "leaves a child that hears no signal", "the answer; its whole group is killed at the end", Outcome("")
    ),
    _stdio("stubborn", "ignores the end of its input and SIGTERM", "the answer; it is killed at the end", _OK),
    _http(
        "status_401",
        "asks for credentials",
        "`tool_error` with the status",
        Outcome("HTTP 401", "tool_error", not_taken=True),
    ),
    _http("status_403", "forbids it", "`tool_error` with the status", Outcome("HTTP 403", "tool_error", not_taken=True)),
    _http(
        "status_404",
        "knows no such address",
        "`tool_error` with the status",
        Outcome("HTTP 404", "tool_error", not_taken=True),
    ),
    _http(
        "status_429",
        "has had too many requests",
        "`tool_error`; not repeated",
        Outcome("HTTP 429", "tool_error", not_taken=True),
    ),
    _http("status_500", "fails inside", "`tool_error`; not repeated", Outcome("HTTP 500", "tool_error")),
    _http(
        "forgets",
        "has forgotten the session",
        "`unavailable`; the next call reconnects",
        Outcome("forgotten", "unavailable", not_taken=True),
    ),
    _http(
        "redirect_metadata",
        "sends to a metadata address",
        "`tool_error`; not followed",
        Outcome("not followed", "tool_error", not_taken=True),
    ),
    _http(
        "redirect_host",
        "sends to another host",
        "`tool_error`; not followed",
        Outcome("not followed", "tool_error", not_taken=True),
    ),
    _http(
        "redirect_get",
        "turns the request into another",
        "`tool_error`; not followed",
        Outcome("not followed", "tool_error", not_taken=True),
    ),
    _http(
        "redirect_loop",
        "sends in circles",
        "`tool_error`; not followed",
        Outcome("not followed", "tool_error", not_taken=True),
    ),
    _http("web_page", "answers with a page to sign in", "`tool_error`", Outcome("text/html", "tool_error")),
    _http("accepts", "accepts the call and says no more", "`tool_error`", Outcome("202", "tool_error")),
    _http("empty_body", "answers with nothing", "`tool_error`", _INVALID),
    _http("short_body", "sends less than it announced", "`unavailable`", Outcome("broke off", "unavailable")),
    _http("endless_body", "never ends its body", "`tool_error` as soon as it passes 10 MB", _LONG),
    _http(
        "squeezed",
        "sends 100 MB in a small compressed body",
        "`tool_error`; never unpacked",
        Outcome("compressed", "tool_error"),
    ),
    _http(
        "resume_loop",
        "lets the client resume for ever",
        "`unavailable`; not resumed",
        Outcome("ended its answer", "unavailable"),
    ),
)

LISTS: Sequence[UpstreamFault] = (
    _both(
        "never_answers",
        "never answers the first question",
        "left out, and named to the model",
        Outcome("of its start", "unavailable"),
    ),
    _both(
        "mute_list",
        "never lists its tools",
        "left out, and named to the model",
        Outcome("did not list its tools", "unavailable"),
    ),
    _both(
        "list_dies",
        "goes away while it lists",
        "left out, and named to the model",
        Outcome("ended with exit code 3", "unavailable"),
        Outcome("broke off", "unavailable"),
    ),
    _both(
        "list_cut",
        "lists half a message",
        "left out, and named to the model",
        Outcome("not a valid message", "unavailable"),
    ),
    _both("list_huge", "lists 12 MB", "left out, and named to the model", Outcome("longer than 10 MB", "unavailable")),
    _both(
        "list_wrong_shape",
        "lists no tools but a text",
        "left out, and named to the model",
        Outcome("an unusable answer", "unavailable"),
    ),
    _both("cursor_loop", "lists the same page for ever", "each tool once; event `upstream.list_cut`", Outcome("list_cut")),
    _both("endless_pages", "lists another page for ever", "100 pages; event `upstream.list_cut`", Outcome("list_cut")),
    _both("many", "lists 1,400 tools at once", "the first 1,000; event `upstream.list_cut`", Outcome("list_cut")),
    _both(
        "far_too_many",
        "lists 10,000 tools at once",
        "left out, and named to the model",
        Outcome("more than 1500 tools at once", "unavailable"),
    ),
    _both(
        "large_description",
        "describes a tool in 1 MB",
        "16 kB of it; a schema over 100 kB is left out",
        Outcome("tool_left_out"),
    ),
    _both("twin", "lists a tool twice", "the first; event `upstream.duplicate_tool`", Outcome("duplicate_tool")),
    _both(
        "deep_schema",
        "nests a schema 120 deep",
        "the tool is left out; event `upstream.tool_left_out`",
        Outcome("tool_left_out"),
    ),
    _both(
        "reaching_schema",
        "refers a schema to a metadata address",
        "nothing is fetched; the tool is left out; event `upstream.tool_left_out`",
        Outcome("tool_left_out"),
    ),
    _stdio(
        "dies_at_start",
        "ends at once",
        "left out, and named to the model",
        Outcome("no configuration found", "unavailable"),
    ),
)
