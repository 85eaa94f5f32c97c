"""What cannot be done is refused in words, with a hint and a code, and nothing is written."""

import hashlib
import json
import os
import sqlite3
import sys
from functools import partial
from pathlib import Path

import pytest

from db.query import query
from server.cli import main as entry
from tests.support.requirement import requirement
from tests.support.shell import CONFIG, Shell, make_shell


def untouched(shell: Shell) -> bool:
    """Whether no command left anything behind."""
    return {path.name for path in shell.folder.iterdir()} <= {"config.yaml", "script.yaml", "alert.json"}


def test_an_unknown_agent(shell: Shell) -> None:
    done = shell.type("run", "Quik", "look")

    assert (done.returncode, done.stdout) == (4, "")
    hint = f"did you mean `Quick`? Defined in config.yaml:{line_of('Quick')}"
    assert done.stderr == f"error: no agent or chain named `Quik`{shell.places}\n\nhint: {hint}\n"
    assert untouched(shell)


def test_an_unknown_user(shell: Shell) -> None:
    done = shell.type("run", "Quick", "look", "--user", "alex")

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"error: no user named `alex`{shell.places}\n\nhint: ")
    assert untouched(shell)


@requirement("S3-OP-5")
def test_input_that_an_agent_does_not_take_and_words_of_the_type_it_wants(shell: Shell) -> None:
    schema = "{required: [version], properties: {version: {type: string}, deep: {type: boolean, default: false}}}"
    picky = CONFIG.replace("answers at once", f"answers at once, input_schema: {schema}")
    shell.folder.joinpath("config.yaml").write_text(picky, encoding="utf-8")

    refused = shell.type("run", "Quick", "look", "--input", "version=1", "--input", "deep=perhaps")
    assert (refused.returncode, refused.stdout) == (2, "")
    message = "invalid input for `Quick`: `$.deep`: 'perhaps' is not of type 'boolean'"
    assert refused.stderr == f"error: {message}\n\nhint: pass `version` (required), `deep`\n"
    assert untouched(shell)

    assert shell.type("run", "Quick", "look", "--input", "version=1").returncode == 0
    assert shell.rows("select input from executions") == [{"input": '{"version":"1","deep":false}'}]


@requirement("S1-ST1-1", "S1-ST1-3")
def test_a_command_that_is_written_wrong(shell: Shell) -> None:
    route = "  Desk: {strategy: route, sub_agents: [], route: {commands: {todo: {answer: nothing to do}}}}\n"
    config = CONFIG.replace("agents:\n", f"agents:\n{route}")
    shell.folder.joinpath("config.yaml").write_text(config, encoding="utf-8")

    refused = shell.type("run", "Desk", "/tdo")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "error: there is no command `/tdo`\n\nhint: did you mean `/todo`? commands: `/todo`\n"
    assert untouched(shell)

    done = shell.type("run", "Desk", "/todo")
    assert (done.returncode, done.stdout) == (0, "nothing to do\n")


def line_of(agent: str) -> int:
    """Where an agent stands in the configuration."""
    return next(n for n, line in enumerate(CONFIG.splitlines(), start=1) if line.startswith(f"  {agent}:"))


def test_an_alert_no_chain_takes(shell: Shell) -> None:
    done = shell.type("run", "--alert", "-", stdin='{"labels": {"alertname": "DiskFul"}}')

    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"error: no alert type named `DiskFul`{shell.places}\n\nhint: did you mean `DiskFull`")
    assert untouched(shell)


@pytest.mark.parametrize(
    ("alert", "says"),
    [
        ('{"value": NaN}', "error: the alert in standard input is not JSON\n\nhint: give one JSON object"),
        ("{", "error: the alert in standard input is not JSON (line 1)\n\nhint: give one JSON object"),
        ("[]", "error: the alert in standard input is not a JSON object\n\nhint: give one JSON object"),
        ("{}", "error: the alert has no `labels.alertname`\n\nhint: name the chain"),
    ],
)
def test_an_alert_that_is_none(shell: Shell, alert: str, says: str) -> None:
    done = shell.type("run", "--alert", "-", stdin=alert)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(says)
    assert untouched(shell)


