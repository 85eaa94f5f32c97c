"""The types that scripts are checked with say what the API answers: the same fields, null where they may be null."""

from __future__ import annotations

import re
import types
import typing

import pytest
from pydantic import BaseModel

from server.api import configured, requests, sql
from server.views import answers, figures, records
from server.web.inline import STATIC

MODELS: dict[str, type[BaseModel]] = {
    "TreeNode": answers.ExecutionNode,
    "Times": answers.Times,
    "Span": records.TimeSpan,
    "RefusedDispatch": answers.RefusedDispatch,
    "Tree": answers.ExecutionTree,
    "Approval": answers.Approval,
    "ExecutionLine": answers.ExecutionSummary,
    "ExecutionPage": answers.ExecutionPage,
    "Execution": answers.ExecutionDetail,
    "Result": answers.ResultDetail,
    "Citation": answers.Citation,
    "Transcript": records.TranscriptPage,
    "TranscriptMessage": records.TranscriptMessage,
    "TranscriptCall": records.TranscriptCall,
    "ModelCall": records.TranscriptModelCall,
    "StreamEvent": records.StreamEvent,
    "Timeline": records.Timeline,
    "Bundle": records.Bundle,
    "Counts": answers.Counts,
    "Agents": configured.DeclaredAgents,
    "AgentSpec": configured.DeclaredAgent,
    "ChainSpec": configured.DeclaredChain,
    "Upstream": configured.UpstreamState,
    "UpstreamTool": configured.UpstreamTool,
    "Configuration": configured.EffectiveConfiguration,
    "ConfigValue": configured.ConfigValue,
    "ModelPrice": configured.ModelPrice,
    "Usage": figures.UsageReport,
    "UsageRow": figures.UsageRow,
    "Comparison": figures.TreeComparison,
    "ComparedTree": figures.ComparedTree,
    "ComparedPair": figures.ComparedPair,
    "ComparedNode": figures.ComparedNode,
    "Consequences": requests.Consequences,
    "Session": requests.SessionState,
    "Schema": sql.SqlSchema,
    "QueryAnswer": sql.QueryTable,
}

_COMMENT = re.compile(r"/\*\*(.*?)\*/", re.DOTALL)
_SHORT = re.compile(r"@typedef \{\{(.*)\}\} (\w+)")
_LONG = re.compile(r"@typedef \{object\} (\w+)")
_PROPERTY = re.compile(r"@property \{(.*)\} \[?(\w+)")


def declared() -> dict[str, dict[str, bool]]:
    """Each type with its fields, and whether each may be null."""
    found: dict[str, dict[str, bool]] = {}
    text = "".join((STATIC / "js" / name).read_text(encoding="utf-8") for name in ("types.js", "types_pages.js"))
    for comment in _COMMENT.findall(text):
        if short := _SHORT.search(comment):
            found[short[2]] = {name: nullable(kind) for name, kind in fields(short[1])}
        elif long := _LONG.search(comment):
            lines = [line for line in comment.splitlines() if "@property" in line]
            found[long[1]] = {each[2]: nullable(each[1]) for line in lines if (each := _PROPERTY.search(line))}
    return found


def fields(text: str) -> list[tuple[str, str]]:
    """The fields of a type in one line; a comma inside brackets ends none."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{[<(") - (letter in "}])>")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [(name.strip(), kind.strip()) for name, _, kind in (part.partition(":") for part in parts)]


def nullable(kind: str) -> bool:
    """Whether a type admits null; `unknown` admits everything."""
    return kind == "unknown" or kind.endswith("| null")


def open_of(annotation: object) -> bool:
    """Whether a field of a model may be null."""
    return annotation is typing.Any or types.NoneType in typing.get_args(annotation)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_type_of_the_page_has_the_fields_of_the_answer(name: str) -> None:
    answered = {key: open_of(field.annotation) for key, field in MODELS[name].model_fields.items()}

    assert declared()[name] == answered


def test_no_answer_that_the_page_reads_is_left_out() -> None:
    not_answers = {"Status", "SpanKind", "Problem", "Source", "StreamListener"}

    assert set(declared()) - not_answers == set(MODELS)
