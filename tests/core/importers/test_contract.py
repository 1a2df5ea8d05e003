"""Rules that every registered importer keeps for any file."""

from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from historyapp.core.errors import UnreadableTranscript
from historyapp.core.importers import IMPORTERS
from historyapp.core.importers.base import Importer, Operation
from historyapp.core.importers.records import head_of
from historyapp.core.json import dump_json
from tests.core.importers.mutilation import mutilated_files
from tests.core.importers.reading import check_survival, damaged, source
from tests.core.importers.samples import DOCUMENTS, FILES, LINES
from tests.examples import examples

EVERY = pytest.mark.parametrize("importer", IMPORTERS.values(), ids=IMPORTERS)


@EVERY
def test_an_importer_recognises_no_file_of_a_format_that_is_tried_after_it(importer: Importer) -> None:
    before = [*takewhile(lambda name: name != importer.name, IMPORTERS), importer.name]
    others = [data for name, data in FILES if name not in before]
    assert not any(importer.recognises(head_of(source(data))) for data in others)


@EVERY
@settings(max_examples=examples(30))
@given(sample=st.sampled_from(DOCUMENTS), data=st.data())
def test_no_document_breaks_the_importer(
    importer: Importer, sample: tuple[str, Any], data: st.DataObject
) -> None:
    check_survival(importer, dump_json(data.draw(damaged(sample[1]))))


@EVERY
@settings(max_examples=examples(30))
@given(sample=st.sampled_from(LINES), data=st.data())
def test_no_lines_break_the_importer(
    importer: Importer, sample: tuple[str, Any], data: st.DataObject
) -> None:
    check_survival(importer, data.draw(mutilated_files(sample[1])))


@EVERY
def test_reading_twice_gives_the_same(importer: Importer) -> None:
    for name, data in FILES:
        assert operations_of(importer, data) == operations_of(importer, data), name


def operations_of(importer: Importer, data: Any) -> list[Operation | str]:
    try:
        return list(importer.read(source(data)))
    except UnreadableTranscript as fault:
        return [fault.detail]
