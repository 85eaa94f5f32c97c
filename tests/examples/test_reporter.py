"""The reporter: iterations that document a project, research a topic and take a first look, on real files. Only what models
say is rehearsed, and it follows what the files say.
"""

import ast
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from registry import misfits
from runner.snapshot import Snapshot
from tests.examples.playing import Said, play, settings_of
from tests.support.requirement import requirement
from tests.support.service import Bench
from tests.support.shell import Shell
from tests.support.sources import ROOT, repository_files

EXAMPLE = ROOT / "examples" / "reporter"
PAGES = ["docs/index.md", "docs/reference.md", "docs/setup.md", "docs/usage.md"]

OTHER = {
    "README.md": "# Kite\n\nKite flies in any wind.\n\n## Install\n\nRead `docs/start.md`.\n\n## Examples\n\n    kite up\n",
    "docs/start.md": "# Begin here\n\nTie the line to a tree.\n",
    "kite.py": '"""The kite itself."""\n\n\ndef rise(wind: float) -> float:\n    """Say how high it is."""\n    ...\n',
}


@asynccontextmanager
async def reporting(folder: Path, **variables: str) -> AsyncIterator[Bench]:
    """The reporter, writing into a folder of the test."""
    async with play("reporter", folder, REPORTER_OUTPUT=str(folder), **variables) as reporter:
        yield reporter.service


