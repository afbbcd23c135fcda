"""Does the grader say what was planted? (`python -m tests.diagnoses`): each fault beside what its student is told."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autograder.track import load_track
from tests.mutants import NEIGHBOUR, OWN, Case, Graded, Matrix, run

TRUTHS = Path(__file__).with_suffix(".toml")
#: The class in which a fault is planted, and the part whose diagnosis should tell of it.
PART_OF = {"GPTConfig": "config", "CausalSelfAttention": "attention", "MLP": "mlp", "Block": "block", "GPT": "gpt"}
PART_OF |= {name: part.name for part in load_track("gpt").optional for name in part.names}
#: How a diagnosis begins that says how far off the numbers are, for want of a name for the mistake.
UNNAMED = re.compile(r"^(Batch row|The output is not what|The logits are not what|[^:]* gets? a wrong gradient)")


@dataclass(frozen=True)
class Diagnosed:
    """A faulty case, and what its student is told; `right` is None where the case has no known truth."""

    case: Case
    planted: str
    message: str
    look_at: str
    right: bool | None

    @property
    def named(self) -> bool:
        return not UNNAMED.match(self.message)


def diagnosed(matrix: Matrix) -> Iterator[Diagnosed]:
    """Yield what the students of the faulty cases are told, of those whose fault lies in one class."""
    truths = tomllib.loads(TRUTHS.read_text(encoding="utf-8"))
    for each in matrix.of("faulty"):
        part = PART_OF.get(each.case.wrong_class)
        if part is None or each.report is None:
            continue
        message, look_at = _told(each, part)
        truth = truths.get(each.case.name)
        right = None if truth is None else bool(re.search(truth, f"{message} {look_at}", re.IGNORECASE | re.DOTALL))
        planted = tomllib.loads((each.case.folder / "meta.toml").read_text(encoding="utf-8"))["planted"]
        yield Diagnosed(each.case, planted, message, look_at, right)


def _told(graded: Graded, part: str) -> tuple[str, str]:
    assert graded.report is not None
    result = graded.report.parts[part]
    advice = [check.look_at for check in result.checks if check.message == result.diagnosis]
    return result.diagnosis, advice[0] if advice else ""


def figures(found: Sequence[Diagnosed]) -> tuple[float, float, float]:
    """Return percent named rightly, percent named wrongly (both of those with a known truth), percent named of all."""
    known = [each for each in found if each.right is not None]
    right = sum(each.right is True for each in known)
    wrong = sum(each.right is False and each.named for each in known)
    named = sum(each.named for each in found)
    return 100 * right / max(len(known), 1), 100 * wrong / max(len(known), 1), 100 * named / max(len(found), 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and the figures; the status is 0 when enough is named rightly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="where cases lie (default: our own, and the neighbour's)")
    parser.add_argument("--only", default="*", help="a glob on names")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    folders = given.folders or [folder for folder in (OWN, NEIGHBOUR) if folder.is_dir()]
    found = list(diagnosed(run(folders, only=f"faulty/{given.only}", jobs=given.jobs)))
    for each in found:
        mark = {True: "right", False: "WRONG" if each.named else "far off", None: "named" if each.named else "-"}
        print(f"{mark[each.right]:8} {each.case.name}: {each.planted}")
        print(f"         {each.message}\n         -> {each.look_at}")
    right, wrong, named = figures(found)
    known = sum(each.right is not None for each in found)
    print(f"\nOf {known} faults with a known truth: {right:.1f} % named rightly, {wrong:.1f} % named wrongly.")
    print(f"Of all {len(found)}: {named:.1f} % get a named mistake.")
    return 0 if right >= 90 and wrong <= 2 else 1


if __name__ == "__main__":
    raise SystemExit(main())
