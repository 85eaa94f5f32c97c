"""The servers of the desk, each over a real stdio process with a fixed clock and a folder of its own."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import anyio
from mcp import Client, StdioServerParameters

from tests.outrider_sre.asking import ask, refused
from tests.support.requirement import requirement
from tests.support.sources import ROOT

HEBREW_WEEK = ("2026-01-26T00:00:00+02:00", "2026-02-01T23:59:59+02:00")


@asynccontextmanager
async def desk(
    server: str, home: Path, story: str = "assistant", zone: str = "America/Los_Angeles"
) -> AsyncIterator[Client]:
    """A client of one of the servers. It is Wednesday, January 28th 2026, ten in the morning there."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", f"examples.desk.{server}"],
        env={"DESK_HOME": str(home), "DESK_STORY": story, "DESK_TIMEZONE": zone, "DESK_NOW": "2026-01-28T10:00:00"},
        cwd=str(ROOT),
    )
    async with Client(parameters, read_timeout_seconds=30) as client:
        yield client


def summaries(answer: dict[str, Any], key: str = "events") -> list[str]:
    """The summaries of some events."""
    return [event["summary"] for event in answer[key]]


@requirement("S4-CAL-1")
async def test_a_week_is_cleared_but_for_some_events_by_one_call_and_stays_cleared(tmp_path: Path) -> None:
    first, last = HEBREW_WEEK
    window = {"time_min": first, "time_max": last}
    async with desk("calendar", tmp_path, "coordinator", "Asia/Jerusalem") as calendar:
        before = await ask(calendar, "list_events", **window)
        await refused(calendar, "delete_by_window", **window, exclude_summary=["אולטרסאונד"])
        await refused(calendar, "delete_by_window", **window, exclude_summaries=[" "])
        unharmed = await ask(calendar, "list_events", **window)
        done = await ask(calendar, "delete_by_window", **window, exclude_summaries=["אולטרסאונד", "dESIGN"])
        again = await refused(calendar, "delete_by_window", **window, exclude_summaries=["אולטרסאונד", "design"])

    async with desk("calendar", tmp_path, "coordinator", "Asia/Jerusalem") as calendar:
        after = await ask(calendar, "list_events", **window)
        next_week = await ask(calendar, "list_events", time_min="2026-02-02", time_max="2026-02-08")

    assert summaries(before) == ["ישיבת צוות", "אולטרסאונד", "Design review", "ארוחת צהריים עם נועה", "יוגה"]
    assert unharmed == before
    assert summaries(done, "deleted") == ["ישיבת צוות", "ארוחת צהריים עם נועה", "יוגה"]
    assert summaries(done, "kept") == summaries(after) == ["אולטרסאונד", "Design review"]
    assert again == "no matching events\nhint: the window holds 2, of which 2 are to be kept"
    assert summaries(next_week) == ["פגישה עם הבנק", "יוגה"]


