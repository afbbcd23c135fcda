"""One submission -> one Report. The whole story of a grade reads here, from the files to the points."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

import autograder
from autograder.checks import Outcome, Stopped, find_check
from autograder.checks.beside import Beside
from autograder.checks.exam import Exam
from autograder.checks.faults import import_outcome
from autograder.checks.registry import failed
from autograder.checks.student import Student
from autograder.checks.whole import assembled
from autograder.oracle.cases import Draws
from autograder.oracle.expected import NotSealed
from autograder.oracle.memory import Memory
from autograder.oracle.reference import Reference
from autograder.probe.client import ProbeFailure
from autograder.sandbox import Limits, Nursery
from autograder.sandbox.scratch import let_pass
from autograder.submission import Submission, write_tree
from autograder.submission.places import in_cells
from autograder.track import Part, Track
from autograder.verdict import CheckResult, Evidence, PartResult, Report, Verdict, combine

#: More printed text than this is told to the student: it slows every run, and hides what matters.
LOUD_BYTES = 1_000_000
#: Where a student kit has no expected numbers for a model: said once in the report, and of each check that it stops.
UNSEALED = (
    "This kit holds no expected numbers for a model with these tensors, so some checks were not run. "
    "Nothing is wrong with that: your instructor's grading runs them."
)
#: A reply is handled in a fifth of a millisecond.
SWITCH_S = 0.0002
#: After one of these the other checks of the part would only wait for the same thing again.
FATAL = (Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY, Verdict.FORBIDDEN)


def grade(
    submission: Submission,
    track: Track,
    nursery: Nursery,
    *,
    seed: int,
    limits: Limits | None = None,
    parts: Sequence[str] | None = None,
    at_once: bool = False,
    examiner: Callable[[Student, Reference, Draws], Exam] = Exam,
    memory: Memory | None = None,
) -> Report:
    """Grade `submission`; never raises for what a student did. With `parts`, only those are checked and counted.

    Without, those that the track says are graded. Optional parts are checked in a child of their own, after the others.
    With `at_once` the last part is checked in a second child beside the others: for one submission on two cores.
    The seed fixes every hidden number: the same submission, kit version and seed give the same report. An `examiner`
    of one's own sees what the checks ask (authoring/dictation.py writes it down). A `memory` of the same seed
    spares the next submission what is the same for all.
    """
    memory = memory or Memory(seed)
    chosen = list(track.graded) if parts is None else [part for part in track.every if part.name in parts]
    if submission.verdict is not None:
        outcome = Outcome(submission.verdict, submission.problem)
        return _report(
            submission, track, nursery, seed, [_whole_part(track, part, outcome) for part in chosen], [], {}, {}
        )
    with tempfile.TemporaryDirectory(prefix="workshop-") as folder:
        tree = Path(folder).resolve() / "submission"
        tree.mkdir()
        tree.chmod(0o755)  # whatever the umask: the child may run as another user
        let_pass(tree.parent)
        write_tree(submission, tree)
        reports = []
        for optional in (False, True):
            group = [part for part in chosen if part.optional is optional]
            if not group and chosen:
                continue
            course = track.of(group) if optional else track
            lanes = 2 if at_once and len(group) > 1 and not optional else 1
            students = [Student(submission, course, nursery, limits or Limits(), tree) for _ in range(lanes)]
            try:
                with one_thread():
                    reports.append(_grade_loaded(submission, course, nursery, seed, group, students, examiner, memory))
            finally:
                for student in students:
                    student.close()
            if not chosen:
                break
        return _joined(reports)


def _joined(reports: Sequence[Report]) -> Report:
    """Return one report of the parts of several."""
    first, *others = reports
    for other in others:
        first = replace(
            first,
            verdict=combine((first.verdict, other.verdict)),
            score=round(first.score + other.score, 4),
            max_score=first.max_score + other.max_score,
            parts=first.parts | other.parts,
            warnings=tuple(_unique([*first.warnings, *other.warnings])),
            modules=first.modules | other.modules,
            checks_run=first.checks_run + other.checks_run,
            error=first.error or other.error,
        )
    return first


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread, as on tensors this small more of them only wait for each other; and let Python's own
    threads, which mostly wait for children, hand over sooner than its five milliseconds."""
    before = torch.get_num_threads(), sys.getswitchinterval()
    torch.set_num_threads(1)
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        sys.setswitchinterval(before[1])