def written(folder: Path, files: Mapping[str, str]) -> str:
    """A folder with some files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder)


def pages(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in (folder / "docs").iterdir()}


def tasks(service: Bench, ended: Snapshot) -> list[dict[str, Any]]:
    """What its workers were given, and what became of it."""
    rows = [row for row in Said(service, ended.id, "").rows() if row["role"] == "worker"]
    return [{"task": row["task"], **json.loads(row["result"])["output"]} for row in rows]


def decisions(service: Bench, ended: Snapshot) -> list[dict[str, Any]]:
    query = "select payload from events where execution_id = ? and type = 'iterate.decided' order by seq"
    return [json.loads(row["payload"]) for row in service.sql(query, ended.id)]


def files(ended: Snapshot) -> list[str]:
    """What was written, as its result tells."""
    assert ended.result is not None
    return [each["path"] for each in ended.result.artifacts]


@requirement("S3-EX-1", "S3-CF-2", "S3-CF-3", "S3-BP-1", "S3-BP-6")
async def test_the_documenter_writes_what_the_files_of_the_project_say(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in EXAMPLE.rglob("*") if path.is_file()}
    places = settings_of("reporter", tmp_path).agent("documenter").workspaces
    assert {place.name: place.read_only for place in places} == {"source": True, "docs": False}
    async with reporting(tmp_path) as service:
        ended = await service.run("documenter", "", input={"audience": "cooks"})

        assert (ended.status, ended.result and ended.result.outcome.value) == ("completed", "completed")
        assert sorted(files(ended)) == PAGES
        check_planning(service, ended)
        shown = Said(service, ended.id, "").prompt("TaskPlanner")
        included = (EXAMPLE / "texts" / "planning.md").read_text(encoding="utf-8").strip()
        assert included in shown
        assert "Write for cooks." in shown

    check_reference(pages(tmp_path)["reference.md"])
    page = pages(tmp_path)
    assert "Pantry keeps track of what is on your shelves" in page["index.md"]
    assert "- [API reference](reference.md)\n- [Setup](setup.md)\n- [Usage](usage.md)" in page["index.md"]
    assert "- Python: >=3.11" in page["setup.md"]
    assert "- Command: `pantry = pantry.report:main`" in page["setup.md"]
    assert 'Shelf.read("rice, 2, 2031-05-01' in page["usage.md"]
    assert before == {path: path.read_bytes() for path in EXAMPLE.rglob("*") if path.is_file()}


def check_planning(service: Bench, ended: Snapshot) -> None:
    """One task a turn, none twice, each with a reason; what fails is gone about another way, and told."""
    decided, done = decisions(service, ended), tasks(service, ended)
    assert [len(each["tasks"]) for each in decided] == [1] * len(done) + [0]
    assert all(each["reasoning"] for each in decided)
    assert len({each["task"] for each in done}) == len(done)
    assert [each["success"] for each in done] == [True, True, False, True, True, True]
    failed, another = done[2:4]
    assert failed["error"]["message"] == "INSTALL.md: no such file or folder"
    assert failed["error"]["message"] in decided[3]["reasoning"]
    assert "setup.md" in failed["task"]
    assert "`pyproject.toml`" in another["task"]
    assert ended.result is not None
    assert failed["error"]["message"] in ended.result.text


def check_reference(page: str) -> None:
    """Every function of the sample stands there as it is written, with what it says of itself."""
    for file in (EXAMPLE / "sample" / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert f"## `{file.relative_to(EXAMPLE / 'sample').as_posix()}`" in page
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                line = text.splitlines()[node.lineno - 1].strip().removesuffix(":")
                assert f"- `{line}`: {ast.get_docstring(node)}\n" in page


async def test_another_project_gives_another_documentation(tmp_path: Path) -> None:
    async with reporting(tmp_path, REPORTER_SOURCE=written(tmp_path / "project", OTHER)) as service:
        ended = await service.run("documenter", "")

        assert [each["success"] for each in tasks(service, ended)] == [True] * 5
        assert ended.result is not None
        assert ended.result.text.startswith("The documentation of Kite is written:")

    page = pages(tmp_path)
    assert "- `def rise(wind: float) -> float`: Say how high it is." in page["reference.md"]
    assert "Tie the line to a tree." in page["setup.md"]
    assert "kite up" in page["usage.md"]
    assert "Kite flies in any wind." in page["index.md"]
    assert "antry" not in "".join(page.values())


async def test_what_a_project_does_not_say_is_not_made_up(tmp_path: Path) -> None:
    bare, empty = tmp_path / "bare", tmp_path / "empty"
    empty.mkdir()
    async with reporting(tmp_path, REPORTER_SOURCE=written(bare, {"README.md": "# Bare\n\nIt is small.\n"})) as service:
        ended = await service.run("documenter", "")
        assert [each["success"] for each in tasks(service, ended)] == [True, False, False, True]
        assert files(ended) == ["docs/index.md"]
    async with reporting(empty, REPORTER_SOURCE=str(empty)) as service:
        ended = await service.run("documenter", "")
        assert ended.result is not None
        assert ended.result.text.startswith("Nothing could be written.")
        assert files(ended) == []


@requirement("S3-EX-2", "S3-CF-2", "S3-BP-5", "S3-BP-6")
async def test_the_researcher_reports_on_a_topic_as_deep_as_it_is_asked_to(tmp_path: Path) -> None:
    async with reporting(tmp_path) as service:
        report, done = await research(service, topic="write-ahead logging", depth="comprehensive")
        headings = [section["heading"] for section in report["sections"]]
        assert headings[:3] == ["Background and context", "Current state of the art", "Key findings"]
        assert headings[3:] == ["Future directions", "Cross-references"]
        assert report["references"][0] == "library/write-ahead-logging.md (Write-ahead logging)"
        article = (EXAMPLE / "library" / "write-ahead-logging.md").read_text(encoding="utf-8")
        background = article.partition("## Background\n\n")[2].partition("\n\n")[0].replace("\n", " ")
        assert background in report["sections"][0]["content"]
        check_notes_are_shared(service, tmp_path)

        brief, shorter = await research(service, topic="lighthouses", depth="basic")
        assert [len(each) for each in (done, shorter)] == [3, 1]
        assert [section["heading"] for section in brief["sections"]] == ["Background and context"]
        assert "Fresnel" not in json.dumps(brief)

        nothing, tried = await research(service, topic="steam engines")
        assert [each["success"] for each in tried] == [False, False]
        assert tried[0]["task"] != tried[1]["task"]
        assert (nothing["sections"], nothing["references"]) == ([], [])
        assert nothing["executive_summary"] == "The library says nothing about steam engines."


def check_notes_are_shared(service: Bench, folder: Path) -> None:
    """What the first task wrote into the cache is what the others read there."""
    query = (
        "select tool, execution_id from tool_calls where json_extract(arguments, '$.workspace') = 'notes' order by rowid"
    )
    calls = service.sql(query)
    assert [call["tool"] for call in calls] == ["write_file", "read_file", "read_file"]
    assert len({call["execution_id"] for call in calls}) == 3
    noted = json.loads((folder / "notes" / "write-ahead-logging.json").read_text(encoding="utf-8"))
    assert [each["path"] for each in noted["articles"]] == ["write-ahead-logging.md", "checkpoints.md"]


async def research(service: Bench, **given: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A report that fits its schema, and the tasks behind it."""
    ended = await service.run("researcher", "", input=given)
    assert ended.result is not None, ended.error
    assert ended.result.outcome.value == "completed"
    agent = yaml.safe_load((EXAMPLE / "agents" / "researcher.yaml").read_text(encoding="utf-8"))
    schema = agent["iterate"]["completer"]["output_schema"]
    assert set(schema["required"]) == {"title", "executive_summary", "sections", "references"}
    assert not list(misfits(ended.result.output, schema))
    assert isinstance(ended.result.output, dict)
    return ended.result.output, tasks(service, ended)


