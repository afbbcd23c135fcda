"""`workshop translate`: the languages that there are, a new one begun, and the catalogue of messages kept current."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from autograder.catalogue.po import Entry
from autograder.cli.screen import NOT_RIGHT, USAGE, tell

EPILOG = """\b
Examples:
  workshop translate                  the languages, and how much of each is there
  workshop translate fr               begin fr.po here, or bring it up to date
  WORKSHOP_LANG=./fr.po workshop check    read it at once
  workshop --language de check        one command in German
  workshop translate --check          is the catalogue what the code says?
  workshop translate --remake         write it anew, in a checkout

\b
What a grade says is kept in English, and is translated where it is shown.
Exit status: 0, 1 stale or a wrong translation, 2 cannot be done."""

#: A language code as gettext has them: "fr", "pt_BR", "zh_Hans".
_CODE = re.compile(r"[a-z]{2,3}(_[A-Za-z]{2,4})?")


def translate(
    language: Annotated[
        str | None, typer.Argument(metavar="CODE", help="Begin this language's .po file, or bring it up to date.")
    ] = None,
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="Where that file is.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; name what is stale or wrong.")] = False,
    remake: Annotated[bool, typer.Option("--remake", help="Collect the messages of the code anew.")] = False,
) -> None:
    """Translate what the kit says: list the languages, begin one, keep them current."""
    import autograder
    from autograder.catalogue import files

    package = Path(autograder.__file__).resolve().parent
    if sum((language is not None, check, remake)) > 1:
        raise typer.BadParameter("give a language, or --check, or --remake.", param_hint="CODE")
    try:
        if language is not None:
            _begin(language, into, files.messages(package))
        elif check:
            _check(files.stale(package))
        elif remake:
            for path in files.remake(package):
                tell(f"written: {path.name}")
        else:
            _list(package)
    except (OSError, ValueError) as error:
        tell(f"Error: {error}", err=True)
        raise typer.Exit(USAGE) from None


def _begin(language: str, folder: Path, entries: list[Entry]) -> None:
    if not _CODE.fullmatch(language):
        raise typer.BadParameter(f"{language!r} is no language code such as fr or pt_BR.", param_hint="CODE")
    from autograder.catalogue import files

    path = folder / f"{language}.po"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = files.updated(before, entries, language)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    done = files.coverage(language, text, entries)
    tell(f"{path}: {done.done} of {done.of} messages are translated.")
    for line in files.faults(text):
        tell(f"wrong, and shown in English: {line}", err=True)
    tell(f"Read it at once: WORKSHOP_LANG={path} workshop check")


def _check(found: list[str]) -> None:
    for line in found:
        tell(line)
    if found:
        tell("Run: workshop translate --remake")
        raise typer.Exit(NOT_RIGHT)
    tell("The catalogue is current.")


def _list(package: Path) -> None:
    from autograder.catalogue import files, languages

    entries = files.messages(package)
    tell(f"en: {len(entries)} messages, as they are written")
    for code in languages():
        text = (package / "catalogue" / f"{code}.po").read_text(encoding="utf-8")
        done = files.coverage(code, text, entries)
        share = 100 * done.done_for_students // done.of_for_students
        of_students = f"of what students read {done.done_for_students} of {done.of_for_students} ({share} %)"
        tell(f"{code}: {done.done} of {done.of} messages; {of_students}")
    tell("What a language lacks is shown in English.")
