"""A database belongs to a project: it is found from the configuration, stays private, and is named in errors."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from server.project import find_config, packaged_config
from tests.support.shell import Shell, make_shell


def test_the_configuration_is_found_in_a_fixed_order(tmp_path: Path) -> None:
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    packaged = find_config(None, {}, below)
    (tmp_path / "config.yaml").touch()

    assert (packaged.path, packaged.project) == (packaged_config(), None)
    assert find_config(None, {}, tmp_path).path == tmp_path / "config.yaml"
    assert find_config(None, {}, below).project == tmp_path
    (below / "config.yaml").touch()
    assert find_config(None, {}, below).project == below
    assert find_config(None, {"OUTRIDER_CONFIG": "other.yaml"}, tmp_path).path == tmp_path / "other.yaml"
    assert find_config("mine.yaml", {"OUTRIDER_CONFIG": "other.yaml"}, tmp_path).path == tmp_path / "mine.yaml"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_strangers_configuration_above_the_folder_is_not_taken(tmp_path: Path) -> None:
    below = tmp_path / "mine"
    below.mkdir()
    strange = tmp_path / "config.yaml"
    strange.touch()
    os.chown(strange, 4321, 4321)

    assert find_config(None, {}, below).project is None
    strange.rename(tmp_path / "other.yaml")
    strange.symlink_to(tmp_path / "other.yaml")  # a link of ours to a file of the stranger
    assert find_config(None, {}, below).project is None
    assert find_config(None, {}, tmp_path).path == strange  # the folder itself was chosen by the user


def test_every_command_below_a_project_uses_its_private_database(shell: Shell) -> None:
    below = shell.folder / "src"
    below.mkdir()
    inside = Shell(below, {"HOME": str(shell.folder), "XDG_DATA_HOME": str(shell.folder / "data")})
    before = os.umask(0)
    try:
        done = inside.type("run", "Quick", "look", "--json", fresh=True)
    finally:
        os.umask(before)

    assert done.returncode == 0, done.stderr
    assert [entry["agent"] for entry in inside.json("ps", "--all")] == ["Quick"]
    assert inside.type("sql", "select agent from executions").stdout == "agent\nQuick\n"
    assert not (shell.folder / "data").exists()
    place = shell.database.parent
    assert (place / ".gitignore").read_text(encoding="utf-8") == "*\n"
    modes = {each.relative_to(place): stat.S_IMODE(each.stat().st_mode) for each in (place, *place.rglob("*"))}
    assert modes.pop(Path()) == modes.pop(Path("outrider.db-owners")) == 0o700
    modes.pop(Path(".gitignore"))
    assert set(modes.values()) == {0o600}
    assert Path("outrider.db") in modes


def test_the_configuration_named_decides_about_the_database_in_every_command(shell: Shell, tmp_path: Path) -> None:
    elsewhere = Shell(tmp_path / "elsewhere", {"XDG_DATA_HOME": str(tmp_path / "data")})
    elsewhere.folder.mkdir()
    config = str(shell.folder / "config.yaml")

    assert elsewhere.type("run", "Quick", "look", "--config", config).returncode == 0
    [entry] = elsewhere.json("ps", "--all", "--config", config)
    assert shell.json("show", entry["short_id"])["id"] == entry["id"]
    assert elsewhere.type("show", entry["short_id"], OUTRIDER_CONFIG=config).returncode == 0


def test_what_is_not_found_is_told_with_the_places_and_with_the_users_database(shell: Shell) -> None:
    old = shell.folder / "data" / "outrider" / "outrider.db"
    assert shell.type("run", "Quick", "look", "--db", str(old)).returncode == 0
    [entry] = shell.json("ps", "--all", "--db", str(old))

    for words, code in ((("ps",), 2), (("show", entry["id"]), 2), (("sql", "select 1"), 2)):
        done = shell.type(*words)
        assert done.returncode == code
        assert f"no database at `{shell.database}`" in done.stderr
        assert f"this user's database holds 1 more: add `--db {old}`" in done.stderr
    assert shell.type("run", "Quick", "look").returncode == 0
    for words in (("show", entry["id"]), ("cancel", entry["id"]), ("approve", entry["id"]), ("resume", entry["id"])):
        done = shell.type(*words)
        assert done.returncode == 4, words
        assert f"{shell.places}\n\nhint: " in done.stderr
        assert f"add `--db {old}`" in done.stderr
    told = json.loads(shell.type("doctor", "--json").stdout)
    [found] = [check for check in told["checks"] if check["name"] == "user database"]
    assert (found["state"], found["hint"]) == ("ok", f"add `--db {old}` to look at them")


def test_a_folder_that_cannot_be_made_is_told_with_a_way_out(shell: Shell) -> None:
    shell.database.parent.write_text("in the way", encoding="utf-8")

    done = shell.type("run", "Quick", "look")

    assert done.returncode == 2
    assert f"cannot create the folder `{shell.database.parent}`" in done.stderr
    assert "hint: name another database with `--db`" in done.stderr


def test_a_client_is_told_both_files_of_the_project(shell: Shell) -> None:
    entry = json.loads(shell.type("install", "cursor", "--print").stdout)["mcpServers"]["outrider"]

    assert entry["args"] == ["serve", "--config", str(shell.folder / "config.yaml"), "--db", str(shell.database)]


def test_the_demo_writes_where_the_commands_it_suggests_look(tmp_path: Path) -> None:
    project = make_shell(tmp_path)

    done = project.type("demo", "--fast", "--json")

    assert done.returncode == 0, done.stderr
    assert project.json("show", project.json("ps", "--all")[0]["id"])["status"] == "completed"
    shutil.rmtree(project.database.parent)


def test_config_check_says_when_a_workspace_contains_the_database(tmp_path: Path) -> None:
    around = (
        "models: {m: {model: none, rehearsal: script.yaml}}\nagents: {Writer: {workspaces: [{name: files, path: .}]}}\n"
    )
    shell = make_shell(tmp_path, around)

    told = shell.type("config", "check")
    [warning] = shell.json("config", "check")["warnings"]

    assert told.returncode == 0
    assert f"note: the workspace `files` contains the database `{shell.database}`" in told.stderr
    assert warning.startswith("the workspace `files` contains the database")
    shell.folder.joinpath("config.yaml").write_text(around.replace("path: .", "path: files"), encoding="utf-8")
    assert shell.json("config", "check")["warnings"] == []
