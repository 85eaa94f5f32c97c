"""One function for every window: age, then number, then tokens; oldest first."""

from dataclasses import dataclass
from datetime import timedelta

from runner.text import HISTORY, Window, windowed
from tests.support.requirement import requirement


@dataclass(frozen=True)
class Said:
    """Something of a certain age and length."""

    hours: float
    tokens: int = 1


def shown(entries: list[Said], window: Window = HISTORY) -> list[Said]:
    """What a window shows of entries, oldest first."""
    return list(windowed(entries, window, lambda each: each.tokens, lambda each: timedelta(hours=each.hours)))


@requirement("S0-MH-4")
def test_a_conversation_shows_a_day_twenty_messages_and_four_thousand_tokens() -> None:
    assert Window(max_age=timedelta(hours=24), max_entries=20, max_tokens=4000, min_keep=0) == HISTORY


@requirement("S0-MH-5")
def test_what_is_too_old_goes_first_and_does_not_count_for_the_other_rules() -> None:
    day = Said(24)
    old = [Said(hours, tokens=4000) for hours in (48, 24.01)]

    assert shown([*old, day, Said(0)]) == [day, Said(0)]


@requirement("S0-MH-5")
def test_then_the_newest_stay_oldest_first() -> None:
    talk = [Said(number / 10) for number in range(30, 0, -1)]

    assert shown(talk) == talk[10:]
    assert shown(talk[:20]) == talk[:20]


@requirement("S0-MH-5")
def test_then_the_oldest_go_until_the_rest_fits() -> None:
    talk = [Said(3, 1), Said(2, 2000), Said(1, 1999), Said(0, 1)]

    assert shown(talk) == talk[1:]
    assert shown([*talk, Said(0, 4000)]) == [Said(0, 4000)]
    assert shown([*talk, Said(0, 4001)]) == []


def test_of_what_must_be_kept_the_newest_stays_whatever_its_age_and_length() -> None:
    one = Window(max_age=timedelta(hours=1), max_entries=0, max_tokens=10, min_keep=1)

    assert shown([Said(9), Said(8, 99)], one) == [Said(8, 99)]
    assert shown([], one) == []


def test_a_window_without_measures_shows_everything() -> None:
    assert list(windowed(["a", "b"], Window())) == ["a", "b"]
    assert list(windowed(["a", "b", "c"], Window(max_entries=2))) == ["b", "c"]
