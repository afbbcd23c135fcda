"""The kill matrix: grade every case (`python -m tests.mutants`): which check rejects which fault, and who escapes."""

from __future__ import annotations

import argparse
import fnmatch
import os
import queue
import re
import shutil
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.checks.evidence import MARGIN
from autograder.grading import grade
from autograder.sandbox import Limits, Nursery
from autograder.submission import read_submission
from autograder.track import Track, load_track
from autograder.verdict import PartResult, Report, Verdict

OWN = Path(__file__).parent / "cases"
#: A checkout may have a second set of cases beside it; it is graded too when it is there.
NEIGHBOUR = Path(__file__).parents[2] / "shared" / "cases"
KINDS = ("faulty", "correct", "renamed", "broken", "hostile")
PARTS = ("config", "attention", "mlp", "block", "gpt")
#: A case of these names them, and none of the five: it holds nothing else, and is graded on them alone.
OPTIONAL = ("tokenizer", "training", "generation")
#: The one check that judges the file rather than a class; it is kept in the last part.
FILE_CHECK = "imports_cleanly"
#: What a diagnosis must say when the mathematics is right and only the names or the constructor are not.
TELLS = {
    "names differ": re.compile(r"names? differ|names? (are )?exchanged|layout differs|transposed", re.IGNORECASE),
    "interface differs": re.compile(r"interface differs", re.IGNORECASE),
}


@dataclass(frozen=True)
class Case:
    """A submission with the verdict that a perfect grader gives, read from its `meta.toml`."""

    folder: Path
    kind: str
    name: str
    wrong_class: str
    debatable: bool
    verdict: dict[str, str]  # part -> "pass", "fail", "not done", "names differ", ...


@dataclass(frozen=True)
class Graded:
    """A case and what the grader made of it; `error` is filled when the grader itself broke."""

    case: Case
    report: Report | None
    seconds: float
    error: str = ""

    @property
    def full_marks(self) -> bool:
        return self.report is not None and self.report.score >= self.report.max_score

    def lost(self) -> Iterator[tuple[str, str, Verdict]]:
        """Yield (check, message, verdict) of each check that did not get all of its points."""
        for part in self.report.parts.values() if self.report else ():
            for check in part.checks:
                if check.points < check.max_points:
                    yield check.id, check.message, check.verdict

    def comparisons(self) -> Iterator[tuple[str, bool, float]]:
        """Yield (check, whether it passed, largest relative difference) of each comparison with the reference."""
        for part in self.report.parts.values() if self.report else ():
            for check in part.checks:
                for exhibit in check.evidence:
                    rows = dict(exhibit.data["rows"]) if exhibit.kind == "numbers" else {}
                    if MARGIN in rows:
                        yield check.id, check.verdict is Verdict.PASSED, float(rows[MARGIN])

    def rejected_by(self) -> list[str]:
        """Return the checks that reject this case; one that was only blocked by another rejects nothing."""
        return [check for check, _, verdict in self.lost() if verdict is not Verdict.BLOCKED]


@dataclass(frozen=True)
class Difference:
    """A (case, part) pair in which the grader and `meta.toml` disagree."""

    case: Case
    part: str
    expected: str
    got: str
    message: str


