"""What the watch has seen: three short lists of sentences that are safe to print."""

from __future__ import annotations

#: A report that lists more than this says nothing more; the cap keeps a hostile submission from filling it.
MAX_SENTENCES = 20
#: Longer than any sentence of ours, short enough for a table cell.
MAX_LENGTH = 300
#: Names listed in one sentence before "and N more".
NAMES_SHOWN = 6


class Log:
    """Sentences about what student code did, each kept once, at most `MAX_SENTENCES` of a kind."""

    __slots__ = ("notices", "side_effects", "tampering")

    def __init__(self) -> None:
        self.tampering: list[str] = []
        self.side_effects: list[str] = []
        self.notices: list[str] = []

    def tamper(self, sentence: str) -> None:
        """Note something that cannot be a mistake."""
        _keep(self.tampering, sentence)

    def side_effect(self, sentence: str) -> None:
        """Note a global setting that was left changed."""
        _keep(self.side_effects, sentence)

    def notice(self, sentence: str) -> None:
        """Note something harmless that is worth a warning."""
        _keep(self.notices, sentence)


def listing(names: list[str]) -> str:
    """Return "a, b and c", or the first few "and N more"."""
    if len(names) == 1:
        return names[0]
    if len(names) > NAMES_SHOWN:
        return f"{', '.join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN} more"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _keep(sentences: list[str], sentence: str) -> None:
    # isprintable() is false for control characters, bidirectional overrides and lone surrogates alike.
    text = "".join(character if character.isprintable() else "?" for character in sentence[:MAX_LENGTH])
    if text not in sentences and len(sentences) < MAX_SENTENCES:
        sentences.append(text)
