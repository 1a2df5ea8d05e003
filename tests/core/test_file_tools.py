"""What the words of a tool's name say about the file of its call."""

import pytest

from historyapp.core.file_tools import use_of_file

OF_FILES = """
    delete rm DeleteTool DeleteFileTool deletefile delete_file_tool delete_file_v2 delete_file_or_directory
    move_file_or_directory delete_directory_tree delete_all_files delete_multiple_files remove_local_file
    delete_empty_directory file_remover move_to_trash moveto delete_file_from_workspace
    mcp__lines__delete_note
"""
OF_PARTS = """
    delete_lines deleteLine remove_unused_imports rename_symbol delete_file_content remove_text_in_file
    delete_row_from_file remove_from_file delete_matches delete_cell remove_component
"""


@pytest.mark.parametrize("name", OF_FILES.split())
def test_a_tool_deletes_a_file_if_the_words_after_the_verb_name_a_file_or_nothing(name: str) -> None:
    assert use_of_file(name) == "delete"


@pytest.mark.parametrize("name", OF_PARTS.split())
def test_a_tool_that_deletes_a_part_of_a_file_edits_it(name: str) -> None:
    assert use_of_file(name) == "edit"
