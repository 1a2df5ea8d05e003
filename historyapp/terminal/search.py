"""``playhead search``: finds steps in all sessions."""

from argparse import Namespace

from historyapp.terminal.output import STYLES, Output, note, short_ids, time_text
from historyapp.terminal.safe_text import safe_line
from historyapp.terminal.server import JsonObject, Server

MAX_HITS = 50
"""The maximum number of hits on one page of the API's search."""
_MAX_TITLE = 80


def search(server: Server, output: Output, options: Namespace) -> None:
    query = " ".join(options.words)
    page = server.get_list("/search", options.limit, at_once=MAX_HITS, q=query, cursor=options.cursor)
    if options.json:
        output.json(page)
        return
    hits = page["items"]
    if wider := page.get("wider"):  # servers before this field send none
        note(f"No single step matches. In these sessions, different steps match: {safe_line(wider)}")
    ids = short_ids([hit["session"] for hit in hits])
    for id, hit in zip(ids, hits, strict=True):
        _print_hit(output, id, hit)
    if not hits:
        note("No step matches." if page["up_to_date"] else "No indexed step matches.")
    for hint in page.get("hints", ()):  # servers before this field send none
        note(hint)
    if not page["up_to_date"]:
        note("Some steps are not in the search index yet. A worker adds them while `playhead up` runs.")
    if page["next"]:
        note(f"There are older results. Continue with --cursor {page['next']}")


def _print_hit(output: Output, id: str, hit: JsonObject) -> None:
    status = hit["status"]
    title = safe_line(hit["title"])[:_MAX_TITLE] or "(untitled)"
    facts = "  ".join(filter(None, (safe_line(", ".join(hit["tools"])), time_text(hit["at"]))))
    take = "" if hit["live"] else "  in a take"
    output.line(
        (id, "dim"), f" step {hit['episode']:,}  ", (status, STYLES.get(status, "")), f"  {facts}{take}  ",
        (title, "bold"),
    )  # fmt: skip
    for condition in hit.get("conditions", ()):  # servers before this field send none
        output.line(("    for ", "dim"), safe_line(condition))
    if hit["snippet"]:
        output.line("    ", *marked_parts(hit["snippet"], hit["marks"]))


def marked_parts(snippet: str, marks: list[list[int]]) -> list[str | tuple[str, str]]:
    """The parts of a snippet; matches are highlighted."""
    parts: list[str | tuple[str, str]] = []
    end = 0
    for start, after in marks:
        parts += [_safe_part(snippet[end:start]), (_safe_part(snippet[start:after]), "bold yellow")]
        end = after
    return [*parts, _safe_part(snippet[end:])]


def _safe_part(text: str) -> str:
    """Safe text on one line. Keeps spaces at both ends, because they separate it from the other parts."""
    line = safe_line(text)
    if not line:
        return " " if text else ""
    return f"{' ' * text[0].isspace()}{line}{' ' * text[-1].isspace()}"