@dataclass(frozen=True)
class Matrix:
    """All that was graded, and the questions that one asks of it."""

    graded: tuple[Graded, ...]
    pairs: int
    differences: tuple[Difference, ...]

    def of(self, kind: str) -> list[Graded]:
        return [each for each in self.graded if each.case.kind == kind]

    @property
    def agreement(self) -> float:
        """Percent of (case, part) pairs with the right verdict."""
        return 100.0 * (1 - len(self.differences) / self.pairs) if self.pairs else 100.0

    @property
    def survivors(self) -> list[Graded]:
        """Faulty (or hostile and wrong) ones with full marks; a debatable one may have them with a warning."""
        wrong = self.of("faulty") + [each for each in self.of("hostile") if "fail" in each.case.verdict.values()]
        return [each for each in wrong if each.full_marks and not (each.case.debatable and _warned(each.report))]

    @property
    def hurt(self) -> list[Graded]:
        """Correct ones that lost a point."""
        return [each for each in self.of("correct") if not each.full_marks]

    def margins(self) -> dict[str, tuple[float, float]]:
        """Return, by check, the largest difference that passed as right and the smallest that was rejected."""
        found: dict[str, tuple[float, float]] = {}
        for each in self.graded:
            for check, passed, ratio in each.comparisons():
                right, wrong = found.get(check, (0.0, float("inf")))
                found[check] = (max(right, ratio), wrong) if passed else (right, min(wrong, ratio))
        return found

    @property
    def broke(self) -> list[Graded]:
        """Cases on which the grader itself failed."""
        return [each for each in self.graded if each.report is None or each.report.verdict is Verdict.UNGRADABLE]

    def rejections(self) -> tuple[Counter[str], Counter[str]]:
        """Return how many faulty ones each check rejects, and how many it alone rejects."""
        caught = [each.rejected_by() for each in self.of("faulty")]
        return Counter(check for checks in caught for check in checks), Counter(c[0] for c in caught if len(c) == 1)

    @property
    def holds(self) -> bool:
        return not (self.survivors or self.hurt or self.broke)


def read_cases(folders: Sequence[Path], only: str = "*") -> list[Case]:
    """Return the cases below `folders` (each holds faulty/, correct/, ...), each name once. `only`: a glob on names."""
    found: dict[tuple[str, str], Case] = {}
    for folder in folders:
        for kind in KINDS:
            for meta in sorted(folder.glob(f"{kind}/*/meta.toml")):
                case = read_case(meta)
                if fnmatch.fnmatch(case.name, only) or fnmatch.fnmatch(f"{kind}/{case.name}", only):
                    found.setdefault((kind, case.name), case)
    return [found[key] for key in sorted(found, key=lambda key: (KINDS.index(key[0]), key[1]))]


def read_case(meta: Path) -> Case:
    """Read one `meta.toml`."""
    data = tomllib.loads(meta.read_text(encoding="utf-8"))
    if any(part in data["verdict"] for part in PARTS):
        other = ("diagnosis", "module", *OPTIONAL)
        verdict = {part: word for part, word in data["verdict"].items() if part not in other}
    else:
        verdict = {part: data["verdict"][part] for part in OPTIONAL if part in data["verdict"]}
    return Case(meta.parent, data["kind"], data["name"], data["wrong_class"], data.get("debatable", False), verdict)


def stage(case: Case, folder: Path) -> Path:
    """Copy what the student hands in to `folder`, following no link; make the links and pipes that git cannot hold."""
    target = folder / case.name
    shutil.copytree(
        case.folder, target, symlinks=True, ignore=shutil.ignore_patterns("meta.toml", "MAKE_*", "__pycache__")
    )
    if (case.folder / "MAKE_FIFO").exists():
        os.mkfifo(target / "model.py")
    if (case.folder / "MAKE_SYMLINK").exists():
        link, aim = re.findall(r"(\S+) -> (\S+)", (case.folder / "MAKE_SYMLINK").read_text(encoding="utf-8"))[0]
        (target / link).symlink_to(aim)
    return target


