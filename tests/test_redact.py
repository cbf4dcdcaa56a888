"""What may be written of an address or of somebody's words."""

import pytest

from lessor.redact import address, words


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("https://shop.example/a?token=hush#frag", "https://shop.example/a"),
        ("https://me:hush@shop.example/a", "https://shop.example/a"),
        ("https://me:hush@shop.example", "https://shop.example"),
        ("https://shop.example/a/b@c", "https://shop.example/a/b@c"),
        ("about:blank", "about:blank"),
    ],
)
def test_an_address_keeps_neither_credentials_nor_query(told: str, kept: str) -> None:
    assert address(told) == kept


@pytest.mark.parametrize(
    "told",
    [
        "see https://shop.example/o?access_token=hush1234 there",
        "password: hush1234",
        "PIN=hush1234, then Enter",
        "Cookie: sid=hush1234; path=/",
        "Authorization: Bearer hush1234hush",
        "sent Bearer hush1234hush1234",
        "csrf_token=hush1234",
        "api-key = hush1234",
        "eyJhbGciOi.eyJzdWIhush1234.c2ln",
    ],
)
def test_words_lose_the_values_of_secrets(told: str) -> None:
    assert "hush1234" not in words(told)


def test_words_keep_what_is_evidence() -> None:
    told = "order 4711, 12.00 EUR, GET https://shop.example/api/orders answered 404; the token ring works"
    assert words(told) == told
