"""`outrider doctor`: one finding a check, with what to do about it; nothing is changed and no key is shown."""

import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from server.cli import main as entry
from tests.support.shell import CONFIG, SECONDS, Shell, make_shell

SOUND = CONFIG.replace("  absent: {command: ['no-such-program'], required: false}\n", "").replace(
    ", mcp_servers: [absent]", ""
)


class Doctor:
    """The command in this process: its exit code, its findings by name."""

    def __init__(self, shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
        self.shell, self._capsys = shell, capsys

    def __call__(self, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        code = entry.main(["doctor", "--json", *words])
        told = json.loads(self._capsys.readouterr().out)
        assert told["ok"] is (code == 0)
        return code, {finding["name"]: finding for finding in told["checks"]}

    def text(self, *words: str) -> str:
        """What a person reads."""
        entry.main(["doctor", *words])
        return self._capsys.readouterr().out


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """A doctor in a folder without servers; nothing of the surroundings counts."""
    shell = make_shell(tmp_path, "models: {rehearsed: {model: none, rehearsal: script.yaml}}\nagents: {Quick: {}}\n")
    monkeypatch.chdir(tmp_path)
    for variable in ("ANTHROPIC_API_KEY", "OUTRIDER_CONFIG", "OUTRIDER_DATABASE_URL", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return Doctor(shell, capsys)


def test_everything_is_there(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, SOUND)

    done = shell.type("doctor", fresh=True)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(line.startswith("✓ ") for line in lines), done.stdout
    assert [line[2:18].strip() for line in lines] == [
        *("python", "terminal", "import names", "sqlite", "database", "configuration"),
        *("model rehearsed", "upstream gate"),
    ]
    assert "1 tool in " in lines[-1]
    assert "protocol 2025-11-25" in lines[-1]
    assert {path.name for path in shell.folder.iterdir()} == {"config.yaml", "script.yaml"}


def test_a_server_that_fails_or_says_nothing_is_named_and_harms_no_other(doctor: Doctor) -> None:
    servers = f"""\
mcp_servers:
  absent: {{command: [no-such-program]}}
  mute: {{command: ['{sys.executable}', -c, 'import sys; sys.stdin.read()'], start_timeout: 300ms}}
  loud: {{command: ['{sys.executable}', -c, 'import os; os.write(2, os.environb[b"TOKEN"])'], env: {{TOKEN: sk-canary}}}}
"""
    config = doctor.shell.folder / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8") + servers, encoding="utf-8")

    code, found = doctor()

    assert code == 2
    assert "no-such-program" in found["upstream absent"]["detail"]
    assert found["upstream absent"]["hint"].startswith("check `mcp_servers.absent` in the configuration")
    assert found["upstream mute"]["detail"].startswith("did not answer within 0.3 s")
    assert found["upstream loud"]["detail"].endswith("it said: ***")
    wrong = {name for name, finding in found.items() if not finding["ok"]}
    assert wrong == {"upstream absent", "upstream mute", "upstream loud"}


def test_a_configuration_that_does_not_load(doctor: Doctor) -> None:
    doctor.shell.folder.joinpath("config.yaml").write_text("agents: {Quick: {colour: red}}\n", encoding="utf-8")

    code, found = doctor()

    assert (code, found["configuration"]["state"]) == (2, "failed")
    assert "config.yaml:1" in found["configuration"]["detail"]
    assert list(found)[-1] == "configuration"


def test_a_key_is_said_to_be_there_and_never_shown(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    config = doctor.shell.folder / "config.yaml"
    config.write_text("models: {sonnet: {model: m, api_key: '${MY_KEY}'}}\nagents: {Quick: {}}\n", encoding="utf-8")

    code, found = doctor()
    assert code == 2
    assert found["model sonnet"]["detail"] == "the model `sonnet` has no API key and no rehearsal"
    assert "`MY_KEY`" in found["model sonnet"]["hint"]

    monkeypatch.setenv("MY_KEY", "sk-canary")
    code, found = doctor()
    assert (code, found["model sonnet"]["detail"]) == (0, "m, key in `MY_KEY`")
    assert "canary" not in doctor.text()


def test_where_traces_go_is_told_and_what_keeps_them_from_it(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "traces" not in doctor()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:canary@there:4318")
    _, sent = doctor()
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    lenient, lacking = doctor()
    config = doctor.shell.folder / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8") + "telemetry: {enabled: true}\n", encoding="utf-8")
    strict, refused = doctor()

    assert (sent["traces"]["state"], sent["traces"]["detail"]) == ("ok", "sent to http://there:4318/v1/traces")
    assert (lenient, lacking["traces"]["state"], lacking["traces"]["hint"]) == (0, "attention", "install outrider[otel]")
    assert (strict, refused["traces"]["state"]) == (2, "failed"), "nothing can be run so"


def test_a_database_is_looked_at_and_left_as_it_is(doctor: Doctor) -> None:
    shell = doctor.shell
    assert shell.type("run", "Quick", "look").returncode == 0
    before = shell.database.read_bytes()

    code, found = doctor()

    assert code == 0
    assert re.search(r"outrider\.db: schema \d+, 1 execution, sound$", found["database"]["detail"])
    assert shell.database.read_bytes() == before


def test_what_lost_its_process_and_what_waits_for_a_person_is_counted(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, SOUND.replace("timeout: 50s}", "timeout: 50s, gates: {wait: ask}}"))

    def standing() -> dict[str, tuple[str, str]]:
        checks = json.loads(shell.type("doctor", "--json").stdout)["checks"]
        return {
            each["name"]: (each["state"], each["detail"]) for each in checks if each["name"] in ("executions", "approvals")
        }

    before = standing()
    with shell.start("run", "Lead", "clean up") as run:
        assert run.stderr is not None
        assert any("waiting for approval" in line for line in run.stderr)
        at_work = standing()
        run.kill()
        run.wait(SECONDS)
    told = shell.type("doctor")

    asked = ("attention", "1 call waiting for a person")
    assert before == {}
    assert at_work == {"executions": ("ok", "2 open, none interrupted"), "approvals": asked}
    assert standing() == {"executions": ("attention", "2 of 2 open are interrupted"), "approvals": asked}
    assert told.returncode == 0
    assert "hint: `outrider serve` resumes all of them, `outrider resume ID` one tree" in told.stdout
    assert "hint: `outrider approve` lists them, `outrider approve ID` shows one and asks" in told.stdout


def spoilt(kind: str, path: Path) -> None:
    """A file that is no database of ours, or no longer a good one."""
    if kind == "words":
        path.write_text("only some words", encoding="utf-8")
        return
    connection = sqlite3.connect(path)
    with connection:
        if kind == "other":
            connection.execute("create table mine (x)")
        else:
            connection.execute("create table schema_migrations (version, name, at)")
            connection.execute("insert into schema_migrations values (?, '', '')", (9999 if kind == "newer" else 3,))
            connection.execute("create table executions (x)")
            connection.executemany("insert into executions values (?)", [("x" * 500,)] * 100)
    connection.close()
    if kind == "damaged":
        content = bytearray(path.read_bytes())
        content[-3 * 4096 + 8 : -3 * 4096 + 16] = b"\xff" * 8  # where the cells of a page begin
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("words", "file is not a database"),
        ("other", "is a database of another program"),
        ("newer", "has schema version 9999"),
        ("damaged", "is damaged: "),
    ],
)
def test_a_database_that_cannot_be_used(doctor: Doctor, kind: str, says: str) -> None:
    path = doctor.shell.folder / "spoilt.db"
    spoilt(kind, path)

    code, found = doctor("--db", "spoilt.db")

    assert (code, found["database"]["state"]) == (2, "failed")
    assert says in found["database"]["detail"]
    assert "`--db`" in found["database"]["hint"]


def test_a_place_that_cannot_be_written(doctor: Doctor) -> None:
    doctor.shell.folder.joinpath("file").write_text("", encoding="utf-8")

    code, found = doctor("--db", "file/outrider.db")

    assert (code, found["database"]["state"]) == (2, "failed")
    assert "cannot be written" in found["database"]["detail"]


def test_a_package_of_the_same_name_is_noticed(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    other = doctor.shell.folder / "site" / "records-1.0.dist-info"
    other.mkdir(parents=True)
    other.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: records\nVersion: 1.0\n", encoding="utf-8")
    other.joinpath("RECORD").write_text("db/__init__.py,,\n", encoding="utf-8")
    monkeypatch.syspath_prepend(other.parent)

    code, found = doctor()

    assert (code, found["import names"]["detail"]) == (2, "`db` also comes from `records`")
    assert "environment of its own" in found["import names"]["hint"]


def test_a_library_with_the_bug_is_told_and_is_no_failure(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysqlite3", sqlite3)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 51, 2))

    code, found = doctor()

    assert (code, found["sqlite"]["state"]) == (0, "attention")
    assert "has the WAL-reset bug, fixed in 3.51.3" in found["sqlite"]["detail"]
