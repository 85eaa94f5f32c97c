"""Facts about users: none twice, found by its words in any language, and each only by its own user."""

from pathlib import Path

import pytest

from db.query.query import query, relations
from db.rows import memories
from db.rows.memories import MemoryScope, words_of
from tests.db.store import Store, connected, open_store

HOSTILE = (
    '"', "'", "*", "^tea", "tea*", "-tea", "(tea", "tea)", "NEAR(tea milk)", "tea AND", "OR", "NOT", "content:tea",
    "folded : tea", "{folded category} : tea", "tea + milk",
    "'; drop table facts; --", "%", "_", "tea\x00milk", "\ud800", "…", "?" * 1000,
)  # fmt: skip


async def keeper(store: Store, user: str = "alex") -> MemoryScope:
    """An execution that works for a person."""
    return MemoryScope(user, await store.running(), attempt=1)


async def remember(store: Store, keeper: MemoryScope, *contents: str, category: str = "general") -> list[int]:
    """Store facts; the numbers of those that were new."""
    ticket = await store.apply(memories.remember(keeper, [(category, content) for content in contents]))
    assert ticket.held
    assert len(ticket.touched) <= len(contents), "others are not heard of"
    return [row.id for row in ticket.touched if not row.known]


async def found(store: Store, words: str, user: str = "alex", limit: int = 10) -> list[str]:
    """What a search finds, in its order."""
    return [row["content"] for row in await store.database.reads.facts.search(user, words, limit)]


async def test_a_fact_is_stored_once_however_it_is_spelt(store: Store) -> None:
    alex = await keeper(store)

    (first,) = await remember(store, alex, "Prefers tea.", "prefers  TEA", category="preferences")
    ticket = await store.apply(memories.remember(alex, [("drinks", "\u200fＰrefers\ntea"), ("drinks", "No coffee")]))

    assert [(row.known, row.category, row.content) for row in ticket.touched] == [
        (1, "preferences", "Prefers tea."),
        (0, "drinks", "No coffee"),
    ]
    assert ticket.touched[0].id == first
    assert [row["content"] for row in await store.database.reads.facts.of("alex")] == ["Prefers tea.", "No coffee"]
    stored = [event for event in store.published if event["type"] == "memory.stored"]
    assert [event["execution_id"] for event in stored] == [alex.place.id] * 2
    assert not any("tea" in event["payload"] for event in stored), "who watches an execution need not know its person"


async def test_each_person_has_a_memory_of_their_own(store: Store) -> None:
    alex, dana = await keeper(store), await keeper(store, "dana")
    fact, _ = await remember(store, alex, "lives in Haifa", "has a dog")
    (other,) = await remember(store, dana, "lives in Haifa")

    assert not (await store.apply(memories.amend(dana, fact, "lives in Eilat", None))).held
    assert not (await store.apply(memories.forget(dana, fact))).held
    assert await store.database.reads.facts.one("dana", fact) is None
    assert (await store.apply(memories.amend(dana, other, "has a dog", None))).held, "what others have is no duplicate"

    assert {*await found(store, "lives dog")} == {"has a dog", "lives in Haifa"}
    assert await found(store, "lives dog", "dana") == ["has a dog"]


async def test_a_fact_is_corrected_unless_another_one_says_that(store: Store) -> None:
    alex = await keeper(store)
    first, second = await remember(store, alex, "works at Acme", "has a dog", category="life")

    assert not (await store.apply(memories.amend(alex, second, "Works at ACME!", None))).held
    assert (await store.apply(memories.amend(alex, first, "Works at Acme.", None))).held, "its own words are no conflict"
    assert (await store.apply(memories.amend(alex, first, "works at Initech", "work"))).held

    rows = [(row["id"], row["category"], row["content"]) for row in await store.database.reads.facts.of("alex")]
    assert rows == [(first, "work", "works at Initech"), (second, "life", "has a dog")]
    assert (await found(store, "acme"), await found(store, "initech work")) == ([], ["works at Initech"])


async def test_the_number_of_a_fact_that_was_removed_never_means_another(store: Store) -> None:
    alex = await keeper(store)
    (fact,) = await remember(store, alex, "owns a boat")

    assert (await store.apply(memories.forget(alex, fact))).held
    assert not (await store.apply(memories.forget(alex, fact))).held

    assert await found(store, "boat") == []
    assert await remember(store, alex, "owns a boat") != [fact]


