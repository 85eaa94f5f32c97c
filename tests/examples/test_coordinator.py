"""The coordinator: its conversation as documented, in Hebrew and English, and who may have what done."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import anyio

from tests.examples.playing import Play, Said, conversation, play, settings_of
from tests.support.requirement import requirement

REQUESTS = {
    "calendar": "What's on my calendar today?",
    "gmail": "What is new in my inbox?",
    "database": "Show me my tasks",
    "second_brain": "מה הקוד של האופניים?",
}
MAY = {
    "yael": ["calendar", "gmail", "database", "second_brain"],
    "tom": ["database", "second_brain"],
    "maya": ["calendar", "gmail", "second_brain"],
    "lior": ["second_brain"],
}


def this_week() -> tuple[str, str]:
    """From the first second of this Monday to the last of this Sunday, in Jerusalem."""
    zone = ZoneInfo("Asia/Jerusalem")
    today = datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
    monday = today - timedelta(days=today.weekday())
    ends = monday, monday + timedelta(days=7, seconds=-1)
    return ends[0].replace(tzinfo=zone).isoformat(), ends[1].replace(tzinfo=zone).isoformat()


@requirement("S4-CAL-1", "S4-RO-1", "S4-PE-2", "S4-PE-3")
async def test_the_coordinator_routes_plans_and_denies_as_documented(tmp_path: Path) -> None:
    async with play("coordinator", tmp_path) as secretary:
        said = [await secretary.say(user, text) for user, text in conversation("coordinator")]
        asked = await matrix(secretary)

    clear, two_things, prepare, late, late_without_mail, denied, denied_in_hebrew, code = said
    check_a_week_is_cleared_but_for_one_event_by_one_call(clear)
    assert two_things.worked() == ["Classifier", "Coordinator", "Planner", "database", "database"]
    assert two_things.answer == "✅ מחקתי 2 משימות שבוצעו.\n\n✅ הוספתי בננה לרשימת קניות."
    assert [call["tool"] for call in prepare.calls("Planner")] == ["resolve_time_range"]
    assert prepare.worked() == ["Classifier", "Coordinator", "Planner", "calendar", "database", "Composer"]
    assert "Prepare:" in prepare.answer
    assert "אולטרסאונד" in prepare.answer
    assert "ישיבת צוות" not in prepare.answer
    assert late.worked() == ["Classifier", "Coordinator", "Planner", "database", "gmail", "Composer"]
    assert "A draft to dana@example.com is ready" in late.answer
    assert late_without_mail.worked()[-3:] == ["database", "gmail (blocked)", "Composer"]
    assert late_without_mail.answer.endswith("I wrote no mail: your Google account is not connected.")
    assert denied.answer == "I am not allowed to do this for you: `calendar` needs your google account to be connected."
    assert denied_in_hebrew.answer == "אין לי הרשאה לעשות זאת עבורכם: `calendar` דורש חיבור לחשבון google שלכם."
    assert code.answer == "הקוד של האופניים הוא 4711"
    assert asked == {user: [(agent, agent in MAY[user]) for agent in REQUESTS] for user in MAY}


def check_a_week_is_cleared_but_for_one_event_by_one_call(clear: Said) -> None:
    """The example of the document, to the letter: no plan, one call with window and exception, one sentence."""
    assert clear.worked() == ["Classifier", "calendar"]
    assert clear.prompt("calendar") == clear.rows()[0]["task"] == "תפנה את כל האירועים השבוע חוץ מהאולטרסאונד"
    first, call = clear.calls("calendar")
    assert (first["tool"], json.loads(first["arguments"])) == ("resolve_time_range", {"phrase": "השבוע"})
    start, end = this_week()
    window = {"time_min": start, "time_max": end, "exclude_summaries": ["אולטרסאונד"]}
    assert (call["tool"], json.loads(call["arguments"])) == ("calendar.delete_by_window", window)
    done = json.loads(call["result"])
    assert [event["summary"] for event in done["kept"]] == ["אולטרסאונד"]
    assert [event["summary"] for event in done["deleted"]] == [
        "ישיבת צוות",
        "Design review",
        "ארוחת צהריים עם נועה",
        "יוגה",
    ]
    assert clear.answer == "✅ פיניתי את השבוע חוץ מהאולטרסאונד."


async def matrix(secretary: Play) -> dict[str, list[tuple[str, bool]]]:
    """Whether each agent worked for each user who asked for it, all users at once."""
    worked: dict[str, list[tuple[str, bool]]] = {}

    async def ask(user: str) -> None:
        answers = [(agent, await secretary.say(user, text)) for agent, text in REQUESTS.items()]
        worked[user] = [(agent, said.worked() == ["Classifier", agent]) for agent, said in answers]
        assert all(said.worked()[1] in (agent, f"{agent} (blocked)") for agent, said in answers)

    async with anyio.create_task_group() as group:
        for user in MAY:
            group.start_soon(ask, user)
    return worked


@requirement("S4-AG-1")
def test_the_four_agents_are_there_with_what_each_can_do_and_needs(tmp_path: Path) -> None:
    settings = settings_of("coordinator", tmp_path)

    offered = {entry.name: entry for entry in settings.catalogue(settings.agent("secretary"))}

    assert list(offered) == ["calendar", "gmail", "database", "second_brain"]
    assert all(entry.capabilities for entry in offered.values())
    needs = {name: (entry.requires.capabilities, entry.requires.connections) for name, entry in offered.items()}
    assert needs == {
        "calendar": ((), ("google",)),
        "gmail": ((), ("google",)),
        "database": (("database",), ()),
        "second_brain": ((), ()),
    }
