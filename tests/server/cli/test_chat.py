"""`outrider chat`: a user and their assistant, message by message, in whichever process."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.requirement import requirement
from tests.support.shell import CONFIG, SCRIPT, SECONDS, Shell, held, make_shell
from tests.support.terminal import typed

PEOPLE = """
chat: {agent: CHOSEN}
users: {alex: {aliases: ["+15550100"]}, noa: {}}
"""


def shell_of(folder: Path, assistant: str = "Quick") -> Shell:
    """A shell in which somebody answers users."""
    return make_shell(folder, CONFIG + PEOPLE.replace("CHOSEN", assistant))


def talk(shell: Shell) -> list[tuple[str, str, str]]:
    """What was said, in order."""
    rows = shell.rows("select user_id, role, content from chat_messages order by created_at")
    return [(row["user_id"], row["role"], row["content"]) for row in rows]


ANSWER = "# Finding\n\nat once"


@requirement("S0-MH-7")
def test_a_message_is_answered_on_stdout_and_stored_with_its_answer(tmp_path: Path) -> None:
    shell = shell_of(tmp_path)

    done = shell.type("chat", "--user", "+15550100", "is it done?")
    told = shell.json("chat", "--user", "noa", "and mine?")

    assert (done.returncode, done.stdout) == (0, f"[rehearsed]\n\n{ANSWER}\n")
    assert "● Quick" in done.stderr
    assert (told["status"], told["answer"]) == ("completed", ANSWER)
    assert talk(shell) == [
        ("alex", "user", "is it done?"),
        ("alex", "assistant", ANSWER),
        ("noa", "user", "and mine?"),
        ("noa", "assistant", ANSWER),
    ]


def test_a_conversation_goes_line_by_line_on_a_terminal_and_from_a_pipe(tmp_path: Path) -> None:
    shell = shell_of(tmp_path)

    code, out, seen = typed(shell, "chat", "--user", "alex", keys="hello\n\nare you there?\n\x04")
    piped = shell.type("chat", "--user", "alex", "--json", stdin="one\ntwo")

    assert (code, out) == (0, f"[rehearsed]\n\n{ANSWER}\n" * 2)
    assert seen.count("alex> ") == 4  # before each line, an empty one too, and before the end
    assert (piped.returncode, piped.stdout.count('"answer"')) == (0, 2)
    assert "alex>" not in piped.stderr
    assert [text for _, role, text in talk(shell) if role == "user"] == ["hello", "are you there?", "one", "two"]


def test_a_message_that_fails_ends_no_conversation_and_the_user_is_told_what_to_do(tmp_path: Path) -> None:
    shell = shell_of(tmp_path, "Broken")

    done = shell.type("chat", "--user", "alex", stdin="one\n" + "x" * 20_001 + "\ntwo\nשלום\n")

    assert done.returncode == 1
    assert done.stdout.count("Please send your message again in a moment") == 2
    assert "error: the message is longer than 20,000 characters" in done.stderr
    assert done.stdout.count("שלחו את ההודעה שוב בעוד רגע") == 1  # whoever writes Hebrew reads Hebrew
    assert [role for _, role, _ in talk(shell)] == ["user", "assistant"] * 3


@pytest.mark.parametrize(
    ("words", "config", "code", "told"),
    [
        (["hello"], PEOPLE, 2, "error: no user was given\n\nhint: add `--user`: alex, noa"),
        (["hello", "--user", "alx"], PEOPLE, 4, "error: no user named `alx`\n  configuration: "),
        (["--user", "alex", "  "], PEOPLE, 2, "error: the message is empty"),
        (["hello"], "", 2, "error: the configuration names no users"),
        (["hello"], "users: {alex: {}}", 2, "error: no agent answers users"),
        (["hello"], "chat: {agent: Quik}\nusers: {alex: {}}", 2, "no agent or chain named `Quik`"),
    ],
)
def test_what_cannot_be_answered_is_refused_before_anything_is_stored(
    tmp_path: Path, words: list[str], config: str, code: int, told: str
) -> None:
    shell = make_shell(tmp_path, CONFIG + config.replace("CHOSEN", "Quick"))

    done = shell.type("chat", *words)

    assert done.returncode == code
    assert told in done.stderr
    assert not shell.database.exists()


def test_what_a_killed_process_left_unanswered_is_answered_before_the_next_message(tmp_path: Path) -> None:
    shell = shell_of(tmp_path, "Waiter")
    gate = shell.gate("gate")

    with shell.start("chat", "--user", "alex", "first", GATE=str(gate)) as process, held(gate):
        process.kill()
        process.wait(SECONDS)
        assert talk(shell) == [("alex", "user", "first")]
    opened = tmp_path / "opened"
    opened.write_text("open", encoding="utf-8")
    second = shell.type("chat", "--user", "alex", "second", GATE=str(opened))

    assert second.returncode == 0, second.stderr
    said = [(role, text) for _, role, text in talk(shell)]
    assert said == [("user", "first"), ("assistant", "I waited"), ("user", "second"), ("assistant", "I waited")]


def test_an_interruption_before_a_message_leaves_and_during_an_answer_stops_it(tmp_path: Path) -> None:
    shell = shell_of(tmp_path, "Waiter")
    gate = shell.gate("gate")
    process = subprocess.Popen(
        [SCRIPT, "chat", "--user", "alex", "--json"],
        cwd=shell.folder,
        env=shell.surroundings(GATE=str(gate)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("wait\n")
        process.stdin.flush()
        with held(gate):
            process.send_signal(signal.SIGINT)
            told = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        assert (told["status"], "I was stopped" in told["answer"]) == ("cancelled", True)
        process.send_signal(signal.SIGINT)
        process.wait(SECONDS)
    finally:
        process.kill()
        _, err = process.communicate()

    assert process.returncode == 130, err
    assert [role for _, role, _ in talk(shell)] == ["user", "assistant"]


@requirement("S0-MH-9")
def test_what_is_learned_from_a_message_is_kept_before_the_process_leaves_and_after_the_answer(tmp_path: Path) -> None:
    shell = shell_of(tmp_path)
    config, script = shell.folder / "config.yaml", shell.folder / "script.yaml"
    config.write_text(
        config.read_text(encoding="utf-8").replace("{agent: Quick}", "{agent: Quick, memory: {extract: after_answer}}"),
        encoding="utf-8",
    )
    fact = "{content: Drinks tea, said: I drink tea, category: preferences}"
    keep = f"  MemoryExtractor: [{{when: start, call: [{{tool: keep_facts, with: {{facts: [{fact}]}}}}]}}]\n"
    script.write_text(script.read_text(encoding="utf-8") + keep, encoding="utf-8")

    done = shell.type("chat", "--user", "alex", "I drink tea")
    again = shell.type("chat", "--user", "noa", stdin="hello\nI drink tea, too\n")

    assert (done.returncode, done.stdout) == (0, f"[rehearsed]\n\n{ANSWER}\n")
    assert again.returncode == 0
    facts = shell.rows("select user_id, content from facts order by id")
    assert [tuple(row.values()) for row in facts] == [("alex", "Drinks tea"), ("noa", "Drinks tea")]
    ended = shell.rows("select agent, status from executions where role = 'extractor'")
    assert {row["agent"] for row in ended} == {"MemoryExtractor"}
    assert [entry["agent"] for entry in shell.json("ps", "--all")].count("MemoryExtractor") == len(ended)
