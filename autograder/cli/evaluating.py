"""`workshop evaluate` and `workshop leaderboard`: what trained models are worth, and who comes first."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autograder.capstone import CORPUS
from autograder.cli.screen import INTERRUPTED, NOT_RIGHT, OUR_FAULT, USAGE, Screen, fresh_seed, tell, write_plain

if TYPE_CHECKING:
    from autograder.capstone.corpus import Corpus
    from autograder.capstone.standing import Standing
    from autograder.sandbox import Nursery

EPILOG = """\b
Examples:
  workshop evaluate runs/cpu                       your own run
  workshop evaluate class/*/run --out evaluations  a class, one file each
  workshop evaluate runs/cpu --corpus secret       on a text that nobody saw
  workshop leaderboard evaluations                 who comes first

\b
CHECKPOINT is a run's folder (its best checkpoint) or one in checkpoints/. Its
code is the run's own copy, or that at --path. It runs in the sandbox alone;
nothing is unpickled. The loss is computed here, from the logits that come
back, over all validation characters; a model that sees what it should foretell
is refused. Points need the preset's budget (parameters, characters seen).
Exit status: 0 evaluated, 1 one of them is refused (the reason is printed),
2 wrong argument, or no isolation here, 3 our fault, 130 interrupted."""

LEADERBOARD_EPILOG = """\b
Examples:
  workshop leaderboard evaluations
  workshop leaderboard evaluations --html leaderboard.html

\b
Names files that `workshop evaluate --out` wrote, or folders of them. Take your
own: a file that a student hands in says what the student likes.
Exit status: 0 shown, 1 a file is no evaluation, 2 wrong argument."""

NO_ISOLATION = (
    "Nothing was run: this machine does not keep other people's code apart from your files. Where it is your own, or "
    "you trust who wrote it, add --trust-students."
)
TrustOption = Annotated[
    bool, typer.Option("--trust-students", help="Run their code where this machine cannot isolate it.")
]
CorpusOption = Annotated[Path, typer.Option(metavar="DIR", help="The corpus, as `workshop data` made it.")]
PathOption = Annotated[Path | None, typer.Option(metavar="PATH", help="The code of the model, if not the run's.")]
ReferenceOption = Annotated[bool, typer.Option("--reference", help="Use the kit's solutions as the model.")]


def evaluate(
    checkpoints: Annotated[list[Path], typer.Argument(metavar="CHECKPOINT...", help="Runs' folders, or checkpoints.")],
    path: PathOption = None,
    reference: ReferenceOption = False,
    corpus: CorpusOption = CORPUS,
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Budget and points of this preset. Default: the run's.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of one run, on the leaderboard.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write an evaluation file for each.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Compare the windows of an earlier run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evaluations as JSON, and nothing else.")] = False,
    trust_students: TrustOption = False,
) -> None:
    """Measure what a trained model is worth, in the sandbox."""
    if len(checkpoints) > 1 and (path is not None or name is not None):
        raise typer.BadParameter("--path and --name are for one CHECKPOINT: leave them out, or name one.")
    from autograder.capstone import corpus as corpora
    from autograder.capstone.standing import write_standing
    from autograder.capstone.trouble import CapstoneError
    from autograder.reports.plain import clean
    from autograder.reports.tables import file_names, json_text

    screen = Screen(sys.stderr if as_json else sys.stdout)
    made: list[Standing] = []
    failed = False
    names = [name] if name else _names(checkpoints)
    files = file_names(names)
    try:
        text = corpora.load(corpus)
        with isolated_nursery(trust_students) as nursery:
            for place, called in zip(checkpoints, names, strict=True):
                one = _evaluate(
                    place, called, text, nursery, path, reference, preset, fresh_seed() if seed is None else seed
                )
                if one is None:
                    failed = True
                    continue
                made.append(one)
                _tell(one, screen)
                if out is not None:
                    write_standing(one, out / f"{files[called]}.json")
    except CapstoneError as trouble:
        tell(f"Error: {clean(trouble)}", err=True)
        raise typer.Exit(NOT_RIGHT) from None
    except KeyboardInterrupt:
        tell("Interrupted." + (f" What is done is in {out}." if out else ""), err=True)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        write_plain(json_text({"evaluations": [dataclasses.asdict(one) for one in made]}))
    raise typer.Exit(OUR_FAULT if failed else NOT_RIGHT if any(one.refused for one in made) else 0)


def leaderboard(
    evaluations: Annotated[list[Path], typer.Argument(metavar="DIR|FILE...", help="What `workshop evaluate` wrote.")],
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page too.")] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="The page's title.")] = "Leaderboard",
) -> None:
    """Show who trained the best model."""
    from autograder.capstone.leaderboard import leaderboard_page, leaderboard_table
    from autograder.capstone.standing import find_standings, ranked, read_standing
    from autograder.capstone.trouble import CapstoneError, disk_trouble
    from autograder.reports.plain import clean

    try:
        rows = ranked(read_standing(file) for file in find_standings(evaluations))
        screen = Screen(sys.stdout)
        leaderboard_table(rows, screen, screen.catalogue)
        if html is not None:
            try:
                html.parent.mkdir(parents=True, exist_ok=True)
                html.write_text(leaderboard_page(rows, title, screen.catalogue), encoding="utf-8")
            except OSError as error:
                raise disk_trouble(str(html), error) from error
            tell(f"Page: {html}")
    except CapstoneError as trouble:
        tell(f"Error: {clean(trouble)}", err=True)
        raise typer.Exit(NOT_RIGHT) from None


def isolated_nursery(trusted: bool) -> Nursery:
    """Return a sandbox that holds, or whose students are trusted; exit with a sentence where neither is so."""
    from autograder.probe.client import ProbeFailure
    from autograder.sandbox import Nursery

    nursery = Nursery()
    try:
        holds = trusted or nursery.isolation.isolated
    except ProbeFailure as failure:
        nursery.close()
        tell(failure.message, err=True)
        raise typer.Exit(OUR_FAULT) from None
    if not holds:
        nursery.close()
        tell(NO_ISOLATION, err=True)
        raise typer.Exit(USAGE)
    return nursery


def _evaluate(
    place: Path,
    name: str,
    corpus: Corpus,
    nursery: Nursery,
    path: Path | None,
    reference: bool,
    preset: str | None,
    seed: int,
) -> Standing | None:
    """Return the standing of one run, be it a refusal; None when the failure is ours, which is told."""
    from autograder.capstone.evaluation import measure
    from autograder.capstone.handed_over import read_handed_over
    from autograder.capstone.marking import load_scale
    from autograder.capstone.sandboxed import OurFault
    from autograder.capstone.standing import refused_standing, standing_of
    from autograder.capstone.trouble import CapstoneError
    from autograder.grading import one_thread
    from autograder.reports.plain import clean
    from autograder.track import load_track

    track = load_track()
    chosen, full = preset or "", 0.0
    if preset is not None:
        load_scale(preset)
    try:
        handed = read_handed_over(place, track, code=path, reference=reference, name=name)
        scale = load_scale(preset or str(handed.checkpoint.settings.get("preset")))
        chosen, full = scale.preset, scale.max_points
        with one_thread():
            measured = measure(handed, corpus, track, nursery, seed)
        return standing_of(name, handed, measured, scale, corpus, seed=seed, isolation=nursery.isolation.to_json())
    except OurFault as fault:
        tell(f"{clean(name)}: not evaluated, and not the model's fault: {clean(fault)}", err=True)
        return None
    except CapstoneError as trouble:
        return refused_standing(name, chosen, full, str(trouble), seed=seed)


def _tell(one: Standing, screen: Screen) -> None:
    from autograder.capstone.marking import load_scale
    from autograder.reports.plain import clean, points

    def say(line: str) -> None:
        screen.print(clean(line), soft_wrap=True)

    say(f"{one.name}: preset {one.preset}" if one.preset else one.name)
    if one.loss is not None and one.bits is not None:
        say(
            f"  Validation loss {one.loss:.4f} nats = {one.bits:.4f} bits per character, over all "
            f"{one.characters:,} characters of: {one.corpus}"
        )
        say(f"  It does not see what it foretells: {one.compared:,} logits are the same without what follows.")
        same = {True: "; says what the kit's own GPT says with these weights", False: "", None: ""}[one.as_reference]
        say(f"  Step {one.step:,}; {one.parameters:,} parameters; {one.seen:,} characters seen in training{same}.")
    if one.refused:
        say(f"  No points: {one.refused}")
    elif one.loss is not None:
        next_level = load_scale(one.preset).next_level(one.loss)
        more = f"; {points(next_level[1])} from {next_level[0]:.2f} nats down" if next_level else ""
        say(f"  {points(one.points)} of {points(one.max_points)} points{more}")
    for remark in one.remarks:
        say(f"  Look at this: {remark}")


def _names(places: Sequence[Path]) -> list[str]:
    """Return a name for each run: its folder's, and the whole path where two have one."""
    short = [place.resolve().name for place in places]
    return [name if short.count(name) == 1 else place.as_posix() for name, place in zip(short, places, strict=True)]
