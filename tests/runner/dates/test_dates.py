"""What phrases about dates mean: fixed clocks, several zones and locales, days on which clocks change."""

import re
import subprocess
import sys
from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.dates.dates import ResolvedDate, TimeRange, resolve_date, resolve_time_range, settled
from tests.support.requirement import requirement

LOS_ANGELES, JERUSALEM, LONDON = ZoneInfo("America/Los_Angeles"), ZoneInfo("Asia/Jerusalem"), ZoneInfo("Europe/London")
WEDNESDAY = datetime(2026, 1, 28, 10, 0, tzinfo=LOS_ANGELES)
THURSDAY = datetime(2026, 1, 29, 10, 0, tzinfo=LOS_ANGELES)


def day(phrase: str, locale: str = "en-US", now: datetime = WEDNESDAY) -> str | None:
    """The ISO date of a phrase."""
    found = resolve_date(phrase, now, locale)
    return None if found is None else found.iso


def days(phrase: str, locale: str = "en-US", now: datetime = WEDNESDAY) -> str | None:
    """A range as `first..last`, its offsets left out."""
    found = resolve_time_range(phrase, now, locale)
    if found is None:
        return None
    assert re.fullmatch(r"\S+T00:00:00[+-]\d\d:\d\d", found.start), found
    assert re.fullmatch(r"\S+T23:59:59[+-]\d\d:\d\d", found.end), found
    return f"{found.start[:10]}..{found.end[:10]}"


@requirement("S0-UL-1")
@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("today", ("2026-01-28", "Wednesday")),
        ("Tomorrow", ("2026-01-29", "Thursday")),
        ("yesterday", ("2026-01-27", "Tuesday")),
        ("the day after tomorrow", ("2026-01-30", "Friday")),
        ("friday", ("2026-01-30", "Friday")),
        ("on Friday at 3pm", ("2026-01-30", "Friday")),
        ("wednesday", ("2026-01-28", "Wednesday")),  # today counts
        ("Wed", ("2026-01-28", "Wednesday")),
        ("this friday", ("2026-01-30", "Friday")),
        ("next tuesday", ("2026-02-03", "Tuesday")),
        ("next friday", ("2026-02-06", "Friday")),  # that of next week
        ("last monday", ("2026-01-26", "Monday")),
        ("last wednesday", ("2026-01-21", "Wednesday")),
        ("in 3 days", ("2026-01-31", "Saturday")),
        ("in two weeks", ("2026-02-11", "Wednesday")),
        ("in a month", ("2026-02-28", "Saturday")),
        ("3 days ago", ("2026-01-25", "Sunday")),
        ("the 5th", ("2026-02-05", "Thursday")),
        ("2026-01-30", ("2026-01-30", "Friday")),
        ("2026-01-30 (tomorrow)", ("2026-01-30", "Friday")),
        ("January 30", ("2026-01-30", "Friday")),
        ("January 5", ("2027-01-05", "Tuesday")),  # the next one
        ("30 Jan 2026", ("2026-01-30", "Friday")),
        ("Friday, January 30th, 2026", ("2026-01-30", "Friday")),
        ("2026-01-31T04:00:00Z", ("2026-01-30", "Friday")),  # evening in California
    ],
)
def test_a_phrase_becomes_a_date_and_its_day_of_the_week(phrase: str, expected: tuple[str, str]) -> None:
    assert resolve_date(phrase, WEDNESDAY, "en-US") == ResolvedDate(*expected)


