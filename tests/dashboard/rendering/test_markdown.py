"""Markdown of final answers."""

import re

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
