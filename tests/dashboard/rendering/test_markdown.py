"""Markdown of final answers."""

import re
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering.markdown import markdown

pieces = st.sampled_from([
    "<script>", "</p>", "<img src=x onerror=y>", "<http://a.b>", '" onclick="x', "&#x6a;avascript:", "\ud800",
    "[a](", "javascript:x", "http://a.b/", ")", "![", "](", "`", "```\n", "*", "\n\n", " ", "> ",
    "| a | b |\n|---|---|\n",
])  # fmt: skip
ALLOWED = re.compile(
    r"</?(?:blockquote|br|code|del|em|h[456]|hr|li|ol|p|pre|s|strong|table|tbody|td|th|thead|tr|ul)>|</a>"
    r'|<a(?: href="https?://[^"<>]*")?(?: title="[^"]*")? rel="noopener nofollow">|<ol start="\d+">'
)


@given(st.lists(pieces | st.text()).map("".join))
def test_only_harmless_markup_is_rendered(text: str) -> None:
    html = markdown(text)
    html.encode()
    assert "<" not in ALLOWED.sub("", html)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("**so**", "<strong>so</strong>"),
        ("| a |\n|---|\n| 1 |", "<td>1</td>"),
        ("```python\nx < 1\n```", "<pre><code>x &lt; 1\n</code></pre>"),
        ("~~no~~", "<s>no</s>"),
        ("# so\n\n###### deep", "<h4>so</h4>\n<h6>deep</h6>"),
        ("[a](https://x.y 'z')", '<a href="https://x.y" title="z" rel="noopener nofollow">a</a>'),
    ],
)
def test_the_markdown_of_common_answers_is_rendered(text: str, html: str) -> None:
    assert html in markdown(text)


def table(columns: int, row: str, rows: int) -> str:
    return f"{'|a' * columns}|\n{'|-' * columns}|\n" + f"{row}\n" * rows + "\n"


@pytest.mark.parametrize("text", [
    table(950, "|a", 40), table(500, "|a", 129) * 4, "> " + table(500, "a", 129).replace("\n", "\n> "),
    "* " + table(500, "|a", 100).replace("\n", "\n  ") * 9, table(60, "|a", 20) * 50,
])  # fmt: skip
def test_tables_with_far_more_cells_than_their_text_remain_text(text: str) -> None:
    assert markdown(text).count("<td>") == 0
    assert markdown(text).count("|") > 100


@pytest.mark.parametrize("mark", ["|", ""])
def test_a_table_with_a_very_long_row_remains_text(mark: str) -> None:
    text = table(120, mark + "）" * 58_000, 1)
    assert markdown(text).count("<td>") == 0
    assert "）" * 100 in markdown(text)
    assert markdown(table(3, f"{mark}one|two|{'x' * 2_900}", 1)).count("<table>") == 1
    assert markdown(table(3, f"{mark}one|two|{'x' * 3_000}", 1)).count("<table>") == 0
    assert markdown("x" * 9_000 + "\n\n" + table(3, "|one|two|three", 1)).count("<table>") == 1


@pytest.mark.parametrize("text", [
    table(12, "| 1" * 12, 300), table(3, "|one|two|three|", 40) * 30 + "line\n" * 2_000, table(20, "|a", 40),
    (table(8, "| one" * 8, 30)[:-1] + "  \n") * 40,
])  # fmt: skip
def test_ordinary_tables_are_tables(text: str) -> None:
    assert markdown(text).count("<table>") == len(re.findall(r"^[|-]+$", text, re.MULTILINE))


@pytest.mark.parametrize("target", ["http://" + "u" * 3_000, "http://u '" + "t" * 3_000 + "'"])
def test_many_references_to_a_long_address_or_title_remain_text(target: str) -> None:
    text = f"[a]: {target}\n\n" + "[a] " * 1_000 + "[b](http://b.c)"
    assert len(markdown(text)) < 2 * len(text)
    assert '<a href="http://b.c" rel="noopener nofollow">b</a>' in markdown(text)


@pytest.mark.parametrize("page", ["a", "Искусственный_интеллект", "人工知能の歴史と未来"])
def test_ordinary_references_are_links(page: str) -> None:
    """Browsers get each letter of most languages as six or nine characters."""
    text = "".join(f"[a{n}]: https://a.b/{page}{n}\n\nSee [a{n}].\n\n" for n in range(300))
    assert markdown(text).count("<a ") == 300


@pytest.mark.parametrize("marked", ["`a<b` ", "*a* ", "[a](http://b) "])
def test_paragraphs_with_thousands_of_marked_parts_remain_text(marked: str) -> None:
    html = markdown(f"# {marked * 2_000}\n\n{marked * 2_001}\n\n*end*")
    assert len(re.findall("<(code|em|a) ?", html)) == 2_001
    assert f"<p>{escape(marked)}" in html