async def test_an_execution_that_went_to_another_process_changes_no_memory_any_more(store: Store) -> None:
    alex = await keeper(store)
    (fact,) = await remember(store, alex, "likes jazz")
    late = MemoryScope("alex", alex.place, attempt=0)

    changes = [memories.remember(late, [("x", "likes rock")]), memories.amend(late, fact, "likes rock", None)]
    tickets = await store.together(*changes, memories.forget(late, fact))

    assert [ticket.held for ticket in tickets] == [False] * 3
    assert [row["content"] for row in await store.database.reads.facts.of("alex")] == ["likes jazz"]


async def test_the_best_match_comes_first(store: Store) -> None:
    alex = await keeper(store)
    await remember(
        store, alex, "His sister is called Category", "The cat is called Tom", "Tom, the cat, hates the other cat"
    )
    await remember(store, alex, "Is afraid of dogs", category="cat")

    assert (await found(store, "cat"))[-1] == "His sister is called Category", "a beginning counts less than a word"
    assert (await found(store, "is the CAT called Tom?"))[0] == "The cat is called Tom", "the more words, the better"
    assert await found(store, "cat", limit=1) == [(await found(store, "cat"))[0]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("גר בירושלים עם אשתו", "ירושלים"),
        ("שָׁלוֹם לְכֻלָּם", "שלום"),
        ("יום ההולדת של אמא ב־12 במאי", "מתי יום הולדת?"),
        ("Trinkt Kaffee nur mit Milch, mag Äpfel", "apfel"),
        ("drinks café au lait", "CAFE"),
        ("Работает в Хайфе", "работа"),
        ("他的生日是五月", "生日"),
        ("हिन्दी बोलता है", "हिन्दी"),
        ("مُحَمَّد يسكن في حيفا", "محمد"),
    ],
)
async def test_facts_are_found_in_any_language(store: Store, content: str, words: str) -> None:
    alex = await keeper(store)
    await remember(store, alex, "Something else, and more", content, "1234567")

    assert await found(store, words) == [content]


async def test_words_that_differ_in_their_vowel_signs_are_different(store: Store) -> None:
    await remember(store, await keeper(store), "घर का", "घर की")

    assert await found(store, "की") == ["घर की"]


async def test_no_words_are_a_syntax_error(store: Store) -> None:
    alex = await keeper(store)
    await remember(store, alex, "tea with milk")

    for words in HOSTILE:
        assert await found(store, words) == (["tea with milk"] if {"tea", "milk"} & {*words_of(words)} else []), words
    assert await found(store, " ".join(f"word{number}" for number in range(5_000))) == []


async def test_processes_that_learn_the_same_at_once_store_it_once(tmp_path: Path) -> None:
    path = tmp_path / "outrider.db"
    facts = [("general", f"fact number {number}") for number in range(20)]
    async with open_store(path) as here, open_store(path) as there:
        stores = [here, there]
        keepers = [await keeper(each) for each in stores]
        handed_in = [
            (store, store.post(memories.remember(keeper, [fact]))[0])
            for fact in facts
            for store, keeper in zip(stores, keepers, strict=True)
        ]
        for _, ticket in handed_in:
            await ticket.done.wait()

        assert sum(not row.known for _, ticket in handed_in for row in ticket.touched) == len(facts)
        assert all(len(ticket.touched) == 1 for _, ticket in handed_in), "the second write returns the known fact"
        assert len(await here.database.reads.facts.of("alex")) == len(await there.database.reads.facts.of("alex")) == 20


async def test_the_index_follows_every_writer_and_survives_a_vacuum(store: Store) -> None:
    alex = await keeper(store)
    removed, *_ = await remember(store, alex, *(f"number {number}" for number in range(50)), "likes chess")
    await store.apply(memories.forget(alex, removed))

    with connected(store.path) as connection:
        connection.execute("delete from facts where content = 'number 7'")
        connection.execute("vacuum")
        connection.execute("insert into facts_text (facts_text, rank) values ('integrity-check', 1)")

    assert await found(store, "chess") == ["likes chess"]
    assert await found(store, "7") == []


async def test_sql_shows_facts_and_not_their_index(store: Store) -> None:
    await remember(store, await keeper(store), "likes chess")

    assert {each.name for each in relations(store.path) if each.name.startswith("facts")} == {"facts"}
    assert query(store.path, "select user_id, content from facts").rows == [("alex", "likes chess")]
