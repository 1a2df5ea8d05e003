"""Shares in words."""


def percent_text(part: int, whole: int) -> str:
    """A share in whole percent. Only nothing is 0 %, and only everything is 100 %."""
    if not part or not whole:
        return "0 %"
    if part >= whole:
        return "100 %"
    percent = round(100 * part / whole)
    if percent == 0:
        return "<1 %"
    return f"{percent} %" if percent < 100 else ">99 %"