def test_an_alert_file_that_is_not_there(shell: Shell) -> None:
    done = shell.type("run", "look", "--alert", "nowhere.json")

    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot read the alert `nowhere.json`: No such file or directory\n\nhint: ")
    assert untouched(shell)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "Quick"), "error: no task for `Quick`\n\nhint: say what to do"),
        (("run",), "error: no agent or chain named\n\nhint: `outrider agents` lists them"),
        (("run", "Quick", "x", "--input", "service"), "error: `--input service` has no name and value\n\nhint: write"),
        (("run", "Quick", "x", "--timeout", "soon"), "error: `--timeout`: `soon` is not a duration\n\nhint: write"),
        (("run", "Quick", "x", "--timeout", "0"), "error: `--timeout` must be greater than zero\n\nhint: write"),
        (("run", "--nonsense"), "error: no option `--nonsense`\n\nhint: `outrider run --help` shows how it is used"),
        (("ps", "--jsn"), "error: no option `--jsn`\n\nhint: did you mean `--json`?"),
        (("ps", "--db"), "error: option `--db` requires an argument\n\nhint: `outrider "),
        (("ps", "now"), "error: unexpected argument `now`\n\nhint: put several words in quotes; `outrider ps --help`"),
        (("show",), "error: `ID` is missing\n\nhint: `outrider show --help` shows how it is used"),
        (("show", "1", "--tree", "--transcript"), "error: `--tree` and `--transcript` are two views\n\nhint: choose one"),
        (("shwo", "1"), "error: no command `outrider shwo`\n\nhint: did you mean `outrider show`?"),
        (("frobnicate",), "error: no command `outrider frobnicate`\n\nhint: `outrider --help` lists the commands"),
        (("config", "chek"), "error: no command `outrider config chek`\n\nhint: did you mean `outrider config check`?"),
    ],
)
def test_a_command_line_that_says_too_little_or_too_much(shell: Shell, words: tuple[str, ...], says: str) -> None:
    done = shell.type(*words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(says)
    assert untouched(shell)


def test_broken_yaml(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "agents:\n  Quick: {description: [\n")

    for words in (("run", "Quick", "look"), ("agents",), ("config", "check")):
        done = shell.type(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: config.yaml:3:1: ")
    assert untouched(shell)


@requirement("S2-VA-9")
def test_all_faults_of_a_configuration_come_in_one_report(tmp_path: Path) -> None:
    faults = "agents:\n" + "".join(f"  A{n}: {{sub_agents: [Nobody{n}]}}\n" for n in range(4)) + "agnets: {}\n"
    shell = make_shell(tmp_path, faults)

    done = shell.type("config", "check")

    assert done.returncode == 2
    assert done.stderr.startswith("error: the configuration has 5 problems\n\n")
    assert sum(line.startswith("config.yaml:") for line in done.stderr.splitlines()) == 5


@requirement("S2-VA-10")
def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, CONFIG.replace("${GATE:-none}", "${GATE}"))

    missing = shell.type("run", "Quick", "look")
    given = shell.type("run", "Quick", "look", GATE="anything")
    defaulted = make_shell(tmp_path).type("run", "Quick", "look")

    assert missing.returncode == 2
    assert "`GATE`" in missing.stderr
    assert "hint: " in missing.stderr
    assert (given.returncode, defaulted.returncode) == (0, 0)


def test_a_model_without_a_key(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, "agents: {Lead: {sub_agents: [Quick]}, Quick: {description: quick}}\n")

    done = shell.type("run", "Lead", "look")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "error: the model `sonnet` has no API key and no rehearsal\n\nhint: set `ANTHROPIC_API_KEY`"
    )
    assert untouched(shell)


