"""The assistant: its conversation as documented, on the real servers of the desk; only the models' words are rehearsed."""

import json
from pathlib import Path
from shutil import copy
from urllib.parse import unquote, urlparse

import yaml

from registry import load
from tests.examples.playing import Said, conversation, play
from tests.support.requirement import requirement
from tests.support.shell import Shell
from tests.support.sources import ROOT

CONFIG = str(ROOT / "examples" / "assistant" / "config.yaml")
PLANNED = ["Classifier", "orchestrator", "Planner"]


@requirement("S0-EG-1", "S0-EG-2", "S0-EG-3", "S0-EG-4", "S0-IN-1", "S0-IN-2", "S0-ME-2")
async def test_the_assistant_answers_hands_over_plans_and_revises_as_documented(tmp_path: Path) -> None:
    async with play("assistant", tmp_path) as assistant:
        said = [await assistant.say(user, text) for user, text in conversation("assistant")]
        other = await assistant.say("alex", "Book a flight to Rome")
        planned = await assistant.run("orchestrator", "What's on my calendar tomorrow?", "alex")

    greeting, calendar, page, mail, remember, recall, store, week = said
    assert greeting.answer == "Hi! I am fine, thank you. What can I do for you?"
    assert greeting.worked() == ["Classifier", "Respondent"]
    assert calendar.answer == planned.answer == "Tomorrow you have: 9:00 AM Team standup, 2:00 PM Client call."
    assert calendar.worked() == ["Classifier", "calendar-agent", "Composer"]
    assert [each.strategies() for each in said[:3]] == [set(), {"loop"}, {"plan", "loop"}]
    assert week.worked() == [*PLANNED, "email-agent", "calendar-agent", "Composer"]
    assert other.answer.startswith("This assistant is being rehearsed, and your message is not part of the rehearsal.")
    check_an_empty_list_is_planned_around(page)
    check_reminders_come_from_what_the_mail_says(mail)
    check_memory_is_written_and_searched_by_its_agent(remember, recall, store)
    check_dates_are_settled_before_there_is_a_plan(planned)


def check_an_empty_list_is_planned_around(page: Said) -> None:
    """No reminders: the page of the first plan is never made, the second plan makes one that invites to begin."""
    made = ["scheduler-agent", "ui-agent (skipped)", "Planner", "ui-agent", "Composer"]
    assert page.worked() == [*PLANNED, *made]
    first, second = page.plans()
    assert json.loads(second["trigger"])["type"] == "missing_data"
    assert [step["id"] for step in json.loads(first["steps"])] == ["step_1", "step_2"]
    assert [step["id"] for step in json.loads(second["steps"])] == ["step_2_v2"]

    link = page.answer.rpartition(" ")[2]
    assert page.answer.startswith("You don't have any reminders set up yet! Here's a page")
    shown = Path(unquote(urlparse(link).path)).read_text(encoding="utf-8")
    assert "You have no reminders yet." in shown
    assert 'contenteditable="true"' in shown


def check_reminders_come_from_what_the_mail_says(mail: Said) -> None:
    """The second step is given the action items of the first, and makes a reminder for each."""
    assert mail.worked() == [*PLANNED, "email-agent", "scheduler-agent", "Composer"]
    told = mail.prompt("scheduler-agent")
    assert all(
        word in told for word in ("context_from_previous_steps", "actionItems", "Quarterly report", "Proposal needed")
    )
    created = [json.loads(call["result"])["created"] for call in mail.calls("scheduler-agent")]
    assert sorted(each["text"].partition(" due ")[0] for each in created) == ["Proposal needed", "Quarterly report"]
    assert mail.answer.startswith("Found 2 urgent emails. Created reminders for: ")
    assert all(each["text"] in mail.answer for each in created)


def check_memory_is_written_and_searched_by_its_agent(remember: Said, recall: Said, store: Said) -> None:
    """By a wish alone, by a question, and as a step that keeps what another found."""
    assert remember.worked() == recall.worked() == ["Classifier", "memory-agent", "Composer"]
    assert store.worked() == [*PLANNED, "email-agent", "memory-agent", "Composer"]
    assert [call["tool"] for call in recall.calls("memory-agent")] == ["search_memory"]
    assert recall.answer == "This is what I know: I prefer reminders at 8am."
    query = "select facts.*, agent from facts join executions on executions.id = source_execution_id order by facts.id"
    facts = store.service.sql(query)
    assert {(fact["user_id"], fact["agent"]) for fact in facts} == {("alex", "memory-agent")}
    assert [fact["content"].partition(" is due on ")[0] for fact in facts] == [
        "I prefer reminders at 8am",
        "Quarterly report",
    ]


def check_dates_are_settled_before_there_is_a_plan(planned: Said) -> None:
    """Whoever asks the orchestrator itself gets a plan also for a single wish: one step, and a composed answer."""
    assert planned.worked() == ["Planner", "calendar-agent", "Composer"]
    (resolved,) = planned.calls("Planner")
    assert (resolved["tool"], json.loads(resolved["arguments"])) == ("resolve_date", {"phrase": "tomorrow"})
    found = json.loads(resolved["result"])
    assert f"List all events on {found['resolved']} ({found['dayOfWeek']})." in planned.prompt("calendar-agent")


def test_the_assistant_answers_in_a_shell_from_any_folder_without_a_key(tmp_path: Path) -> None:
    shell = Shell(tmp_path, {"DESK_HOME": str(tmp_path / "desk")})
    shell.environ["OUTRIDER_DATABASE_URL"] = str(shell.database)

    told = shell.json("--config", CONFIG, "chat", "--user", "+15550100", "What's on my calendar tomorrow?")

    assert (told["status"], told["rehearsed"]) == ("completed", True)
    assert told["answer"] == "Tomorrow you have: 9:00 AM Team standup, 2:00 PM Client call."


def test_an_agent_is_added_by_one_entry_as_its_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "howto" / "assistant.md").read_text(encoding="utf-8")
    added = yaml.safe_load(page.rpartition("```yaml")[2].partition("```")[0])
    written = yaml.safe_load(Path(CONFIG).read_text(encoding="utf-8"))
    more = {**written, **{section: {**written[section], **entries} for section, entries in added.items()}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(more), encoding="utf-8")
    copy(Path(CONFIG).with_name("rehearsal.yaml"), tmp_path)

    settings = load(tmp_path / "config.yaml", {})

    for name in ("assistant", "orchestrator"):
        offered = [entry.name for entry in settings.catalogue(settings.agent(name))]
        assert sorted(offered) == sorted(
            [name for name in written["agents"] if name.endswith("-agent")] + ["contacts-agent"]
        )
