"""Hostile text made plain: the one place where student-written text loses what could act on a terminal or a page."""

from __future__ import annotations

import math
import re

# What makes a terminal act: CSI and OSC/DCS/APC/PM/SOS strings, two-character escapes; 7-bit and C1 forms.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# What makes text read otherwise than it is: bidirectional controls, line and paragraph separators, tag characters,
# invisible joiners of no use here (ZWJ and ZWNJ stay: names and emoji need them), and lone surrogates, which cannot
# be written as UTF-8.
_DECEPTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# A letter carries at most a few marks in any script; beyond that it is a drawing over the neighbouring lines.
_STACKED = re.compile(
    "([\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{4})"
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)

REPLACEMENT = "\ufffd"
#: One message fits on a screen; an exception text of megabytes must not fill a page or a terminal.
LIMIT = 4000


def clean(text: object, *, multiline: bool = False, limit: int = LIMIT) -> str:
    """Return `text` without terminal escapes, control characters, bidirectional overrides and lone surrogates.

    Escape sequences vanish whole; any other dangerous character becomes U+FFFD, so that a reader sees that something
    was there. Line breaks and tabs become spaces unless `multiline`. At most `limit` characters are kept.
    """
    raw = str(text)
    cut = raw[: 4 * limit]  # bounds the work; what is cleaned away cannot push the rest beyond the limit unseen
    cut = _BREAKS.sub("\n", _ESCAPES.sub("", cut))
    cut = cut.expandtabs(4) if multiline else re.sub(r"[\t\n]+", " ", cut)
    cut = _STACKED.sub(r"\1", _DECEPTIVE.sub(REPLACEMENT, cut))
    return cut[: limit - 3] + "..." if len(cut) > limit or len(raw) > 4 * limit else cut


def number(value: object) -> str:
    """Return a number (or a short string) as people read it: 10,770,816; 0.0123; nan."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return clean(value, limit=300)
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"


def points(value: float) -> str:
    """Return a score without needless digits: 84, 3.5, 2.25."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