def accepts(case: Case, part: str, report: Report) -> bool:
    """Tell whether the grader's verdict on `part` is the one in `meta.toml`. Raises ValueError for an unknown word."""
    expected, result = case.verdict[part], report.parts[part]
    match expected:
        case "pass" | "pass (as a whole)":
            return _full(result) or (case.wrong_class == "module" and _only_the_file(result))
        case "pass, with a warning":
            return _full(result) and _warned(report)
        case "pass (with a reference Block) or not gradable":
            return result.verdict not in (Verdict.FAILED, Verdict.CRASHED)
        case "contained or refused":  # an attack beside right code: both are fine, as long as it is judged
            return result.verdict is not Verdict.UNGRADABLE
        case "fail":
            return result.verdict is not Verdict.PASSED or (case.debatable and _warned(report))
        case "not done":
            return result.verdict in (Verdict.NOT_ATTEMPTED, Verdict.BLOCKED)
        case "names differ" | "interface differs":
            return result.verdict is not Verdict.PASSED and bool(TELLS[expected].search(result.diagnosis))
    raise ValueError(f"{case.folder}/meta.toml: unknown verdict {expected!r} for {part}")


def _full(result: PartResult) -> bool:
    return result.verdict is Verdict.PASSED and result.score >= result.max_score


def _only_the_file(result: PartResult) -> bool:
    """A file with a side effect has five right classes: the point that it loses sits in one of the parts."""
    return all(check.points == check.max_points for check in result.checks if check.id.split(".")[1] != FILE_CHECK)


def _warned(report: Report | None) -> bool:
    return report is not None and bool(report.warnings)