async def test_events_are_created_moved_and_repeated_and_conflicts_are_told(tmp_path: Path) -> None:
    tomorrow = {"time_min": "2026-01-29", "time_max": "2026-01-29"}
    async with desk("calendar", tmp_path) as calendar:
        seeded = await ask(calendar, "list_events", **tomorrow)
        made = await ask(calendar, "create_event", summary="Interview", start="2026-01-29T14:30:00", minutes=30)
        conflicts = await ask(calendar, "find_conflicts", **tomorrow)
        moved = await ask(calendar, "update_event", event_id=made["created"][0]["event_id"], start="2026-01-29T16:00:00")
        series = await ask(
            calendar,
            "create_event",
            summary="Rent",
            start="2026-01-31T08:00:00",
            minutes=15,
            repeat={"every": "month", "times": 4},
        )
        spring = series["created"][3]
        autumn = await ask(calendar, "create_event", summary="Night shift", start="2026-11-01T00:30:00", minutes=90)
        alone = await ask(calendar, "delete_event", event_id=spring["event_id"])
        rest = await ask(calendar, "delete_event", event_id=series["created"][1]["event_id"], scope="series")
        unknown = await refused(calendar, "delete_event", event_id=spring["event_id"])
        backwards = await refused(calendar, "list_events", time_min="2026-02-01", time_max="2026-01-01")
        nonsense = await refused(calendar, "create_event", summary="x", start="tomorrow")
        listed = await calendar.list_tools()

    assert [(event["summary"], event["start"]) for event in seeded["events"]] == [
        ("Team standup", "2026-01-29T09:00:00-08:00"),
        ("Client call", "2026-01-29T14:00:00-08:00"),
    ]
    assert (summaries(made, "created"), summaries(made, "conflicts")) == (["Interview"], ["Client call"])
    assert [[event["summary"] for event in pair] for pair in conflicts["conflicts"]] == [["Client call", "Interview"]]
    assert (moved["updated"]["end"], moved["conflicts"]) == ("2026-01-29T16:30:00-08:00", [])
    assert [event["start"] for event in series["created"]] == [
        "2026-01-31T08:00:00-08:00",
        "2026-02-28T08:00:00-08:00",
        "2026-03-31T08:00:00-07:00",
        "2026-04-30T08:00:00-07:00",
    ]
    assert autumn["created"][0]["end"] == "2026-11-01T01:00:00-08:00"  # in between the clock went back an hour
    assert (summaries(alone, "deleted"), len(rest["deleted"])) == (["Rent"], 3)
    assert unknown.startswith(f"there is no event {spring['event_id']}\nhint: ")
    assert backwards == "`time_max` is before `time_min`\nhint: exchange them"
    assert nonsense.startswith("`tomorrow` is not a time\nhint: write ISO-8601")
    hints = {tool.name: tool.annotations for tool in listed.tools}
    assert {name for name, each in hints.items() if each and each.read_only_hint} == {"list_events", "find_conflicts"}
    assert {name for name, each in hints.items() if each and each.destructive_hint} == {
        "update_event",
        "delete_event",
        "delete_by_window",
    }


async def test_mail_is_found_read_written_and_sent_into_the_outbox(tmp_path: Path) -> None:
    async with desk("mail", tmp_path) as mail:
        unread = await ask(mail, "search_mail", unread_only=True, since="2026-01-28")
        report = await ask(mail, "search_mail", query="quarterly REPORT")
        read = await ask(mail, "read_mail", message_id=report["messages"][0]["message_id"])
        draft = await ask(mail, "compose_mail", to="dana@example.com", subject="Report", body="It will be ready.")
        number = draft["draft"]["message_id"]
        sent = await ask(mail, "send_mail", message_id=number)
        twice = await refused(mail, "send_mail", message_id=number)
        archived = await ask(mail, "manage_mail", message_id=read["message_id"], action="archive")
        outbox = await ask(mail, "search_mail", folder="outbox")
        nobody = await refused(mail, "compose_mail", to="Dana", subject="Report", body="…")

    assert [message["subject"] for message in unread["messages"]] == ["Proposal needed", "URGENT: quarterly report"]
    assert "it is due on 2026-01-30" in read["body"]
    assert draft["draft"]["folder"] == "drafts"
    assert (sent["sent"]["folder"], archived["message"]["folder"], outbox["total"]) == ("outbox", "archive", 1)
    assert twice == f"message {number} is in `outbox` and no draft\nhint: write one with `compose_mail`"
    assert nobody.startswith("`to` is wrong: ")


async def test_reminders_begin_empty_and_are_kept_in_the_order_of_their_times(tmp_path: Path) -> None:
    async with desk("reminders", tmp_path) as reminders:
        empty = await ask(reminders, "list_reminders")
        late = await ask(reminders, "create_reminder", text="Proposal", at="2026-02-03T09:00:00")
        await ask(reminders, "create_reminder", text="Report", at="2026-01-29T09:00:00")
        full = await ask(reminders, "list_reminders")
        await ask(reminders, "update_reminder", reminder_id=late["created"]["reminder_id"], done=True)
        rest = await ask(reminders, "list_reminders")
        over = await refused(reminders, "create_reminder", text="Yesterday", at="2026-01-27T09:00:00")
        await ask(reminders, "delete_reminder", reminder_id=full["reminders"][0]["reminder_id"])
        everything = await ask(reminders, "list_reminders", include_done=True)

    assert empty == {"reminders": [], "is_empty": True}
    assert [each["text"] for each in full["reminders"]] == ["Report", "Proposal"]
    assert [each["text"] for each in rest["reminders"]] == ["Report"]
    assert over.startswith("`2026-01-27T09:00:00` is over\nhint: it is 2026-01-28T10:00:00-08:00 now")
    assert [(each["text"], each["done"]) for each in everything["reminders"]] == [("Proposal", True)]