def test_a_model_without_a_key_of_a_classifier_planner_or_composer(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    staffed = "models: {r: {model: none, rehearsal: script.yaml}, live: {model: none}}\ndefaults: {model: r}\n"
    agents = "agents: {Desk: {strategy: route}, Quick: {description: quick}, Composer: {model: live}}\n"
    tmp_path.joinpath("config.yaml").write_text(staffed + agents, encoding="utf-8")

    done = shell.type("run", "Desk", "look")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: the model `live` has no API key and no rehearsal")
    assert untouched(shell)


def test_a_rehearsal_that_cannot_be_played(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    tmp_path.joinpath("script.yaml").write_text("agents: {Quick: [{wen: any, say: x}]}", encoding="utf-8")

    done = shell.type("run", "Quick", "look")

    assert done.returncode == 2
    assert done.stderr.startswith("error: script.yaml:1: unknown key `wen` in a turn\n\nhint: did you mean `when`?")
    assert untouched(shell)


def test_a_configuration_that_names_such_a_rehearsal_is_not_right(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    tmp_path.joinpath("script.yaml").write_text("agents:\n  Quick:\n    - when: never\n", encoding="utf-8")
    done = shell.type("config", "check")

    assert (done.returncode, done.stdout) == (2, "")
    assert "rehearsal: script.yaml:3: a turn needs `say` or `call`" in done.stderr


def test_a_database_from_a_newer_version(shell: Shell) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0
    connection = sqlite3.connect(shell.database)
    with connection:
        connection.execute("insert into schema_migrations values (9999, 'future', 'later')")
    connection.close()
    before = hashlib.sha256(shell.database.read_bytes()).hexdigest()

    for words in (("run", "Quick", "look"), ("ps",), ("show", "1"), ("cancel", "1")):
        done = shell.type(*words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "has schema version 9999" in done.stderr
        assert "hint: upgrade Outrider, or name another database with `--db`" in done.stderr
    assert hashlib.sha256(shell.database.read_bytes()).hexdigest() == before


def test_a_database_that_is_none(shell: Shell) -> None:
    shell.folder.joinpath("notes.txt").write_text("not a database, only some words about one", encoding="utf-8")

    for words in (("run", "Quick", "look"), ("ps",), ("show", "1"), ("cancel", "1"), ("sql", "select 1")):
        done = shell.type(*words, "--db", "notes.txt")
        assert (done.returncode, done.stdout) == (2, ""), (words, done.stderr)
        assert "file is not a database" in done.stderr
        assert "hint: " in done.stderr
    assert shell.folder.joinpath("notes.txt").read_text(encoding="utf-8").startswith("not a database")


@pytest.mark.parametrize("words", [("ps",), ("show", "1"), ("cancel", "1"), ("sql",), ("sql", "select 1")])
def test_looking_at_a_database_that_is_not_there_creates_none(shell: Shell, words: tuple[str, ...]) -> None:
    done = shell.type(*words)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: no database at `{shell.database}`\n\nhint: run something first")
    assert untouched(shell)


def test_a_database_of_a_kind_that_is_not_supported(shell: Shell) -> None:
    done = shell.type("ps", "--db", "mysql://somewhere/else")

    assert done.returncode == 2
    assert done.stderr.startswith("error: no database driver for `mysql`")


def test_a_folder_that_cannot_be_written(shell: Shell) -> None:
    folder = shell.folder / "read-only"
    folder.mkdir()
    folder.chmod(0o555)
    # Nobody stops the superuser with permissions; a system folder that takes no files does.
    place = Path("/proc/outrider.db") if os.geteuid() == 0 and sys.platform == "linux" else folder / "outrider.db"

    done = shell.type("run", "Quick", "look", "--db", str(place))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot ")
    assert "or name another database with `--db`" in done.stderr
    assert not place.exists()


ATTACKS = (
    "delete from executions",
    "attach 'other.db' as other",
    "vacuum into 'copy.db'",
    "pragma journal_mode = delete",
    "select writefile('mine', 'x')",
    "select 1; delete from executions",
)
FOREVER = "with recursive forever (n) as (select 1 union all select n + 1 from forever) select max(n) from forever"


@requirement("S2-DB-16")
def test_sql_that_would_do_anything_but_read(shell: Shell) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0
    before = hashlib.sha256(shell.database.read_bytes()).hexdigest()
    files = set(shell.folder.rglob("*"))

    for attack in ATTACKS:
        done = shell.type("sql", attack)
        assert (done.returncode, done.stdout) == (2, ""), attack
        assert done.stderr.startswith("error: ")
        assert "\n\nhint: " in done.stderr

    assert hashlib.sha256(shell.database.read_bytes()).hexdigest() == before
    assert set(shell.folder.rglob("*")) - files <= {Path(f"{shell.database}-wal"), Path(f"{shell.database}-shm")}
    many = "with recursive n (i) as (select 1 union all select i + 1 from n limit 20000) select i from n"
    bounded = shell.type("sql", many)
    assert (bounded.returncode, len(bounded.stdout.splitlines())) == (0, 10_001)
    assert bounded.stderr == "note: only the first 10,000 rows are shown; narrow the query for the rest\n"


@requirement("S2-DB-16")
def test_sql_that_would_never_end(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0
    monkeypatch.setattr(query, "query", partial(query.query, seconds=0.3))

    code = entry.main(["sql", FOREVER, "--db", str(shell.database)])

    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert shown.err.startswith("error: the query took longer than 0.3 s\n\nhint: ")


def test_an_unknown_execution(shell: Shell) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0

    for words in (("show", "zzzz"), ("cancel", "zzzz"), ("show", "no such thing")):
        done = shell.type(*words)
        assert (done.returncode, done.stdout) == (4, ""), words
        assert done.stderr.startswith("error: ")
        assert "outrider ps --all" in done.stderr


def test_a_prefix_that_several_executions_share(shell: Shell) -> None:
    for _ in range(2):
        assert shell.type("run", "Quick", "look").returncode == 0
    first = shell.rows("select id from executions")[0]["id"][:3]

    done = shell.type("show", first)

    assert (done.returncode, done.stdout) == (4, "")
    assert (
        done.stderr == f"error: 2 executions begin with `{first}`{shell.places}\n\nhint: give more characters of the id\n"
    )


FOREIGN = """\
models:
  ours: {model: claude-sonnet-5-5}
  theirs: {model: gpt-5-mini, api_key: "${THEIR_KEY}"}
  served: {model: llama-4, base_url: "http://127.0.0.1:9"}
defaults: {model: ours}
agents:
  Ours: {description: asks Anthropic, sub_agents: [Far]}
  Theirs: {description: asks another maker, model: theirs}
  Far: {description: asks through a gateway, model: vendor/some-model}
  Served: {description: asks an endpoint of its own, model: served}
"""


def test_a_model_of_another_maker_without_an_address_is_a_problem_before_anything_is_written(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, FOREIGN, {"ANTHROPIC_API_KEY": "a-key", "THEIR_KEY": "their-key"})

    check = shell.type("config", "check")
    assert check.returncode == 2
    theirs = "`gpt-5-mini` is not a model of Anthropic, and `theirs` has no `base_url`"
    far = "`vendor/some-model` is not a model of Anthropic, and `vendor/some-model` has no `base_url`"
    assert f"config.yaml:3:19: models.theirs.model: {theirs}" in check.stderr
    assert f"config.yaml:9:53: agents.Far.model: {far}" in check.stderr
    assert "hint: give it the `base_url` of an endpoint that speaks the Messages API" in check.stderr
    told = json.loads(shell.type("config", "check", "--json").stdout)
    assert {each["line"]: each["path"] for each in told["problems"]} == {3: "models.theirs.model", 9: "agents.Far.model"}

    doctor = json.loads(shell.type("doctor", "--json").stdout)
    states = {each["name"]: each["state"] for each in doctor["checks"]}
    assert (states["configuration"], states["model ours"], states["model served"]) == ("failed", "ok", "ok")
    assert (states["model theirs"], states["model vendor/some-model"]) == ("failed", "failed")

    for agent, why in (("Theirs", theirs), ("Ours", far)):
        refused = shell.type("run", agent, "look")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert why in refused.stderr
    assert not shell.database.exists()
    gateway = shell.type("config", "check", ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    assert gateway.returncode == 0, gateway.stderr


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (("show", "zzzz"), 4, "not_found"),
        (("show",), 2, "usage"),
        (("shwo",), 2, "usage"),
        (("ps", "--frobnicate"), 2, "usage"),
        (("sql", "delete from executions"), 2, "usage"),
        (("run", "Quik", "look"), 4, "not_found"),
        (("run", "Quick"), 2, "usage"),
        (("ps", "--db", "nowhere.db"), 2, "usage"),
        (("agents", "--config", "nowhere.yaml"), 2, "usage"),
        (("cancel", "zzzz"), 4, "not_found"),
        (("approve", "zzzz"), 4, "not_found"),
        (("errors", "zzzz"), 4, "not_found"),
        (("resume", "zzzz"), 4, "not_found"),
        (("message", "zzzz", "hello"), 4, "not_found"),
        (("chat", "hello"), 2, "usage"),
    ],
)
def test_an_error_is_one_json_document_where_json_is_wanted(
    shell: Shell, words: tuple[str, ...], code: int, kind: str
) -> None:
    assert shell.type("run", "Quick", "look").returncode == 0

    plain, told = shell.type(*words), shell.type(*words, "--json")

    assert (plain.returncode, plain.stdout) == (code, "")
    assert (told.returncode, told.stderr) == (code, plain.stderr), "people read the same, and scripts the same code"
    error = json.loads(told.stdout)["error"]
    assert (error["kind"], error["exit"]) == (kind, code)
    hint = f"\nhint: {error['hint']}\n" if error["hint"] else ""
    assert plain.stderr == f"error: {error['message']}\n{hint}"


def test_a_word_that_only_looks_like_the_option_changes_nothing(shell: Shell) -> None:
    done = shell.type("run", "Quik", "--", "--json")

    assert (done.returncode, done.stdout) == (4, "")
