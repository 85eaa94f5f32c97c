import pytest

from registry import Cost, Price, Tokens, cost_of

BOOK = Price(input=2, output=10, cache_read=0.2, cache_write=2.5)


@pytest.mark.parametrize(
    ("tokens", "price", "cost"),
    [
        (Tokens(1_000_000, 100_000, 2_000_000, 400_000), BOOK, Cost(2 + 1 + 0.4 + 1, "priced")),
        (Tokens(), BOOK, Cost(0, "priced")),
        (Tokens(), None, Cost(0, "unpriced")),
        (Tokens(input=500_000), Price(input=2), Cost(1, "priced")),
        (Tokens(input=500_000, output=1), Price(input=2), Cost(1, "partly")),
        (Tokens(input=5, cache_read=7), Price(output=2), Cost(0, "unpriced")),
        (Tokens(input=5), None, Cost(0, "unpriced")),
        (Tokens(input=5, output=5), Price(input=0, output=0), Cost(0, "priced")),
    ],
)
def test_a_cost_says_how_much_of_the_usage_has_a_price(tokens: Tokens, price: Price | None, cost: Cost) -> None:
    assert cost_of(tokens, price) == cost
