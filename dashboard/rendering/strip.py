"""A session's outcomes as a tiny picture: one bar for one or more steps, drawn as three paths."""

from collections.abc import Iterator

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from historyapp.core.strips import MAX_BARS, StripBar, bars_of
from historyapp.models import Session

WIDTH, HEIGHT, MIN = 128, 18, 3
"""Height of the picture and of its lowest bar, in pixels."""
LOWEST_PART = 2
"""Height of the failed part of a bar, at least."""
MAX_PITCH = 8
"""Pixels from one bar to the next, at most."""


def draw_strip(session: Session) -> SafeString:
    """The picture; empty for a session without steps. The columns have the same figures, so colour is not the
    only sign."""
    bars = list(bars_of(session.strip, session.live_tail.step))
    if not bars:
        return SafeString()
    pitch = min(MAX_PITCH, WIDTH // max(len(bars), MAX_BARS // 2))
    sizes = [bar.tokens / (bar.last_step - bar.first_step + 1) for bar in bars]
    tallest = max(sizes) or 1
    paths: dict[str, list[str]] = {}
    for index, (bar, size) in enumerate(zip(bars, sizes, strict=True)):
        height = max(MIN, round(HEIGHT * (size / tallest) ** 0.5))
        bottom = HEIGHT
        for outcome, part in bar_parts(bar, height):
            paths.setdefault(outcome, []).append(f"M{index * pitch} {bottom}v-{part}h{pitch - 1}v{part}z")
            bottom -= part
    drawn = "".join(f'<path class="{name}" d="{"".join(shapes)}"/>' for name, shapes in paths.items())
    return format_html(
        '<svg class="strip" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>',
        *(WIDTH, HEIGHT, WIDTH, HEIGHT, _label(session)),
        mark_safe(drawn),  # noqa: S308 numbers and our own words
    )


def bar_parts(bar: StripBar, height: int) -> Iterator[tuple[str, int]]:
    """The outcomes of a bar's steps and their heights, from the bottom."""
    steps, left = bar.last_step - bar.first_step + 1, height
    for outcome, number in (("bad", bar.errors), ("likely", bar.likely_failures)):
        part = min(left, max(LOWEST_PART, round(height * number / steps))) if number else 0
        if part:
            yield outcome, part
        left -= part
    if left:
        yield "fine", left


def _label(session: Session) -> str:
    steps = f"{session.steps:,} step{'s' * (session.steps != 1)}"
    failures = [
        f"{number:,} {word}"
        for number, word in ((session.errors, "with errors"), (session.likely_failures, "likely failed"))
        if number
    ]
    return f"{steps}, {' and '.join(failures)}" if failures else f"{steps}, none failed"
