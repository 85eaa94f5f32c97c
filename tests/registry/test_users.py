import pytest

from registry import ChatSpec, UnknownName, UserSpec, describe, json_schema, restore
from tests.registry.conftest import Load, Problems

PEOPLE = """
    users:
      alex:
        name: Alex
        timezone: America/Los_Angeles
        locale: EN-us
        capabilities: [gmail, database]
        connections: [google]
        aliases: ["+15550100", Alex@Example.org]
      noa-levi: {locale: he-il-U-fw-Mon, timezone: "${NOA_ZONE:-Asia/Jerusalem}"}
      kim:
"""


def test_a_user_has_what_the_file_says_and_sensible_values_for_the_rest(load_yaml: Load) -> None:
    settings = load_yaml(PEOPLE)

    alex = UserSpec(
        "alex",
        "Alex",
        "America/Los_Angeles",
        "en-US",
        ("gmail", "database"),
        ("google",),
        ("+15550100", "Alex@Example.org"),
    )
    assert settings.users == {
        "alex": alex,
        "noa-levi": UserSpec("noa-levi", "noa-levi", "Asia/Jerusalem", "he-IL-u-fw-mon"),
        "kim": UserSpec("kim", "kim", "UTC", "en"),
    }


def test_a_user_is_found_by_id_and_alias_however_they_are_spelt(load_yaml: Load) -> None:
    settings = load_yaml(PEOPLE)

    for name in ("alex", "ALEX", "+15550100", "alex@example.org"):
        assert settings.user(name).id == "alex"
    assert settings.user("Noa_Levi").id == "noa-levi"
    with pytest.raises(UnknownName, match="no user named `alx`") as unknown:
        settings.user("alx")
    assert unknown.value.hint == "did you mean `alex`? Known: `alex`, `noa-levi`, `kim`"


def test_users_are_shown_with_their_lines_and_stored_with_variables_by_reference(load_yaml: Load) -> None:
    settings = load_yaml(PEOPLE, {"NOA_ZONE": "Europe/Paris"})

    assert "timezone: America/Los_Angeles  # config.yaml:5" in describe(settings)
    assert "Europe/Paris" not in settings.snapshot
    assert restore(settings.snapshot, {"NOA_ZONE": "Europe/Paris"}).users == settings.users
    assert json_schema()["$defs"]["UserEntry"]["properties"]["timezone"]["default"] == "UTC"


@pytest.mark.parametrize(
    ("entry", "column", "message", "hint"),
    [
        ("{timezone: America/Los_Angles}", 20, "no time zone named `America/Los_Angles`", "`America/Los_Angeles`"),
        ("{timezone: Europe}", 20, "no time zone named `Europe`", "did you mean `Europe/"),
        ("{timezone: ../zones}", 20, "no time zone named `../zones`", "IANA"),
        ('{timezone: "${WHERE}"}', 20, "no time zone named `${WHERE}`", "IANA"),
        ("{locale: en_US}", 18, "a locale is a language", "`en-US`"),
        ("{locale: klingon}", 18, "a locale is a language", "`en-US`"),
        ("{locale: he-IL-u}", 18, "a locale is a language", "`he-IL-u-fw-mon`"),
        ("{aliases: [kim]}", 20, "`kim` already means `kim`", "one user"),
        ("{aliases: [a, A]}", 23, "`A` already means `alex`", "one user"),
        ("{capabilities: gmail}", 24, "a list is expected, not a text", "[gmail]"),
        ("{time_zone: UTC}", 10, "unknown key `time_zone`", "did you mean `timezone`?"),
    ],
)
def test_what_is_wrong_with_a_user_is_told_with_its_place(
    problems_of: Problems, entry: str, column: int, message: str, hint: str
) -> None:
    [problem] = problems_of(f"users:\n  alex: {entry}\n  kim: {{}}\n", {"WHERE": "Canary/Island"})

    assert (problem.line, problem.column) == (2, column)
    assert message in problem.message
    assert hint in problem.hint
    assert "Canary" not in str(problem)


def test_an_alias_of_two_users_and_two_ids_that_fold_alike_are_refused(problems_of: Problems) -> None:
    alias, name = problems_of("users:\n  alex: {aliases: ['+1']}\n  kim: {aliases: ['+1']}\n  Kim: {}\n")

    assert (alias.line, alias.message) == (3, "`+1` already means `alex`")
    assert (name.line, "is the same name as `kim` in line 3" in name.message) == (4, True)


AGENTS = "agents: {Helper: {}}\nagent_chains: {look: {stages: [{name: s, agents: [Helper]}]}}\n"


@pytest.mark.parametrize(("written", "meant"), [("helper", "Helper"), ("LOOK", "look")])
def test_an_agent_or_a_chain_answers_users(load_yaml: Load, written: str, meant: str) -> None:
    settings = load_yaml(f"{AGENTS}chat: {{agent: {written}}}")

    assert settings.chat == ChatSpec(meant)
    assert restore(settings.snapshot, {}).chat == settings.chat
    assert load_yaml(AGENTS).chat is None


@pytest.mark.parametrize(
    ("section", "message"),
    [("{agent: Helpr}", "no agent or chain named `Helpr`"), ("{}", "`agent` is missing"), ("", "`agent` is missing")],
)
def test_the_agent_that_answers_users_must_exist(problems_of: Problems, section: str, message: str) -> None:
    [problem] = problems_of(f"{AGENTS}chat: {section}")

    assert (problem.line, problem.message) == (3, message)