def _grade_loaded(
    submission: Submission,
    track: Track,
    nursery: Nursery,
    seed: int,
    chosen: Sequence[Part],
    students: list[Student],
    examiner: Callable[[Student, Reference, Draws], Exam],
    memory: Memory,
) -> Report:
    student = students[-1]
    exam, *others = (examiner(each, memory.reference(track), memory.draws) for each in reversed(students))
    beside = Beside(lambda: [_grade_part(others[0], part, submission) for part in chosen[:-1]]) if others else None
    try:
        student.load()
    except ProbeFailure as failure:
        outcome = _explained(submission, Outcome(failure.verdict, _at_import(failure)))
        return _report(
            submission, track, nursery, seed, [_whole_part(track, part, outcome) for part in chosen], [], {}, {}
        )
    try:
        if beside is not None:
            results = _grade_beside(exam, others[0], beside, chosen[-1], submission)
        else:
            results = [_grade_part(exam, part, submission) for part in chosen]
        whole = _assembled(exam, results) if len(chosen) == len(track.parts) and not chosen[0].optional else {}
    except ProbeFailure as failure:  # only our own failures come this far
        outcome = Outcome(Verdict.UNGRADABLE, failure.message)
        return _report(
            submission, track, nursery, seed, [_whole_part(track, part, outcome) for part in chosen], [], {}, {}
        )
    student.close()
    results = [_taint(part, result, student) for part, result in zip(chosen, results, strict=True)]
    warnings = [*student.tampering, *student.notices, *exam.warnings]
    if student.output_bytes > LOUD_BYTES:
        warnings.append(f"It prints an enormous amount ({student.output_bytes / 1e6:.0f} MB) while it is graded.")
    modules = {name: facts.file for name, facts in student.facts.items() if facts.found}
    return _report(submission, track, nursery, seed, results, warnings, whole, modules)


def _assembled(exam: Exam, results: Sequence[PartResult]) -> dict[str, object]:
    try:
        return assembled(exam, results)
    except NotSealed:
        message = "Not compared here: it needs your instructor's grading."
        return {"right": None, "message": message, "parameters": None, "expected_parameters": None, "tensors": []}


def _grade_beside(
    exam: Exam, other: Exam, beside: Beside[list[PartResult]], last: Part, submission: Submission
) -> list[PartResult]:
    """Check the last part in `exam` while the parts before it are checked in `other`."""

    def wait() -> Exam:
        beside.result()
        return other

    exam.others = wait
    result = _grade_part(exam, last, submission)
    exam.join()
    return [*beside.result(), result]


def _grade_part(exam: Exam, part: Part, submission: Submission) -> PartResult:
    outcome = _cannot_start(exam, part, submission)
    if outcome is not None:
        exam.verdicts[next(iter(part.points))] = outcome.verdict
        return _whole_part(exam.track, part, outcome)
    done: dict[str, Outcome] = {}
    for check_id in part.points:
        done[check_id] = _run_check(exam, part, check_id, done)
        exam.verdicts[check_id] = done[check_id].verdict
    return _part_result(exam.track, part, done)


def _run_check(exam: Exam, part: Part, check_id: str, done: dict[str, Outcome]) -> Outcome:
    check = find_check(exam.track, part, check_id)
    for need in check.needs:
        before = done.get(need)
        if before is not None and before.verdict is not Verdict.PASSED and not before.usable:
            return Outcome(Verdict.BLOCKED, f'Not run: it needs "{find_check(exam.track, part, need).title}".')
    fatal = next((o for o in done.values() if o.verdict in FATAL), None)
    if fatal is not None:
        return Outcome(Verdict.BLOCKED, f"Not run: {fatal.message}")
    try:
        exam.student.ensure_alive()
        return check.run(exam, part)
    except Stopped as stopped:
        return stopped.outcome
    except ProbeFailure as failure:
        if failure.verdict is Verdict.UNGRADABLE:
            raise
        return Outcome(failure.verdict, f"{part.title}: {failure.message}", _fatal_advice(failure.verdict))
    except NotSealed:
        exam.warnings.append(UNSEALED)
        return Outcome(Verdict.BLOCKED, "Not checked here: it needs your instructor's grading.", UNSEALED, usable=True)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # Answers that no check foresees must not sink the submission; the warning asks to have a look.
        exam.warnings.append(f"The check {check_id} stumbled over an answer ({type(error).__name__}): have a look.")
        return failed(f"{part.title} answers in a way that cannot be compared.", "Compare its shapes with the stub.")


def _cannot_start(exam: Exam, part: Part, submission: Submission) -> Outcome | None:
    """Return why no check of `part` can run: its file is missing, does not load, or lacks the class."""
    try:
        exam.student.ensure_alive()
    except ProbeFailure as failure:
        if failure.verdict is Verdict.UNGRADABLE:
            raise
        return Outcome(failure.verdict, _at_import(failure))
    found = [exam.student.facts[name] for name in part.names if name in exam.student.facts]
    facts = next((each for each in found if each.found), found[0] if found else None)
    if facts is None:
        return Outcome(
            Verdict.NOT_ATTEMPTED,
            f"There is no {part.file} in the submission.",
            f"Hand in {part.file} (or one {exam.track.single_file}).",
        )
    if facts.fault is not None:
        return _explained(submission, import_outcome(facts.fault, facts.file), facts.file)
    if facts.found:
        return None
    message = submission.explanations.get(facts.file) or f"There is no {_kind(part)} in {facts.file}."
    nothing = not any(f.found for f in exam.student.facts.values())
    return Outcome(
        Verdict.NOT_ATTEMPTED if nothing else Verdict.FAILED,
        message,
        f"Define {_kind(part).replace(' and no ', ' and ')} there, spelled like this.",
    )


def _kind(part: Part) -> str:
    return " and no ".join((*([f"class {part.class_name}"] if part.class_name else []), *part.functions))


