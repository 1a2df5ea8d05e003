"""Lines of an extract hold whole names only."""

from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.identifiers import identifiers
from historyapp.core.strategies.lines import line_of
from historyapp.core.text import clean
from tests.core.entries import TEXT
from tests.examples import examples

NAMES = st.sampled_from(
    [
        "src/a_b.py",
        "https://example.com/a/b?c=d_e&f=1",
        "größe_wert",
        "12345",
        "./x/y.tar.gz",
        "你好_世界",
        "word",
    ]
)
TEXTS = st.lists(st.one_of(NAMES, TEXT, st.just("\n")), max_size=30).flatmap(
    lambda parts: st.sampled_from([" ", ", ", "", "(", " " * 50]).map(lambda between: between.join(parts))
)


@settings(max_examples=examples(300))
@given(TEXTS, st.integers(2, 300))
def test_no_name_is_cut_unless_the_line_begins_with_it(text: str, longest: int) -> None:
    line = line_of(text, longest)
    assert len(line) <= longest
    assert "\n" not in line
    whole = clean(" ".join(text.split()))  # line_of replaces NUL, too
    if line == whole:
        return
    kept = line.removesuffix("…")
    if " " in kept:
        assert set(identifiers(kept)[1:]) <= set(identifiers(whole))


def test_a_text_that_fits_is_unchanged() -> None:
    assert line_of("read  src/a_b.py\n", 15) == "read src/a_b.py"


def test_a_cut_is_marked_and_comes_before_the_name() -> None:
    assert line_of("read src/a_b.py now", 14) == "read…"
    assert line_of("read src/a_b.py now", 17) == "read src/a_b.py…"
    assert line_of("src/a_b.py", 6) == "src/a…"


def test_text_behind_much_blank_space_is_not_left_out_silently() -> None:
    assert line_of("a" + " " * 100_000 + "src/a_b.py", 20) == "a…"
