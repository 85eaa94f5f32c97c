import pytest

from registry import Cost, Price, Tokens, cost_of

BOOK = Price(input=2, output=10, cache_read=0.2, cache_write=2.5)
LONG = Price(input=20, output=100, cache_read=2)
TIERED = Price(input=2, output=10, cache_read=0.2, above_tokens=100_000, above=LONG)


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
        (
            Tokens(cache_write=400_000, cache_write_1h=200_000),
            Price(cache_write=2.5, cache_write_1h=4),
            Cost(1.8, "priced"),
        ),
        (Tokens(input=500_000, cache_write_1h=1), BOOK, Cost(1, "partly")),
        (Tokens(input=100_000), TIERED, Cost(0.2, "priced")),
        (Tokens(input=1, output=100_000, cache_read=99_999), TIERED, Cost(1.0200018, "priced")),
        (Tokens(input=50_000, output=100_000, cache_read=50_001), TIERED, Cost(11.100002, "priced")),
        (Tokens(cache_read=50_000, cache_write=50_001), TIERED, Cost(0.1, "partly")),
    ],
)
def test_a_cost_says_how_much_of_the_usage_has_a_price(tokens: Tokens, price: Price | None, cost: Cost) -> None:
    found = cost_of(tokens, price)
    assert found.usd == pytest.approx(cost.usd)
    assert found.completeness == cost.completeness