@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("היום", "2026-01-28"),
        ("מחר", "2026-01-29"),
        ("מחר בבוקר", "2026-01-29"),
        ("מחרתיים", "2026-01-30"),
        ("שלשום", "2026-01-26"),
        ("יום שישי", "2026-01-30"),
        ("ביום שישי", "2026-01-30"),
        ("בשבת", "2026-01-31"),
        ("יום א׳", "2026-02-01"),
        ("יום שישי הבא", "2026-02-06"),
        ("יום שני שעבר", "2026-01-26"),
        ("בעוד 3 ימים", "2026-01-31"),
        ("בעוד שלושה ימים", "2026-01-31"),
        ("בעוד שבוע", "2026-02-04"),
        ("בעוד שבועיים", "2026-02-11"),
        ("לפני יומיים", "2026-01-26"),
        ("30 בינואר", "2026-01-30"),
        ("1.2.2026", "2026-02-01"),
        ("friday", "2026-01-30"),
    ],
)
def test_hebrew_phrases_are_understood_and_english_ones_by_their_side(phrase: str, expected: str) -> None:
    assert day(phrase, "he-IL", WEDNESDAY.replace(tzinfo=JERUSALEM)) == expected


@requirement("S0-UL-2")
@pytest.mark.parametrize(
    ("phrase", "expected"),
    [
        ("today", "2026-01-28..2026-01-28"),
        ("tomorrow", "2026-01-29..2026-01-29"),
        ("this week", "2026-01-25..2026-01-31"),
        ("next week", "2026-02-01..2026-02-07"),
        ("last week", "2026-01-18..2026-01-24"),
        ("this month", "2026-01-01..2026-01-31"),
        ("next month", "2026-02-01..2026-02-28"),
        ("last month", "2025-12-01..2025-12-31"),
        ("next year", "2027-01-01..2027-12-31"),
        ("this weekend", "2026-01-31..2026-02-01"),
        ("next weekend", "2026-02-07..2026-02-08"),
        ("the next 3 days", "2026-01-28..2026-01-30"),
        ("last two weeks", "2026-01-15..2026-01-28"),
        ("January", "2026-01-01..2026-01-31"),
        ("March 2027", "2027-03-01..2027-03-31"),
        ("monday to friday", "2026-02-02..2026-02-06"),
        ("2026-01-30", "2026-01-30..2026-01-30"),
        ("2026-01-25/2026-01-31 (this week)", "2026-01-25..2026-01-31"),
        ("השבוע", "2026-01-25..2026-01-31"),
        ("בשבוע הבא", "2026-02-01..2026-02-07"),
        ("שבוע שעבר", "2026-01-18..2026-01-24"),
        ("החודש", "2026-01-01..2026-01-31"),
        ("החודש הבא", "2026-02-01..2026-02-28"),
    ],
)
def test_a_phrase_becomes_the_first_and_the_last_second_of_its_days(phrase: str, expected: str) -> None:
    assert days(phrase) == expected


@requirement("S0-UL-2")
@pytest.mark.parametrize(
    ("locale", "week", "weekend"),
    [
        ("en-US", "2026-01-25..2026-01-31", "2026-01-31..2026-02-01"),
        ("he-IL", "2026-01-25..2026-01-31", "2026-01-30..2026-01-31"),
        ("en-GB", "2026-01-26..2026-02-01", "2026-01-31..2026-02-01"),
        ("de-DE", "2026-01-26..2026-02-01", "2026-01-31..2026-02-01"),
        ("he", "2026-01-25..2026-01-31", "2026-01-30..2026-01-31"),
        ("ar-EG", "2026-01-24..2026-01-30", "2026-01-30..2026-01-31"),
        ("he-IL-u-fw-mon", "2026-01-26..2026-02-01", "2026-01-30..2026-01-31"),
        ("xx-YY", "2026-01-25..2026-01-31", "2026-01-31..2026-02-01"),
    ],
)
def test_the_locale_says_when_a_week_begins_and_which_days_are_the_weekend(locale: str, week: str, weekend: str) -> None:
    assert (days("this week", locale), days("this weekend", locale)) == (week, weekend)