async def test_tasks_lists_and_contacts_are_one_servers(tmp_path: Path) -> None:
    async with desk("database", tmp_path, "coordinator", "Asia/Jerusalem") as database:
        bulk = await ask(database, "delete_tasks", status="done")
        none = await refused(database, "delete_tasks", status="done")
        vague = await refused(database, "delete_tasks")
        task = await ask(database, "add_task", title="Call the bank", due="2026-02-01T10:00:00")
        await ask(database, "update_task", task_id=task["added"]["task_id"], done=True)
        tasks = await ask(database, "list_tasks")
        shopping = await ask(database, "add_to_list", name="קניות", items=["בננה", "חלב"])
        removed = await ask(database, "remove_from_list", name="קניות", items=["לחם"])
        people = await ask(database, "find_contacts", query="DANA")
        saved = await ask(database, "save_contact", name="Omer", phone="+972500000002")
        await ask(database, "delete_contact", contact_id=saved["saved"]["contact_id"])
        gone = await ask(database, "find_contacts", query="omer")

    assert [each["title"] for each in bulk["deleted"]] == ["לחדש דרכון", "Pay the electricity bill"]
    assert none.startswith("no matching tasks\n")
    assert vague.startswith("`delete_tasks` needs one of `status` and `task_ids`")
    assert task["added"]["due"] == "2026-02-01T10:00:00+02:00"
    assert [each["title"] for each in tasks["tasks"]] == ["לקנות מתנה לאמא"]
    assert shopping["lists"] == {"קניות": ["בננה", "חלב", "לחם"]}
    assert removed == {"removed": ["לחם"], "left": ["בננה", "חלב"]}
    assert [each["email"] for each in people["contacts"]] == ["dana@example.com"]
    assert gone["is_empty"]


async def test_notes_are_found_by_words_also_inside_other_words(tmp_path: Path) -> None:
    async with desk("notes", tmp_path, "coordinator") as notes:
        added = await ask(notes, "add_note", text="תוצאות האולטרסאונד תקינות", tags=["בריאות"])
        found = await ask(notes, "search_notes", query="מה עם אולטרסאונד?")
        tagged = await ask(notes, "search_notes", query="FOOD")
        nothing = await ask(notes, "search_notes", query='"zebra" OR *')
        short = await refused(notes, "search_notes", query="a b")
        await ask(notes, "delete_note", note_id=added["added"]["note_id"])
        gone = await ask(notes, "search_notes", query="אולטרסאונד")

    assert [note["text"] for note in found["notes"]] == ["תוצאות האולטרסאונד תקינות"]
    assert [note["tags"] for note in tagged["notes"]] == [["food"]]
    assert (nothing["is_empty"], gone["is_empty"]) == (True, True)
    assert short.startswith("there is no word to look for\n")


async def test_a_page_shows_whatever_the_data_say_as_text(tmp_path: Path) -> None:
    hostile = '<script>alert(1)</script> & "quotes" {title}'
    async with desk("pages", tmp_path) as pages:
        made = await ask(
            pages,
            "create_page",
            title="../Reminders <b>",
            text=hostile,
            columns=["Text", "At"],
            rows=[[hostile, None]],
            editable=True,
        )
        uneven = await refused(pages, "create_page", title="x", columns=["one"], rows=[["1", "2"]])
        listed = await ask(pages, "list_pages")
        file = Path(unquote(urlparse(made["url"]).path))
        html = await anyio.Path(file).read_text(encoding="utf-8")
        (tmp_path / "assistant").rename(tmp_path / "elsewhere")
        (tmp_path / "assistant").write_text("in the way", encoding="utf-8")
        nowhere = await refused(pages, "list_pages")

    assert made["url"].startswith("file://")
    assert file.is_relative_to(tmp_path)
    assert "<script>" not in html
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;quotes&quot; {title}") == 2
    assert "<title>../Reminders &lt;b&gt;</title>" in html
    assert html.count('<td contenteditable="true">') == 4  # the row, and a blank one
    assert uneven == "row 1 has 2 cells for 1 columns\nhint: give a cell for each column"
    assert listed["pages"] == [made["url"]]
    assert nowhere.startswith(f"the desk has no place at `{tmp_path / 'assistant'}`: File exists\nhint: name another")
