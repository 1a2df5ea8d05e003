"""No page has a word that stops a browser, whatever template shows it."""

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils.html import escape

from dashboard.long_words import MAX_FIELD_WORD, LongWords
from dashboard.rendering.line_breaks import MAX_JOINED
from historyapp import settings

TONES = "a" + "\U0001f3fb" * 3 * MAX_JOINED
DIVIDED = "a" + "<wbr>".join(["\U0001f3fb" * MAX_JOINED] * 3)


def shown(html: str, content_type: str = "text/html; charset=utf-8") -> str:
    response = HttpResponse(html, content_type=content_type)
    LongWords(lambda _: response)(RequestFactory().get("/"))
    return response.content.decode()


def test_words_of_every_page_are_divided_once() -> None:
    """2,000 such characters in a message of a context stopped a page for 15 s, in a field for 2 s."""
    assert "dashboard.long_words.LongWords" in settings.MIDDLEWARE
    page = f'<p title="{TONES}">{TONES}</p>'
    assert shown(page) == shown(shown(page)) == f'<p title="{TONES}">{DIVIDED}</p>'


def test_what_cannot_contain_elements_is_not_divided() -> None:
    elements = f"<title>{TONES}</title><script>x = '{TONES}'</script><style>{TONES}</style>"
    assert shown(elements) == elements
    assert shown(TONES, "application/json") == TONES


def test_fields_show_few_characters_that_are_joined() -> None:
    text = escape("<b>&'")
    field = f'<textarea name="text">{{}}</textarea>{text}<textarea>{text}</textarea>'
    assert shown(field.format(text + TONES + text)) == field.format(
        text + "a" + "\U0001f3fb" * MAX_JOINED + text
    )


def test_a_field_does_not_wrap_lines_of_very_long_words() -> None:
    """A summary of 20,000 letters "AVAV..." stopped a browser when somebody typed one more."""
    field = '<textarea name="text">{0}</textarea>{1}<textarea>{1}</textarea>'
    ordinary = "a" * MAX_FIELD_WORD + " b "
    shown_field = shown(field.format("AV" * MAX_FIELD_WORD, "ordinary"))
    assert shown_field.startswith('<textarea wrap="off" name="text">AVAV')
    assert shown_field.count("wrap") == 1
    assert "wrap" not in shown(f"<textarea>{ordinary * 3}</textarea>")


def test_a_field_does_not_wrap_lines_of_a_text_that_may_need_many_fonts() -> None:
    """60,000 characters of emoji and spaces in the summary that somebody edits took 4 s, unwrapped 0.7 s."""
    field = '<textarea name="text">{0}</textarea>'
    assert shown(field.format("\U0001f469 " * 3_000)).startswith('<textarea wrap="off" name="text">')
    assert "wrap" not in shown(field.format("\u0441\u043b\u043e\u0432\u043e " * 1_000))


def test_a_tag_of_a_field_keeps_its_quotes_and_a_text_its_letters() -> None:
    joiners = "\u200d" * 3 * MAX_JOINED
    field = f'<textarea placeholder="a{joiners}" name="text">a{joiners}&lt;b</textarea>'
    assert shown(field) == field.replace(f"{joiners}&", f"{joiners[:MAX_JOINED]}&")


@pytest.mark.parametrize("character", ["\uff09", "\U0001d49c", "A"])
def test_long_words_are_divided(character: str) -> None:
    """55,000 brackets in a narrow cell, or letters in nested quotes, stopped a page for 14 to 132 s."""
    word, tag = character * 99 + "&lt;" + "a" * 50, f'<b title="{character * 150}">'
    assert shown(f"{tag}{word}</b>") == f"{tag}{word[:-50]}<wbr>{'a' * 50}</b>"
    assert shown(shown(word)) == shown(word)
    prose = "\u8ab0\u3082\u304c\u77e5\u3063\u3066\u3044\u308b\u3001\u3053\u3068\u3002" * 8
    assert shown(prose) == prose