def test_on_the_last_day_of_a_weekend_this_weekend_is_still_the_one_that_is() -> None:
    sunday = datetime(2026, 2, 1, 20, 0, tzinfo=LONDON)

    assert days("this weekend", "en-GB", sunday) == "2026-01-31..2026-02-01"
    assert days("next weekend", "en-GB", sunday) == "2026-02-07..2026-02-08"


def test_the_week_of_the_hebrew_example_begins_on_a_monday_which_its_user_has_to_say() -> None:
    """`timeMin: 2025-12-08` is a Monday, but weeks in Israel begin on Sunday: such a user's locale is `he-IL-u-fw-mon`."""
    now = datetime(2025, 12, 10, 9, 0, tzinfo=JERUSALEM)

    own = resolve_time_range("השבוע", now, "he-IL-u-fw-mon")
    usual = resolve_time_range("השבוע", now, "he-IL")

    assert own == TimeRange("2025-12-08T00:00:00+02:00", "2025-12-14T23:59:59+02:00")
    assert usual == TimeRange("2025-12-07T00:00:00+02:00", "2025-12-13T23:59:59+02:00")


def test_the_language_and_the_order_of_day_and_month_are_the_locales() -> None:
    assert (day("1/2/2026", "en-US"), day("1/2/2026", "en-GB")) == ("2026-01-02", "2026-02-01")
    assert (day("übermorgen", "de-DE"), day("Freitag", "de-DE"), day("tomorrow", "de-DE")) == (
        "2026-01-30",
        "2026-01-30",
        "2026-01-29",
    )
    assert (day("nächste Woche", "de-DE"), days("nächste Woche", "de-DE")) == (None, "2026-02-02..2026-02-08")
    assert day("übermorgen", "en-US") is None


@requirement("S0-UT-5")
def test_the_same_moment_is_another_day_in_another_time_zone() -> None:
    moment = datetime(2026, 1, 29, 5, 30, tzinfo=ZoneInfo("UTC"))

    california, israel = moment.astimezone(LOS_ANGELES), moment.astimezone(JERUSALEM)

    assert (day("today", now=california), day("today", now=israel)) == ("2026-01-28", "2026-01-29")
    assert (day("friday", now=california), day("in 2 days", now=israel)) == ("2026-01-30", "2026-01-31")
    assert resolve_time_range("tomorrow", california, "en-US") == TimeRange(
        "2026-01-29T00:00:00-08:00", "2026-01-29T23:59:59-08:00"
    )


@requirement("S0-UT-5")
@pytest.mark.parametrize(
    ("zone", "phrase", "start", "end"),
    [
        (LOS_ANGELES, "2026-03-08", "2026-03-08T00:00:00-08:00", "2026-03-08T23:59:59-07:00"),
        (LOS_ANGELES, "2026-11-01", "2026-11-01T00:00:00-07:00", "2026-11-01T23:59:59-08:00"),
        (JERUSALEM, "march 2026", "2026-03-01T00:00:00+02:00", "2026-03-31T23:59:59+03:00"),
        # In Havana clocks go from 0:00 to 1:00: the day begins with the moment that would have been midnight.
        (ZoneInfo("America/Havana"), "2026-03-08", "2026-03-08T00:00:00-05:00", "2026-03-08T23:59:59-04:00"),
        # In Asunción they went from 24:00 back to 23:00: the day ends the second time.
        (ZoneInfo("America/Asuncion"), "2024-03-23", "2024-03-23T00:00:00-03:00", "2024-03-23T23:59:59-04:00"),
    ],
)
def test_on_days_on_which_clocks_change_each_end_has_its_own_offset(
    zone: ZoneInfo, phrase: str, start: str, end: str
) -> None:
    now = datetime(2026, 1, 28, 10, 0, tzinfo=zone)

    assert resolve_time_range(phrase, now, "en-US") == TimeRange(start, end)


