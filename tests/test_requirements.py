"""The manifest of requirements and the tests agree, in both directions."""

from tests.requirements.manifest import named_by_tests, read_manifest
from tests.requirements.update import rewritten


def test_every_requirement_a_test_names_exists() -> None:
    manifest = read_manifest()

    unknown = [str(named) for named in named_by_tests() if named.id not in manifest]

    assert not unknown, f"no such requirement: {unknown}; correct the id or define it in tests/requirements"


def test_every_requirement_is_proved_by_a_test_or_planned() -> None:
    proved = {named.id for named in named_by_tests()}

    open_ends = [
        row.id for row in read_manifest().values() if row.id not in proved and not row.planned and not row.decision
    ]

    assert not open_ends, f"no test names {open_ends}; write one, or run `make requirements` to mark them planned"


def test_no_requirement_is_both_planned_and_proved() -> None:
    manifest = read_manifest()

    stale = [str(named) for named in named_by_tests() if named.id in manifest and manifest[named.id].planned]

    assert not stale, f"proved and still planned: {stale}; run `make requirements` to remove `planned`"


def test_the_manifest_says_something_different_for_every_requirement() -> None:
    texts = [row.text for row in read_manifest().values()]

    assert len(texts) == len(set(texts))


def test_rewriting_flags_touches_nothing_but_the_flags() -> None:
    before = '# note\n\n[A-1]\ntext = "one"\nplanned = true\n\n[A-2]\ntext = "two"\n'

    after = rewritten(before, planned={"A-2"})

    assert after == '# note\n\n[A-1]\ntext = "one"\n\n[A-2]\ntext = "two"\nplanned = true\n'
