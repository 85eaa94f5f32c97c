"""The page of faults is what the declarations and the last figures make of it."""

from tests.faults.page import PAGE, families, page


def test_the_page_of_faults_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make faults`"


def test_no_two_faults_have_one_name() -> None:
    names = [fault.name for faults in families().values() for fault in faults]
    assert len(set(names)) == len(names)
