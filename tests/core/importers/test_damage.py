"""Damaged files: readable records are imported, the others are listed, and no error is raised."""

import copy
import json
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.importers import IMPORTERS, detect
from historyapp.core.importers.base import Skipped
from historyapp.core.json import dump_json
from tests.core.importers.mutilation import mutilated_files, wrong_values
from tests.core.importers.reading import check_survival, damaged, kinds, lines, outputs, read, results, source
from tests.core.importers.samples import DOCUMENTS, FILES, LINES
from tests.examples import examples, thorough

EVERY = [11, thorough(1)]
"""One in this many wrong values is tried: each place gets one or two of the twelve."""


@pytest.mark.parametrize(("name", "data"), FILES)
def test_each_sample_is_read_completely_and_recognised_by_its_shape(name: str, data: Any) -> None:
    operations = read(IMPORTERS[name], data)
    assert not [item for item in operations if isinstance(item, Skipped) and item.damaged]
    assert outputs(operations)
    assert detect(source(data)).name == name


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize(("name", "document"), DOCUMENTS)
def test_one_wrong_value_in_a_document_breaks_no_importer(name: str, document: Any, every: int) -> None:
    for [changed] in islice(wrong_values([document]), None, None, every):
        check_survival(IMPORTERS[name], dump_json(changed))


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize(("name", "records"), LINES)
def test_one_wrong_value_in_lines_breaks_no_importer(name: str, records: list[Any], every: int) -> None:
    for changed in islice(wrong_values(records), None, None, every):
        check_survival(IMPORTERS[name], "\n".join(map(dump_json, changed)))


@given(st.sampled_from(DOCUMENTS), st.data())
def test_many_wrong_values_in_a_document_break_no_importer(
    sample: tuple[str, Any], data: st.DataObject
) -> None:
    name, document = sample
    check_survival(IMPORTERS[name], json.dumps(data.draw(damaged(document))))


@given(st.sampled_from(LINES), st.data())
def test_wrong_values_and_bytes_in_lines_break_no_importer(
    sample: tuple[str, list[Any]], data: st.DataObject
) -> None:
    name, records = sample
    check_survival(IMPORTERS[name], data.draw(mutilated_files(records)))


@settings(max_examples=examples(30))
@given(st.sampled_from(FILES), st.integers(0, 10_000))
def test_a_file_cut_off_anywhere_breaks_no_importer(sample: tuple[str, Any], at: int) -> None:
    name, data = sample
    whole = data if isinstance(data, str) else json.dumps(data)
    check_survival(IMPORTERS[name], whole[: at % len(whole)])


@pytest.mark.parametrize(("name", "records"), LINES)
def test_a_broken_line_loses_only_itself(name: str, records: list[Any]) -> None:
    whole = read(IMPORTERS[name], lines(*records))
    torn = read(IMPORTERS[name], "{torn\n" + lines(*records) + "\n[1]\n")
    assert kinds(torn) == kinds(whole)
    assert results(torn) == results(whole)
    assert [item.line for item in torn if isinstance(item, Skipped)] == [1, len(records) + 2]


@pytest.mark.parametrize(("name", "document"), DOCUMENTS)
def test_reading_does_not_change_the_document(name: str, document: Any) -> None:
    before = copy.deepcopy(document)
    assert read(IMPORTERS[name], document) == read(IMPORTERS[name], document)
    assert document == before