@pytest.mark.parametrize(
    "phrase", ["", "soon", "asap", "5", "a", "second", "2026-02-30", "the 40th", "in 9000 years", "x" * 500]
)
def test_what_is_not_surely_a_date_is_none(phrase: str) -> None:
    assert (resolve_date(phrase, WEDNESDAY, "en-US"), resolve_time_range(phrase, WEDNESDAY, "en-US")) == (None, None)


@pytest.mark.parametrize("phrase", ["next week", "may", "2027", "השבוע", "monday to friday"])
def test_a_range_is_not_a_date(phrase: str) -> None:
    assert day(phrase) is None
    assert days(phrase) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("List all calendar events for tomorrow", "List all calendar events for 2026-01-30 (tomorrow)"),
        ("Today's mail, and tomorrow.", "2026-01-29 (Today's) mail, and 2026-01-30 (tomorrow)."),
        ("Find a slot on Friday 3pm", "Find a slot on 2026-01-30 (Friday) 3pm"),
        ("events of this week", "events of 2026-01-25/2026-01-31 (this week)"),
        ("due in 3 days", "due 2026-02-01 (in 3 days)"),
        ("sent 2 weeks ago", "sent 2026-01-15 (2 weeks ago)"),
        ("every Monday and Friday, but not next Friday", "every Monday and Friday, but not 2026-02-06 (next Friday)"),
        ("תזכיר לי מחר", "תזכיר לי 2026-01-30 (מחר)"),
        ("פגישות ביום שישי", "פגישות 2026-01-30 (ביום שישי)"),
        ("תפנה את השבוע", "תפנה את 2026-01-25/2026-01-31 (השבוע)"),
    ],
)
def test_relative_words_left_in_a_task_get_their_date(text: str, expected: str) -> None:
    assert settled(text, THURSDAY, "en-US") == expected


@pytest.mark.parametrize(
    "text",
    [
        "List events on 2026-01-30 (Friday)",
        "List events on 2026-01-30 (tomorrow)",
        "Friday (2026-01-30), tomorrow, 2026-01-30",
        "Friday, January 30 and Friday 30 January and 30 January (Friday)",
        "You may wait a second; march on; the second one",
        "Fridays, mondayish, within 3 days, todays",
        "Black Friday offers, every friday, each other Monday",
        'send "see you tomorrow" to Bob and open `today`',
        "see https://example.org/today, today.txt and me@tomorrow.example",
        "כל יום שישי, שני אנשים, ראשון ברשימה",
        "",
    ],
)
def test_what_is_settled_repeated_quoted_or_no_date_at_all_stays(text: str) -> None:
    assert settled(text, THURSDAY, "en-US") == text


WORDS = (
    *("today", "tomorrow's", "Friday", "next friday", "this week", "in 3 days", "every monday", "and", "on", "2026-01-30"),
    *(
        "(Friday)",
        "(",
        ")",
        '"',
        "'",
        "January",
        "5",
        "th",
        ",",
        "/",
        "-",
        "\n",
        "מחר",
        "ביום שישי",
        "השבוע הבא",
        "כל",
        "the",
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["", " "]))
def test_a_text_that_was_settled_is_not_changed_again(words: list[str], between: str) -> None:
    once = settled(between.join(words), THURSDAY, "en-US")

    assert settled(once, THURSDAY, "en-US") == once
    assert settled(once, WEDNESDAY, "he-IL") == once


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join), st.sampled_from(["en-US", "he-IL"])
)
def test_no_phrase_is_too_strange_to_ask_about(phrase: str, locale: str) -> None:
    found, span = resolve_date(phrase, WEDNESDAY, locale), resolve_time_range(phrase, WEDNESDAY, locale)

    assert found is None or date.fromisoformat(found.iso)
    assert span is None or datetime.fromisoformat(span.start) <= datetime.fromisoformat(span.end)


def test_who_asks_for_no_date_does_not_pay_for_the_libraries() -> None:
    code = "import sys, runner.dates.tools; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    assert not {"babel", "dateparser"} & set(done.stdout.split())
