"""The page of spans and metrics names what the code sends: each name, and no other."""

import re

from prometheus_client import Metric

from runner.telemetry import names
from server.metrics import Metrics
from tests.support.sources import ROOT

PAGE = (ROOT / "docs" / "reference" / "telemetry.md").read_text(encoding="utf-8")
DOTTED = re.compile(r"(?:gen_ai|outrider|mcp|jsonrpc|rpc|network|error)\.[a-z_.]+")
SCRAPED = re.compile(r"(?:gen_ai|outrider|mcp)_[a-z_]+")
VALUES = {"outrider.rehearsal"}
"""Values of attributes that look like names."""


def known() -> set[str]:
    """The names in the module of names."""
    values = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    return {value for value in values if DOTTED.fullmatch(value)}


def first_column(section: str) -> set[str]:
    """The names that head the rows of a section."""
    text = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    return {name for name in re.findall(r"^\| `([^`]+)` \|", text, re.M) if DOTTED.fullmatch(name)}


def test_the_page_has_each_name_of_the_code_and_no_other() -> None:
    assert first_column("Attributes") | first_column("Metrics") == known() - VALUES


def test_the_page_has_each_metric_that_is_scraped_as_it_is_scraped() -> None:
    families: list[Metric] = list(Metrics().registry.collect())
    counted = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    gauges = {"executions_running", "queue_depth", "approvals_waiting", "upstream_up", "build_info"}
    section = PAGE.partition("## Metrics\n")[2]
    rows = {found[1] for found in re.finditer(r"^\| `[^`]+` \| `([^`]+)` \|", section, re.M)}
    assert rows == counted | {f"outrider_{name}" for name in gauges}


def test_the_page_says_which_conventions_these_are() -> None:
    assert names.PINNED in PAGE
    assert names.SCHEMA in PAGE
