"""Checks of the tokenizer part: ids, text, what has no id; and the two functions about larger vocabularies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autograder.checks.calls import Ask, Got, ask, integers, kind_of
from autograder.checks.evidence import table
from autograder.checks.exam import Exam
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.track import Part

#: Tiny Shakespeare's 65, in the order of their ids.
CHARACTERS = "\n !$&',-.3:;?" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "abcdefghijklmnopqrstuvwxyz"
#: Another vocabulary: beyond ASCII, and of another length.
OTHERS = " +0129=aeiouäé€😀"
#: What has no id among the 65: a digit, an umlaut, a tab, a typographic quote, an emoji.
STRANGERS = ("7", "é", "\t", "\u2019", "😀")
#: What says "I do not know this": ValueError is the contract; a dict's KeyError, a list's IndexError name it too.
REFUSALS = ("ValueError", "KeyError", "IndexError")


@check("tokenizer.vocabulary")
def the_vocabulary_is_shakespeares(exam: Exam, part: Part) -> Outcome:
    """CharTokenizer() numbers the 65 characters in their order."""
    size, hello, every = ask(
        exam,
        part,
        part.class_name,
        [Ask(init=[], attribute="vocab_size"), _encode("Hello"), _encode(CHARACTERS)],
    )
    if size.fault is not None and "AttributeError" in size.raised:
        return failed("CharTokenizer has no attribute vocab_size.", "Set self.vocab_size in __init__.", usable=True)
    number = size.value()
    if number != 65:
        shown = kind_of(number)
        return failed(f"CharTokenizer().vocab_size is {shown}, not 65.", "It is a plain integer.", usable=True)
    ids, expected = _ids(every, len(CHARACTERS)), torch.arange(65)
    if not torch.equal(ids, expected):
        wrong = int((ids != expected).nonzero()[0])
        rows = [[repr(char), place, int(ids[place])] for place, char in enumerate(CHARACTERS) if ids[place] != place]
        sentence = f"{CHARACTERS[wrong]!r} has id {int(ids[wrong])}, not {wrong}: the order is that of the characters."
        if torch.equal(ids, expected + 1):
            sentence = "Ids begin at 1; the first character has id 0."
        exhibit = table("Ids", ["character", "expected", "yours"], rows[:10])
        return failed(sentence, "The id is the place in the string, from 0.", [exhibit], usable=True)
    hello_ids = _ids(hello, 5).tolist()
    if hello_ids != [20, 43, 50, 50, 53]:
        return failed(f'"Hello" becomes {hello_ids}, not [20, 43, 50, 50, 53].', "", usable=True)
    return passed()


@check("tokenizer.encode")
def encode_looks_up_each_character(exam: Exam, part: Part) -> Outcome:
    """encode gives the id of each character, whatever the text and the vocabulary."""
    texts = [_text(exam, f"encode {number}", CHARACTERS, 40) for number in range(3)]
    texts += ["", "\n", "  two  spaces \n\n", "MixedCase mixedcase", "aaaa"]
    cases: list[tuple[str, str, list[str]]] = [(CHARACTERS, text, []) for text in texts]
    cases += [(OTHERS, _text(exam, "encode others", OTHERS, 30), [OTHERS]), ("xy", "yxxy", ["xy"])]
    asks = [_encode(text, *init) for _, text, init in cases]
    got = ask(exam, part, part.class_name, asks)
    numbering = {characters: _numbering(exam, part, characters) for characters in (CHARACTERS, OTHERS, "xy")}
    for (characters, text, _), each in zip(cases, got, strict=True):
        expected = torch.tensor([numbering[characters][char] for char in text], dtype=torch.int64)
        if each.fault is not None and characters != CHARACTERS and {*REFUSALS} & {*each.raised}:
            own_words = "With characters of its own, CharTokenizer still knows only the 65"
            advice = "Number the characters that __init__ was given."
            return failed(f"{own_words}: {each.fault.message}", advice, each.fault.evidence)
        ids = _ids(each)
        if torch.equal(ids, expected):
            continue
        rows = [["text", repr(text[:40])], ["expected", str(expected.tolist()[:20])], ["yours", str(ids.tolist()[:20])]]
        exhibit = table("A text", ["", ""], rows)
        if len(ids) != len(expected):
            sentence = f"encode turns {len(text)} characters into {len(ids)} ids: it drops or joins some."
        elif torch.equal(ids, expected.flip(0)):
            sentence = "encode gives the ids in reverse order."
        elif text and set(text) <= set(characters) and len({*ids.tolist()}) < len({*expected.tolist()}):
            sentence = "encode gives different characters the same id."
        elif characters != CHARACTERS:
            sentence = "With characters of its own, CharTokenizer still uses other ids: number what __init__ was given."
        else:
            sentence = "encode gives wrong ids."
        return failed(sentence, "One id for each character, as it stands in the text.", [exhibit])
    return passed()


@check("tokenizer.decode")
def decode_gives_the_text(exam: Exam, part: Part) -> Outcome:
    """decode gives the text of a list or a tensor of ids, and undoes encode."""
    texts = [_text(exam, f"decode {number}", CHARACTERS, 30) for number in range(2)] + ["", "\n a\n", CHARACTERS]
    numbering = _numbering(exam, part, CHARACTERS)
    cases: list[tuple[str, Ask]] = [(text, _decode([numbering[char] for char in text])) for text in texts]
    others = _numbering(exam, part, OTHERS, known=False)
    if others:  # else that costs its points in encode
        other = _text(exam, "decode others", OTHERS, 20)
        cases.append((other, _decode([others[char] for char in other], OTHERS)))
    ids = torch.tensor([numbering[char] for char in texts[0]])
    cases.append((texts[0], Ask(init=[], method="decode", args=[{"tensor": "ids"}], tensors={"ids": ids})))
    got = ask(exam, part, part.class_name, [case for _, case in cases])
    for number, ((text, _), each) in enumerate(zip(cases, got, strict=True)):
        last = number == len(cases) - 1
        if last and each.fault is not None and each.fault.verdict.value == "crashed":
            return failed(
                f"decode does not take a tensor of ids: {each.fault.message}",
                "An element of a tensor is a tensor: make it a number with int(), or use ids.tolist().",
                each.fault.evidence,
            )
        value = each.value()
        if value == text:
            continue
        rows = [["expected", repr(text[:50])], ["yours", kind_of(value)]]
        if isinstance(value, list):
            sentence = "decode returns a list of characters, not a text: join them."
        elif not isinstance(value, str):
            sentence = f"decode returns {kind_of(value)}, not a text."
        elif value == " ".join(text):
            sentence = "decode puts spaces between the characters: join them with nothing."
        elif value == text.strip():
            sentence = "decode strips blanks and newlines from the text."
        elif value == text[::-1]:
            sentence = "decode gives the text in reverse order."
        else:
            sentence = "decode gives another text."
        return failed(sentence, "Exactly one character for each id.", [table("A text", ["", ""], rows)])
    return passed()


@check("tokenizer.unknown_characters")
def unknown_characters_are_refused(exam: Exam, part: Part) -> Outcome:
    """encode refuses a character without an id, and names it."""
    base = _text(exam, "unknown", CHARACTERS, 8)
    texts = [f"{base[:place]}{char}{base[place:]}" for char in STRANGERS for place in (0, 4, 8)]
    chars = [char for char in STRANGERS for _ in range(3)]
    got = ask(exam, part, part.class_name, [_encode(text) for text in texts])
    for char, text, each in zip(chars, texts, got, strict=True):
        if each.fault is None:
            ids = integers(each.value())
            shown = "gives an answer"
            if ids is not None:
                fate = "is dropped" if len(ids) < len(text) else f"becomes id {int(ids[text.index(char)])}"
                shown = f"{fate} without a word"
            return failed(
                f"{char!r} has no id, and {shown}.", "Raise ValueError: a silent change spoils the training text."
            )
        if not set(REFUSALS) & set(each.raised):
            return _refused_otherwise(each, f"{char!r} has no id: encode should raise ValueError")
        named = (char, repr(char), ascii(char).strip("'"), f"{ord(char):x}", str(ord(char)))
        if not any(name.lower() in each.said.lower() for name in named):
            return failed(
                f"encode refuses {char!r} with {each.raised[0]}: {each.said or '(no message)'}. It does not say which "
                "character it is.",
                "Put the character into the message, with repr: a tab or a quote is invisible otherwise.",
            )
    return passed()


@check("tokenizer.unknown_ids")
def unknown_ids_are_refused(exam: Exam, part: Part) -> Outcome:
    """decode refuses ids outside 0 to V - 1, negative ones too."""
    known = _numbering(exam, part, CHARACTERS).values()
    lists = [[3, -1], [-65, 3], [max(known) + 1], [1, 2, 1000]]
    got = ask(exam, part, part.class_name, [_decode(ids) for ids in lists])
    for ids, each in zip(lists, got, strict=True):
        wrong = next(number for number in ids if number not in known)
        if each.fault is None:
            value = each.value()
            why = " A list takes negative places, from its end." if wrong < 0 else ""
            return failed(
                f"decode({ids}) gives {kind_of(value)}, though {wrong} is no id.{why}",
                "Raise ValueError for what is not in 0 to V - 1.",
            )
        if not set(REFUSALS) & set(each.raised):
            return _refused_otherwise(each, f"{wrong} is no id: decode should raise ValueError")
    return passed()


@check("tokenizer.cost")
def a_vocabulary_costs_rows(exam: Exam, part: Part) -> Outcome:
    """vocabulary_cost counts a row for each token, once when tied and twice when not."""
    rng = exam.draws.generator("tokenizer cost")
    vocab, width = int(rng.integers(70, 900)), int(rng.integers(20, 300))
    cases = [((65, 384), 24_960), ((50_257, 384), 19_298_688), ((vocab, width), vocab * width)]
    cases_tied: list[tuple[tuple[Any, ...], int]] = [((*sizes, True), count) for sizes, count in cases]
    untied: list[tuple[tuple[Any, ...], int]] = [((*sizes, False), 2 * count) for sizes, count in cases]
    asked: list[tuple[tuple[Any, ...], int]] = [*cases, *cases_tied, *untied]
    got = ask(exam, part, "vocabulary_cost", [Ask(args=list(args)) for args, _ in asked])
    for (args, count), each in zip(asked, got, strict=True):
        number = each.number()
        if number != count:
            call = f"vocabulary_cost{args}"
            why = ""
            if number == 2 * count:
                why = " Tied, table and head are one matrix: it counts once."
            elif 2 * number == count:
                why = " Not tied, the head is a matrix of its own."
            elif number in (args[0] * 384, 2 * args[0] * 384):
                why = " The width is written as 384: use n_embd."
            elif number == count + args[0] or number == count + 2 * args[0]:
                why = " The head has no bias."
            return failed(f"{call} is {number:g}, not {count}.{why}", "A row of n_embd numbers for each token.")
    return passed()


@check("tokenizer.merge")
def one_merge_replaces_the_pair(exam: Exam, part: Part) -> Outcome:
    """merge_pair puts the new id wherever the pair stands, from left to right."""
    rng = exam.draws.generator("tokenizer merge")
    drawn = [int(number) for number in rng.integers(0, 3, size=40)]
    cases: list[tuple[list[int], list[int]]] = [
        ([1, 2, 3, 1, 2], [1, 2]),
        ([7, 7, 7], [7, 7]),
        ([7, 7, 7, 7], [7, 7]),
        ([], [1, 2]),
        ([1], [1, 2]),
        ([2, 1, 2, 1], [1, 2]),
        ([5, 1, 1, 2], [1, 2]),
        ([1, 2], [2, 1]),
        (drawn, [0, 1]),
        (drawn, [2, 2]),
    ]
    asks = [Ask(args=[list(ids), {"pair": pair}, 99]) for ids, pair in cases]
    for (ids, pair), each in zip(cases, ask(exam, part, "merge_pair", asks), strict=True):
        expected, value = _merged(ids, pair), each.value()
        merged = integers(value)
        if merged is not None and merged.tolist() == expected:
            continue
        shown = kind_of(value) if merged is None else str(merged.tolist()[:16])
        why = ""
        if merged is None:
            why = " It should be a list of integers."
        elif merged.tolist() == expected[:-1]:
            why = " The last token is lost: it stays, though no pair begins there."
        elif merged.tolist() == _merged_either_way(ids, pair):
            why = f" {tuple(pair[::-1])} is another pair: the order counts."
        elif pair[0] == pair[1]:
            why = " What was merged is used up: it cannot be half of the next pair."
        elif len(merged) == len(ids) - 1 < len(expected):
            why = " Every occurrence is replaced, not the first alone."
        elif len(merged) < len(expected):
            why = " Tokens are lost: those that are in no pair stay, the last one too."
        call = f"merge_pair({ids[:16]}, {tuple(pair)}, 99)"
        return failed(f"{call} gives {shown}, not {expected[:16]}.{why}", "Walk from left to right with an index.")
    return passed()


def _merged(ids: list[int], pair: list[int]) -> list[int]:
    """The merge, by the text that the ids would be: other than any answer that is to be found."""
    left, right = (chr(0x4000 + number) for number in pair)
    text = "".join(chr(0x4000 + number) for number in ids).replace(left + right, "\u9999")
    return [99 if char == "\u9999" else ord(char) - 0x4000 for char in text]


def _merged_either_way(ids: list[int], pair: list[int]) -> list[int]:
    """What comes out where the two may stand in either order."""
    merged: list[int] = []
    for number in ids:
        if merged and merged[-1] != 99 and sorted((merged[-1], number)) == sorted(pair):
            merged[-1] = 99
        else:
            merged.append(number)
    return merged


def _numbering(exam: Exam, part: Part, characters: str, *, known: bool = True) -> dict[str, int]:
    """Return the student's own ids, where each character has one of its own; else the contract's, or none.

    Another order costs its points once, in `vocabulary`.
    """
    (got,) = ask(
        exam, part, part.class_name, [_encode(characters, *([] if characters == CHARACTERS else [characters]))]
    )
    ids = integers(got.value()) if got.fault is None else None
    own = [] if ids is None else ids.tolist()
    if len(own) != len(characters) or len({*own}) != len(own) or min(own) < 0:
        own = list(range(len(characters)))
        if not known:
            return {}
    return dict(zip(characters, own, strict=True))


def _text(exam: Exam, purpose: str, characters: str, length: int) -> str:
    places = exam.draws.generator(f"text {purpose}").integers(0, len(characters), size=length)
    return "".join(characters[int(place)] for place in places)


def _encode(text: str, *init: str) -> Ask:
    return Ask(init=list(init), method="encode", args=[text])


def _decode(ids: list[int], *init: str) -> Ask:
    return Ask(init=list(init), method="decode", args=[list(ids)])


def _ids(got: Got, count: int | None = None) -> Tensor:
    """Return the ids that encode gave. Raises Stopped when it gave something else."""
    value = got.value()
    ids = integers(value)
    if ids is None:
        raise Stopped(failed(f"encode returns {kind_of(value)}, not a list of integers.", "Return a list of ids."))
    if count is not None and len(ids) != count:
        raise Stopped(failed(f"encode turns {count} characters into {len(ids)} ids.", "One id for each character."))
    return ids


def _refused_otherwise(got: Got, sentence: str) -> Outcome:
    if got.fault is not None and got.fault.verdict.value != "crashed":
        return got.fault  # not written, or out of memory
    kind = got.raised[0] if got.raised else "an exception"
    evidence = got.fault.evidence if got.fault is not None else ()
    return failed(f"{sentence}, not {kind}: {got.said[:200]}", "Look before you look up.", evidence)
