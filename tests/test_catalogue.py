"""Claims about the catalogue: all messages are found, also in finished text, and no text breaks the search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pseudo_language import pseudo

import autograder
from autograder.catalogue import ENGLISH, Catalogue, CatalogueError, languages, load
from autograder.catalogue.files import coverage, faults, messages, remake, stale, updated
from autograder.catalogue.gather import gather
from autograder.catalogue.pages import pieces, translated
from autograder.catalogue.po import FIELDS, Entry, read_po, write_po
from autograder.catalogue.sentences import Found, sentences
from autograder.catalogue.speech import fault
from autograder.catalogue.template import Template
from autograder.reports.marks import MARKS
from autograder.track import load_track

PACKAGE = Path(autograder.__file__).resolve().parent
PSEUDO = pseudo()


def spoken(*entries: tuple[str, str]) -> Catalogue:
    """Return a catalogue of these messages; those with a field in braces are templates."""
    made = [Entry(said, told, flags=(FIELDS,) if "{" in said else ()) for said, told in entries]
    return Catalogue.of("xx", made)


# -- what is found in the code ----------------------------------------------------------------------------------------


def test_sentences_templates_labels_and_titles_are_found_and_nothing_else() -> None:
    source = '''
"""A docstring of a module is for us."""
NAME = "single"
AXES = ("batch row", "position")
KNOWN = re.compile("two words")

@check("mlp.values", needs=["shapes"])
def values(exam, part):
    """Its output equals the reference's

    And more, for us.
    """
    if "off by one" in problem:
        exam.draws.normal(f"the noise of {part}", (3,))
        return failed(f"Position {i} sees position {j} ({len(leaks)} of {i}).", "Look at the mask.")
    return Evidence("numbers", "Scores", {"rows": [["largest", value]]}), numbers("Shape", mine_now=1), word("all")
'''
    assert [found.message for found in sentences(source)] == [
        "batch row",
        "position",
        "Its output equals the reference's",
        "Position {i} sees position {j} ({leaks} of {i}).",
        "Look at the mask.",
        "Scores",
        "largest",
        "Shape",
        "mine now",
        "all",
    ]


def test_two_expressions_of_one_name_are_two_fields_and_neighbours_are_one() -> None:
    source = 'say(f"{a.name} is not {b.name}, said {kind}{where} {{so}}.")'
    assert list(sentences(source)) == [Found("{name} is not {name_2}, said {kind} {{so}}.", fields=True)]


def test_the_text_of_a_page_is_found_with_its_expressions_as_fields() -> None:
    page = (
        '<p title="Read aloud">{{ n | number }} of {{ figures.all }} points{% if late %} <b>Late</b>{% endif %}</p>'
        '{{ "Fill in its stub." if x else "" }}<style>a { color: red }</style>{{ head("Score") }}'
    )
    found = [piece.message for piece in pieces(page)]
    assert found == ["Read aloud", "{value} of {all} points", "Late", "Fill in its stub.", "Score"]
    german = {"Late": "Spät", "Fill in its stub.": "Ausfüllen.", "Score": "Punkte"}
    said = translated(page, lambda text: german.get(text, text))
    assert "<b>Spät</b>" in said and '"Ausfüllen." if x' in said and 'head("Punkte")' in said


def test_a_translation_adds_no_tag_no_attribute_and_no_statement_to_a_page() -> None:
    page = '<p title="Read aloud">Score</p>'
    for evil in ("<script>alert(1)</script>", "{{ 7 * 7 }}", "{% include x %}", '" onclick="x', "{# gone", "a > b"):
        assert translated(page, lambda _, evil=evil: evil) == page  # type: ignore[misc]


def test_the_kits_own_titles_hints_verdicts_and_known_mistakes_are_all_there() -> None:
    known = {entry.message for entry in gather(PACKAGE)}
    track = load_track("gpt")
    from autograder.checks.registry import find_check
    from autograder.hints import load_hints
    from autograder.oracle.misconceptions import BANK

    assert {find_check(track, part, id_).title for part in track.every for id_ in part.points} <= known
    assert {mark.word for mark in MARKS.values()} <= known
    assert {rung for ladder in load_hints("gpt").ladders for rung in ladder.rungs} <= known
    assert {text for entry in BANK for text in (entry.sentence, entry.look_at)} <= known


def test_the_catalogue_is_current() -> None:
    assert stale(PACKAGE) == []  # else: workshop translate --remake


# -- templates --------------------------------------------------------------------------------------------------------

TEXT = st.text(max_size=40)
NAMES = st.lists(st.sampled_from(["a", "b", "c"]), max_size=4)


@given(st.lists(TEXT, min_size=5, max_size=5), NAMES, st.dictionaries(st.sampled_from("abc"), TEXT, min_size=3))
def test_a_filled_template_is_found_again_and_filled_alike(
    literals: list[str], names: list[str], values: dict[str, str]
) -> None:
    names = list(dict.fromkeys(names))  # a name that comes back is found only where its value is found again
    message = "".join(
        text.replace("{", "{{").replace("}", "}}") + (f"{{{name}}}" if name else "")
        for text, name in zip(literals, [*names, *[""] * 5], strict=False)
    )
    template = Template.parse(message)
    filled = template.fill(values)
    found = template.match(filled)
    assert found is not None and template.fill(found) == filled


def test_a_field_that_comes_twice_must_hold_the_same_twice() -> None:
    template = Template.parse("{a} is {a}, not {b}")
    assert template.match("x is x, not y") == {"a": "x", "b": "y"}
    assert template.match("x is z, not y") is None


@pytest.mark.parametrize("message", ["a { b", "a } b", "{a b} c", "{}"])
def test_a_lone_brace_is_refused(message: str) -> None:
    with pytest.raises(ValueError, match="brace"):
        Template.parse(message)


# -- what a text says -------------------------------------------------------------------------------------------------


def test_a_text_is_found_whole_by_its_pattern_and_sentence_by_sentence() -> None:
    say = spoken(
        ("The mask is missing.", "Die Maske fehlt."),
        ("Position {i} sees position {j}", "{j} wird von {i} gesehen"),
        ("batch row", "Batch-Zeile"),
        ("Two mistakes at once. {both}", "Zwei Fehler. {both}"),
        ("It was never right", "Es war nie richtig"),
    ).say
    assert say("The mask is missing.") == "Die Maske fehlt."
    assert say("Position 3 sees position 4") == "4 wird von 3 gesehen"
    assert say("The mask is missing. Nobody knows this. Position 1 sees position 2") == (
        "Die Maske fehlt. Nobody knows this. 2 wird von 1 gesehen"
    )
    assert say("Two mistakes at once. The mask is missing. Position 1 sees position 2") == (
        "Zwei Fehler. Die Maske fehlt. 2 wird von 1 gesehen"
    )
    assert say("batch row 4, batch row 5") == "Batch-Zeile 4, Batch-Zeile 5"
    assert say("  It was never right.\n") == "  Es war nie richtig.\n"
    assert say("I, batch row, am a poem") == "I, batch row, am a poem"


def test_of_two_patterns_that_fit_the_one_that_says_more_is_taken() -> None:
    say = spoken(("Not run: {why}", "Nicht: {why}"), ("Not run: it needs {title}", "Braucht {title}")).say
    assert say("Not run: it needs shapes") == "Braucht shapes"
    assert say("Not run: the class is missing") == "Nicht: the class is missing"


def test_english_gives_back_the_very_text() -> None:
    text = "Position 3 sees position 4"
    assert ENGLISH.say(text) is text and not ENGLISH
    assert load("en") is ENGLISH and load("") is ENGLISH


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(max_size=300), st.lists(st.sampled_from(sorted(PSEUDO.exact)), max_size=4).map(". ".join)))
def test_whatever_a_text_holds_it_is_said_and_told_twice_alike(text: str) -> None:
    said = PSEUDO.say(text)
    assert isinstance(said, str) and PSEUDO.say(text) == said


#: Text with as many places to cut it, and as many patterns that nearly fit, as can be had.
MADE_TO_FIT = (
    *("a. " * 1300, "A: " * 1300, "Position " * 400, "{" * 3900, "(and 1 more) " * 300, "not not not, " * 300),
    *("; ".join("raises to" * 20 for _ in range(20)), " is " * 900, "x" * 5_000_000),
    "\n".join("Not run: it needs" for _ in range(200)),
)


@pytest.mark.parametrize("text", MADE_TO_FIT, ids=range(len(MADE_TO_FIT)))
def test_text_that_was_made_to_fit_many_ways_ends_the_search_too(text: str) -> None:
    assert len(Catalogue(PSEUDO.language, PSEUDO.exact, PSEUDO.anchored, PSEUDO.floating).say(text)) >= len(
        text.strip()
    )


# -- files ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), max_size=5, unique_by=lambda pair: pair[0]))
def test_a_po_file_is_read_as_it_was_written(pairs: list[tuple[str, str]]) -> None:
    entries = [Entry(said, told, ("a.py",), ("fuzzy", FIELDS), ("a remark",)) for said, told in pairs]
    assert read_po(write_po("Language: xx\n", entries))[1:] == entries


@pytest.mark.parametrize(
    "text", ['msgid "a\nmsgstr "b"\n', 'msgctxt "c"\nmsgid "a"\n', "nonsense\n", '"a"\n', 'msgid "\\x"\nmsgstr ""\n']
)
def test_a_damaged_language_is_refused_with_the_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "fr.po"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CatalogueError, match=r"fr\.po is damaged: line \d"):
        load(str(path))


def test_a_language_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"no language 'xx'\. There are: en, de"):
        load("xx")
    with pytest.raises(CatalogueError, match="cannot be read: No such file"):
        load(str(tmp_path / "fr.po"))
    (tmp_path / "latin.po").write_bytes(b'msgid "a"\nmsgstr "\xe9"\n')
    with pytest.raises(CatalogueError, match="not UTF-8"):
        load(str(tmp_path / "latin.po"))
    for sly in ("../de", "de.po/../../x", "messages.pot"):
        with pytest.raises(CatalogueError):
            load(sly)


def test_a_translation_that_lost_a_field_or_is_a_guess_stays_english(tmp_path: Path) -> None:
    lost = Entry("Position {i} sees {j}", "Position {i} sieht etwas", flags=(FIELDS,))
    guess = Entry("The mask is missing.", "Maske?", flags=("fuzzy",))
    assert "j" in fault(lost)
    made = Catalogue.of("xx", [lost, guess])
    assert made.say("Position 1 sees 2") == "Position 1 sees 2"
    assert made.say("The mask is missing.") == "The mask is missing."
    assert faults(write_po("", [lost])) != []
    assert coverage("xx", write_po("", [lost, guess]), [lost, guess]).done == 0


def test_a_new_message_comes_in_and_an_old_one_goes_and_translations_stay() -> None:
    before = write_po("Language: fr\n", [Entry("one two", "un deux", comments=("mine",)), Entry("gone now", "parti")])
    after = updated(before, [Entry("new words"), Entry("one two", places=("b.py",))], "fr")
    assert [(entry.message, entry.translation, entry.comments) for entry in read_po(after)[1:]] == [
        ("new words", "", ()),
        ("one two", "un deux", ("mine",)),
    ]
    assert updated(after, [Entry("new words"), Entry("one two", places=("b.py",))], "fr") == after


def test_a_changed_sentence_makes_the_catalogue_stale_until_it_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "catalogue").mkdir()
    code = tmp_path / "room.py"
    code.write_text('SAID = "The mask is missing."\n', encoding="utf-8")
    assert messages(tmp_path)[0].message == "The mask is missing."
    assert stale(tmp_path) == ["stale: messages.pot"]
    (tmp_path / "catalogue" / "fr.po").write_text(updated("", gather(tmp_path), "fr"), encoding="utf-8")
    remake(tmp_path)
    assert stale(tmp_path) == []
    code.write_text('SAID = "The mask is not there."\n', encoding="utf-8")
    assert stale(tmp_path) == ["stale: messages.pot", "stale: fr.po"]
    assert [path.name for path in remake(tmp_path)] == ["messages.pot", "fr.po"]
    assert stale(tmp_path) == [] and messages(tmp_path)[0].message == "The mask is not there."


def test_german_says_every_title_verdict_hint_known_mistake_and_all_of_a_page() -> None:
    assert "de" in languages()
    german = load("de")
    entries = gather(PACKAGE)
    lacking = [
        entry.message
        for entry in entries
        if any(place.startswith(("reports/templates/", "reports/marks", "tracks/gpt_hints")) for place in entry.places)
        and entry.message not in german.exact
        and entry.message not in ("SHA-256", "--seed {seed}")
    ]
    from autograder.checks.registry import find_check

    track = load_track("gpt")
    titles = {find_check(track, part, id_).title for part in track.every for id_ in part.points}
    assert lacking == [] and titles <= german.exact.keys()
    done = coverage("de", (PACKAGE / "catalogue" / "de.po").read_text(encoding="utf-8"), entries)
    assert done.done_for_students / done.of_for_students > 0.55
    assert all(replace(entry, flags=()).translation.strip() for entry in entries if entry.translation)