def _at_import(failure: ProbeFailure) -> str:
    return f"When it is imported: {failure.message}"


def _fatal_advice(verdict: Verdict) -> str:
    return {
        Verdict.TIMED_OUT: "Look for a loop that never ends.",
        Verdict.OUT_OF_MEMORY: "Look for a tensor or a list that grows without end.",
        Verdict.CRASHED: "The process itself died: leave os._exit, signals and ctypes alone.",
    }.get(verdict, "")


def _explained(submission: Submission, outcome: Outcome, file: str | None = None) -> Outcome:
    """Say in plain words why a file cannot load, where that is known; Python's own words become the evidence."""
    known = submission.explanations
    sentence = known.get(file, "") if file is not None else next(iter(known.values()), "")
    if not sentence:
        return outcome
    said = Evidence("text", "In Python's words", {"text": outcome.message})
    return Outcome(outcome.verdict, sentence, outcome.look_at, (said, *outcome.evidence))


def _whole_part(track: Track, part: Part, outcome: Outcome) -> PartResult:
    """Give a part's first check this outcome and block the rest: nothing could be run."""
    ids = list(part.points)
    done = {ids[0]: outcome} | {
        check_id: Outcome(Verdict.BLOCKED, f"Not run: {outcome.message}") for check_id in ids[1:]
    }
    return _part_result(track, part, done)


def _part_result(track: Track, part: Part, done: dict[str, Outcome]) -> PartResult:
    results = []
    for check_id, points in part.points.items():
        outcome = done[check_id]
        earned = points if outcome.verdict is Verdict.PASSED else 0.0
        results.append(
            CheckResult(
                check_id,
                part.name,
                find_check(track, part, check_id).title,
                outcome.verdict,
                earned,
                points,
                outcome.message,
                outcome.look_at,
                outcome.evidence,
            )
        )
    verdict = combine(result.verdict for result in results)
    score = round(sum(result.points for result in results), 4)
    return PartResult(part.name, part.title, verdict, score, part.max_score, _diagnosis(done), tuple(results))


def _diagnosis(done: dict[str, Outcome]) -> str:
    """Return the one sentence for the part: the first thing that is wrong, what blocks others before what does not."""
    wrong = [o for o in done.values() if o.verdict not in (Verdict.PASSED, Verdict.BLOCKED)]
    if not wrong:
        return ""
    worst = combine(outcome.verdict for outcome in wrong)
    if worst is Verdict.FORBIDDEN:
        return next(o.message for o in wrong if o.verdict is worst)
    telling = sorted(wrong, key=lambda outcome: outcome.usable)
    differ = [o for o in wrong if o.message.startswith(("Names differ", "Interface differs"))]
    if differ and len(differ) == len(wrong):
        return differ[0].message.rstrip(".") + "; the maths is right."
    return telling[0].message


def _taint(part: Part, result: PartResult, student: Student) -> PartResult:
    """Void a part whose evidence went through torch after the submission tampered with the grader.

    GPTConfig is five plain numbers, which no patched tensor can fake; it keeps its points.
    """
    if not student.tampering or part.role == "config":
        return result
    outcome = Outcome(Verdict.FORBIDDEN, student.tampering[0], "Hand in the classes alone.")
    voided = [
        CheckResult(
            c.id,
            c.part,
            c.title,
            Verdict.FORBIDDEN if i == 0 else Verdict.BLOCKED,
            0.0,
            c.max_points,
            outcome.message,
            outcome.look_at,
        )
        for i, c in enumerate(result.checks)
    ]
    return PartResult(part.name, part.title, Verdict.FORBIDDEN, 0.0, part.max_score, outcome.message, tuple(voided))


def _report(
    submission: Submission,
    track: Track,
    nursery: Nursery,
    seed: int,
    results: Sequence[PartResult],
    warnings: Sequence[str],
    whole: dict[str, object],
    modules: dict[str, str],
) -> Report:
    verdict = combine(result.verdict for result in results)
    ran = sum(check.verdict is not Verdict.BLOCKED for result in results for check in result.checks)
    report = Report(
        student=submission.student,
        track=track.name,
        kit_version=autograder.__version__,
        seed=seed,
        isolation=_isolation(nursery),
        verdict=verdict,
        score=round(sum(result.score for result in results), 4),
        max_score=sum(result.max_score for result in results),
        parts={result.name: result for result in results},
        warnings=tuple(_unique([*submission.warnings, *warnings])),
        files=dict(submission.files),
        assembled=whole,
        modules=modules,
        checks_run=ran,
        error=results[0].diagnosis if verdict is Verdict.UNGRADABLE else submission.problem,
        repairs=submission.repairs,
    )
    return in_cells(report, submission)


def _isolation(nursery: Nursery) -> dict[str, object]:
    try:
        return nursery.isolation.to_json()
    except ProbeFailure:  # the sandbox does not start: that is told as ungradable, not raised here
        return {"level": "none", "isolated": False, "layers": []}


def _unique(sentences: Sequence[str]) -> Iterator[str]:
    yield from dict.fromkeys(sentences)
