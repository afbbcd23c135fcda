"""Why a submission cannot be graded at all: one sentence that says what to hand in instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from autograder.submission.choice import mentioned
from autograder.submission.limits import Refused
from autograder.submission.names import Entry, required_names, shown
from autograder.track import Track
from autograder.verdict import Verdict

_MAX_FOUND = 5  # names in "(found: ...)": enough to recognise the wrong folder by
#: What browsers and editors make of "model.py": "model (1).py", "model - Copy.py", "model.py.txt".
_VARIANT = re.compile(r"(.+?)(?: ?\(\d+\)|[ _-]{0,3}copy)?\.py(?:\.txt)?", re.IGNORECASE)


def refuse_irregular(entries: Iterable[Entry], names: Sequence[str]) -> None:
    """Raise Refused when one of the top-level `names` is there but is a link, a pipe, a device, a folder..."""
    for entry in sorted(entries, key=lambda entry: entry.path):
        if entry.parts[0] not in names:
            continue
        name = shown(entry.parts[0])
        if len(entry.parts) > 1 or entry.kind in ("special", "folder"):
            raise Refused(f"{name} is not a regular file.")
        if entry.kind == "link out":
            raise Refused(f"{name} is a link to a file outside the submission.")
        if entry.kind == "link":
            raise Refused(f"{name} is a link to another file: hand in the file itself.")


def nothing_to_grade(entries: Sequence[Entry], track: Track, texts: Mapping[str, str]) -> Refused:
    """Return why none of the files that the track asks for is there. `texts` are the top-level sources."""
    required = required_names(track)
    refuse_irregular(entries, [entry.name for entry in entries if entry.path.endswith(".ipynb")])
    for sentence in misnamed(entries, required, ()):
        return Refused(sentence, Verdict.FAILED)
    if nested := _nested(entries, lambda name: name in required):
        return nested
    telling = [path for path, text in texts.items() if mentioned(track, text)] or list(texts)
    if len(telling) == 1:
        return Refused(_wrong_name(track.single_file, telling[0]), Verdict.FAILED)
    if len(telling) > 1 and any(mentioned(track, text) for text in texts.values()):
        stubs = ", ".join(required[1:])
        return Refused(
            f"There is no {track.single_file} in the submission, and none of {stubs} (found: {_listed(telling)}).",
            Verdict.FAILED,
        )
    if nested := _nested(entries, lambda name: name.endswith(".ipynb")):
        return nested
    found = _listed(sorted({entry.parts[0] for entry in entries}))
    return Refused(
        f"There is no {track.single_file} in the submission ({'found: ' + found if found else 'it is empty'}).",
        Verdict.NOT_ATTEMPTED,
    )


def no_notebook_counts(names: Sequence[str], track: Track) -> Refused:
    """Return the refusal of several notebooks of which none has to do with the track."""
    return Refused(
        f"None of the notebooks ({_listed(names)}) defines {', '.join(track.classes)}.", Verdict.NOT_ATTEMPTED
    )


def misnamed(entries: Iterable[Entry], required: Sequence[str], present: Iterable[str]) -> list[str]:
    """Return a sentence for each top-level file that is nearly called as a required one that is not in `present`."""
    by_folded = {name.casefold(): name for name in required if name not in set(present)}
    sentences = []
    for entry in sorted(entries, key=lambda entry: entry.path):
        wanted = by_folded.get(meant_name(entry.name))
        if len(entry.parts) == 1 and entry.kind == "file" and wanted and entry.name not in required:
            sentences.append(_wrong_name(wanted, entry.name))
    return sentences


def meant_name(name: str) -> str:
    """Return what a file name was probably meant to be, case-folded: "Model (1).py" is "model.py"."""
    found = _VARIANT.fullmatch(name)
    return f"{found[1]}.py".casefold() if found else name.casefold()


def _wrong_name(wanted: str, name: str) -> str:
    return f"The file must be called {wanted} (yours is {shown(name)})."


def _nested(entries: Iterable[Entry], is_wanted: Callable[[str], bool]) -> Refused | None:
    below = [entry for entry in entries if len(entry.parts) > 1 and is_wanted(entry.name) and entry.kind != "folder"]
    if not below:
        return None
    first = min(below, key=lambda entry: (len(entry.parts), entry.path))
    folder = shown("/".join(first.parts[:-1]))
    return Refused(
        f"{shown(first.name)} is in the sub-folder {folder}: submit the folder that contains it.", Verdict.FAILED
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_FOUND} more" if len(names) > _MAX_FOUND else ""
    return ", ".join(map(shown, names[:_MAX_FOUND])) + more