def run(
    folders: Sequence[Path],
    *,
    only: str = "*",
    jobs: int = 2,
    seed: int = 1,
    limits: Limits | None = None,
    course: str = "gpt",
    on_result: Callable[[Graded], None] | None = None,
) -> Matrix:
    """Grade every case in `folders` with the project's own grader, in `jobs` threads with a warm sandbox each."""
    track, limits = load_track(course), limits or Limits()
    todo: queue.SimpleQueue[Case] = queue.SimpleQueue()
    done: list[Graded] = []
    lock = threading.Lock()
    cases = read_cases(folders, only)
    for case in cases:
        todo.put(case)

    def work(desk: Path) -> None:
        with Nursery(limits) as nursery:
            while True:
                try:
                    case = todo.get_nowait()
                except queue.Empty:
                    return
                result = _grade(case, desk, track, nursery, seed, limits)
                with lock:
                    done.append(result)
                    if on_result is not None:
                        on_result(result)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        desks = [Path(folder) / str(number) for number in range(max(1, min(jobs, len(cases))))]
        threads = [threading.Thread(target=work, args=(desk,), daemon=True) for desk in desks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if len(done) != len(cases):
        raise RuntimeError(f"{len(cases) - len(done)} cases were not graded: a worker ended early")
    done.sort(key=lambda each: (KINDS.index(each.case.kind), each.case.name))
    return Matrix(tuple(done), sum(len(case.verdict) for case in cases), tuple(_differences(done)))


def _grade(case: Case, desk: Path, track: Track, nursery: Nursery, seed: int, limits: Limits) -> Graded:
    start = time.perf_counter()
    report, error = None, ""
    try:
        submission = read_submission(stage(case, desk / case.kind), track, f"{case.kind}/{case.name}")
        report = grade(submission, track, nursery, seed=seed, limits=limits, parts=list(case.verdict))
    except Exception as problem:  # a grader that raises is a finding of the matrix, not its end
        error = f"{type(problem).__name__}: {problem}"
    return Graded(case, report, time.perf_counter() - start, error)


def _differences(graded: Sequence[Graded]) -> Iterator[Difference]:
    for each in graded:
        for part, expected in each.case.verdict.items():
            if each.report is None:
                yield Difference(each.case, part, expected, "the grader failed", each.error)
            elif not accepts(each.case, part, each.report):
                result = each.report.parts[part]
                got = f"{result.verdict} {result.score:g}/{result.max_score:g}"
                yield Difference(each.case, part, expected, got, result.diagnosis or each.report.error)


def lines(matrix: Matrix) -> Iterator[str]:
    """Yield the kill matrix as text."""
    yield "FAULTY: which checks reject each"
    for each in matrix.of("faulty"):
        mark = "x" if not each.full_marks else "~" if each not in matrix.survivors else "!"
        verb = ", ".join(each.rejected_by()) or ("a warning only" if mark == "~" else "NOTHING")
        yield f"  {mark} {each.case.name:36} {verb}"
    yield "\nCHECKS: how many faulty ones each rejects"
    rejects, alone = matrix.rejections()
    for check, count in sorted(rejects.items()):
        yield f"  {check:28} rejects {count:3}, alone {alone[check]:3}"
    yield "\nMARGINS: largest relative difference of right code, smallest of wrong code (the tolerance lies between)"
    for check, (right, wrong) in sorted(matrix.margins().items()):
        yield f"  {check:28} right {right:8.2g}   wrong {wrong:8.2g}"
    yield "\nDIFFERENCES between the grader and meta.toml, by part"
    for gap in matrix.differences:
        yield f"  {gap.case.kind}/{gap.case.name} {gap.part}: expected {gap.expected}, got {gap.got}"
        yield f"      {_short(gap.message)}"
    for title, escaped in (
        ("FAULTY OR HOSTILE ONES WITH FULL MARKS", matrix.survivors),
        ("CORRECT ONES THAT LOSE A POINT", matrix.hurt),
        ("CASES ON WHICH THE GRADER ITSELF FAILED", matrix.broke),
    ):
        yield f"\n{title}: {len(escaped)}"
        for each in escaped:
            yield f"  {each.case.kind}/{each.case.name} {_short(each.error)}"
            if each.case.kind == "correct":
                yield from (f"      {check}: {verdict}: {_short(message)}" for check, message, verdict in each.lost())
    yield f"\n{', '.join(f'{len(matrix.of(kind))} {kind}' for kind in KINDS)}"
    agreed = matrix.pairs - len(matrix.differences)
    yield f"Agreement: {agreed} of {matrix.pairs} (case, part) pairs, {matrix.agreement:.1f}%"
    seconds = sorted((each.seconds for each in matrix.graded), reverse=True)
    if seconds:
        slow = ", ".join(
            f"{e.case.name} {e.seconds:.0f} s" for e in matrix.graded if e.seconds >= max(5.0, seconds[0] / 3)
        )
        middle, longest = seconds[len(seconds) // 2], seconds[0]
        yield f"Time per submission: median {middle:.2f} s, longest {longest:.1f} s" + (f" ({slow})" if slow else "")


def _short(message: str, width: int = 160) -> str:
    """Messages quote hostile text: one line, printable characters only."""
    plain = "".join(char if char.isprintable() else " " for char in message)
    return plain if len(plain) <= width else plain[: width - 3] + "..."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the matrix from the command line; 1 when a fault escapes or a right answer is hurt."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "folders", nargs="*", type=Path, help="folders with faulty/, correct/, ... (default: all known)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--track", default="gpt", help="the course whose cases these are")
    parser.add_argument("--only", default="*", help="glob on the names of cases, or on kind/name")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds that one call of student code may take")
    options = parser.parse_args(arguments)
    folders = options.folders or [folder for folder in (OWN, NEIGHBOUR) if folder.is_dir()]
    if not read_cases(folders, options.only):
        print(f"No case matches {options.only!r} in {', '.join(map(str, folders))}.", file=sys.stderr)
        return 2
    count = 0

    def tell(result: Graded) -> None:
        nonlocal count
        count += 1
        print(f"\r{count} {result.case.kind}/{result.case.name}\x1b[K", end="", file=sys.stderr, flush=True)

    matrix = run(
        folders,
        only=options.only,
        jobs=options.jobs,
        seed=options.seed,
        course=options.track,
        limits=Limits(wall_s=options.timeout),
        on_result=tell if sys.stderr.isatty() else None,
    )
    for line in lines(matrix):
        print(line)
    return 0 if matrix.holds else 1


if __name__ == "__main__":
    sys.exit(main())