async def test_another_library_gives_another_report(tmp_path: Path) -> None:
    library = {
        "tea.md": "# Tea\n\n## Background\n\nTea is a leaf.\n\n## Findings\n\nIt wants hot water.\n",
        "rain.md": "# Rain\n",
    }
    async with reporting(tmp_path, REPORTER_LIBRARY=written(tmp_path / "library", library)) as service:
        report, _ = await research(service, topic="tea")

    said = {section["heading"]: section["content"] for section in report["sections"]}
    assert said == {"Background and context": "Tea is a leaf. [tea.md]", "Key findings": "It wants hot water. [tea.md]"}
    assert report["references"] == ["library/tea.md (Tea)"]


@requirement("S3-BP-9")
def test_the_smallest_beginning_shows_each_component_once_and_a_shell_shows_what_was_written(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"REPORTER_OUTPUT": str(tmp_path / "out"), "OUTRIDER_CONFIG": str(EXAMPLE / "config.yaml")})
    shell.environ["OUTRIDER_DATABASE_URL"] = str(shell.database)

    first = shell.json("run", "first-look")
    long = shell.type("run", "documenter")
    looked = shell.type("show", long.stderr.rpartition("`outrider show ")[2].partition("`")[0])

    assert (first["status"], first["outcome"], first["reason"]) == ("completed", "partial", "max_iterations")
    assert first["result"]["output"].startswith("Pantry keeps track of what is on your shelves")
    roles = shell.rows("select role from executions where root_execution_id = ? order by created_at", first["execution_id"])
    assert [row["role"] for row in roles][1:] == ["planner", "worker", "completer"]
    assert (long.returncode, (tmp_path / "out" / "docs" / "index.md").is_file()) == (0, True)
    listed = "docs/reference.md, docs/setup.md, docs/usage.md, docs/index.md"
    assert f"note: files: {listed}\n" in long.stderr
    assert re.search(rf"^files +{listed}$", looked.stdout, re.MULTILINE)
    assert re.search(r"● TaskPlanner .*Write `usage.md`: the examples that `README.md` g", looked.stdout)
    assert re.search(r"● TaskWorker \(task\.2\) ", looked.stdout)


def test_git_does_not_know_what_the_reporter_writes() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()

    assert "examples/reporter/output/" in ignored
    assert not [file for file in repository_files() if file.is_relative_to(EXAMPLE / "output")]


@requirement("S3-BP-2")
def test_the_guide_contrasts_a_good_objective_with_a_poor_one() -> None:
    page = (ROOT / "docs" / "explanation" / "iterations.md").read_text(encoding="utf-8")
    section = page.partition("\n## The objective\n")[2].partition("\n## ")[0]

    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    (head, _, (good, poor)) = rows

    assert head == ["good", "poor"]
    assert re.search(r"`[a-z]+/[a-z]+`", good), "a good objective says where"
    assert len(re.split(r"[,.;] | and ", good)) > len(re.split(r"[,.;] | and ", poor)), "and what is to come of it"
    assert "specific" in section
