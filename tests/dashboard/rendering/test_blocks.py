"""Folding of long texts."""

from hypothesis import given
from hypothesis import strategies as st

from dashboard.rendering.blocks import (
    ASIDE_CHARACTERS,
    DIFF,
    HEAD_CHARACTERS,
    HEAD_LINES,
    PAGE_CHARACTERS,
    STEP_CHARACTERS,
    Block,
    Folder,
)

texts = st.text(st.sampled_from("ab\n"), max_size=200).map(lambda text: text * 700)


def test_a_last_line_that_only_gets_its_line_break_is_not_counted_as_changed() -> None:
    text = "@@ -1 +1,2 @@\n-docs\n\\ No newline at end of file\n+docs\n+logs"
    diff = Block("k", text, language=DIFF)
    assert (diff.added, diff.removed) == (1, 0)


def folded(text: str) -> Block:
    return Folder().block("k", text)


@given(texts)
def test_each_page_continues_where_the_previous_one_ended(text: str) -> None:
    block, read = folded(text), ""
    while True:
        read += block.text[block.start : block.end]
        if not block.hidden_characters:
            break
        following = block.page(block.end)
        assert following.end > block.end
        assert following.end - following.start <= PAGE_CHARACTERS
        block = following
    assert read == text


def test_a_block_shows_its_first_lines() -> None:
    block = folded("line of text\n" * 300)
    assert block.text[: block.end].count("\n") == HEAD_LINES
    assert block.hidden_lines == 300 - HEAD_LINES


def test_a_very_long_line_is_cut() -> None:
    block = folded("A" * 5_000_000)
    assert block.end == HEAD_CHARACTERS
    assert block.hidden_lines == 1


def test_a_slightly_longer_text_is_not_folded() -> None:
    assert folded("x\n" * (HEAD_LINES + 3)).hidden_characters == 0


def test_the_blocks_of_a_step_share_a_budget() -> None:
    folder = Folder()
    blocks = [folder.block(f"k{number}", "A" * 10_000) for number in range(50)]
    assert sum(block.end for block in blocks) <= STEP_CHARACTERS
    assert blocks[0].end == HEAD_CHARACTERS
    assert blocks[-1].end == 0


def test_a_short_text_after_long_ones_is_not_folded() -> None:
    folder = Folder()
    for number in range(9):
        folder.block(f"k{number}", "A" * 10_000)
    assert folder.block("command", "ls -la src").hidden_characters == 0


def test_closed_blocks_use_no_budget() -> None:
    folder = Folder()
    for number in range(9):
        assert folder.block(f"k{number}", "A" * 10_000, is_closed=True).end == ASIDE_CHARACTERS
    assert folder.block("command", "A" * 10_000).end == HEAD_CHARACTERS


def test_an_empty_text_hides_nothing() -> None:
    assert (folded("").hidden_characters, folded("").hidden_lines) == (0, 0)


def test_a_page_outside_the_text_is_moved_inside() -> None:
    block = folded("abc")
    assert block.page(-5).start == 0
    assert block.page(99).start == 3
