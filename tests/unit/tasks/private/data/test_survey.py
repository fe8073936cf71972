"""The description of private records for their owner."""

import pytest

from tasks.private.data.survey import Survey, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The router in my office is slow and it was fine with the old one", "en"),
        ("Der Router ist langsam und ich kann nicht auf das Internet zu den Kunden", "de"),
        ("La connexion est lente et je ne suis pas dans les temps pour une réunion", "fr"),
        ("El router es lento y no puedo trabajar con los clientes por una hora", "es"),
        ("路由器很慢 我无法上网", "zh"),
        ("ルーターが遅いです", "ja"),
        ("Роутер работает медленно", "ru"),
        ("42 !", "en"),
    ],
)
def test_the_language_of_texts(text: str, language: str) -> None:
    assert language_of([text]) == language


@pytest.mark.parametrize(("rows", "number"), [(0, 1), (7, 7), (99, 90), (120, 100), (1000, 1000), (4999, 4000)])
def test_the_declared_number_is_rounded_down(rows: int, number: int) -> None:
    assert Survey(rows, {}, "en").declared_rows == number


def test_its_repr_shows_no_number() -> None:
    assert "17" not in repr(Survey(17, {"secret": 17}, "en"))
