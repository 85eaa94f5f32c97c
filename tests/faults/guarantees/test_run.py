"""`make faults` keeps figures of what holds, goes on where it was cut, and its page is what the figures make of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.guarantees import page
from tests.faults.guarantees.declared import EVERY
from tests.faults.guarantees.guarantee import Broken, Course, Guarantee, Measured
from tests.faults.guarantees.run import Desk, main
from tests.faults.guarantees.suites import Suite, said


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A place where a run may write."""
    return Desk(tmp_path / "progress", tmp_path / "figures.json", tmp_path / "page.md")


def holds(measured: list[str]) -> Callable[[Course], Measured]:
    """A measurement that counts itself."""

    def measure(course: Course) -> Measured:
        measured.append(course.folder.name)
        course.tell("half of it")
        return Measured("0 lost", 1000)

    return measure


def breaks(_: Course) -> Measured:
    raise Broken("one was lost")


def test_the_page_of_guarantees_is_up_to_date() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(EVERY, page.figures()), "run `make faults`"


def test_every_name_is_there_once() -> None:
    assert len({each.name for each in EVERY}) == len(EVERY)


def test_a_promise_that_holds_has_its_figure_on_the_page(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    declared = [Guarantee("calm", "nothing is lost", holds([])), Guarantee("other", "is not asked for", breaks)]

    assert main(["calm"], declared, desk) == 0

    assert "calm              0 lost  (n = 1,000" in capsys.readouterr().out
    text = desk.page.read_text(encoding="utf-8")
    assert "| `calm` | nothing is lost | 0 lost | 1,000 |" in text
    assert "is not asked for" not in text


def test_a_promise_that_breaks_loses_its_figure_and_what_was_measured_is_not_measured_again(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[str] = []
    calm = Guarantee("calm", "nothing is lost", holds(measured))
    assert main([], [calm, Guarantee("weak", "it stands", holds(measured))], desk) == 0

    weak = [calm, Guarantee("weak", "it stands", breaks)]
    assert [main([], weak, desk), main([], weak, desk)] == [1, 1]

    assert measured == ["calm", "weak", "calm"]
    assert page.figures(desk.figures).keys() == {"calm"}
    assert "`weak` does not hold (seed" in capsys.readouterr().err


def test_other_code_or_another_seed_begins_anew(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    declared = [Guarantee("calm", "nothing is lost", holds(measured)), Guarantee("weak", "it stands", breaks)]
    main([], declared, desk)
    monkeypatch.setenv("OUTRIDER_SEED", "7")

    main([], declared, desk)
    main([], declared, desk)

    assert measured == ["calm", "calm"]
    assert page.figures(desk.figures)["calm"]["seed"] == 7


def test_an_unknown_name_is_refused_with_those_that_are_there(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["clam"], [Guarantee("calm", "nothing is lost", breaks)], desk)

    assert exit_.value.code == 2
    assert "no guarantee `clam`\nhint: name one of calm" in capsys.readouterr().err


def test_a_suite_is_asked_for_as_many_as_are_wanted_and_its_failure_is_told(tmp_path: Path) -> None:
    file = tmp_path / "test_many.py"
    file.write_text(
        "import os\nfrom tests.support.figures import tell\n"
        "def test_many():\n    tell(seen=os.environ['MANY'])\n    assert os.environ['MANY'] == '3', 'too many'\n",
        encoding="utf-8",
    )
    course = Course(tmp_path, 1, lambda _: None)

    measured = Suite(str(file), "MANY", 3, lambda told: f"seen {told[0]['seen']}")(course)
    assert measured == Measured("seen 3", 3)
    with pytest.raises(Broken, match="too many"):
        Suite(str(file), "MANY", 4, said("never"))(course)
