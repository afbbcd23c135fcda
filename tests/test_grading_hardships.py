"""Code that hurts itself costs its own part, cheating voids, and a failure of ours is nobody else's mistake."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import SOLUTIONS, changed, checks, losing, rejecting, solutions, write
from conftest import SEED, HandIn

from autograder.grading import grade
from autograder.probe.client import ProbeFailure
from autograder.sandbox import Limits, Nursery
from autograder.sandbox.child import ChildProcess
from autograder.submission import read_submission
from autograder.track import Track
from autograder.verdict import Verdict

PATIENCE = Limits(wall_s=3.0)  # for a loop that never ends; an honest call takes milliseconds


@pytest.mark.parametrize(
    ("line", "verdict", "says"),
    [
        ("while True: pass", Verdict.TIMED_OUT, "did not finish within 3 s"),
        ("torch.empty(10**13)", Verdict.OUT_OF_MEMORY, "runs out of memory"),
        ("__import__('os')._exit(0)", Verdict.CRASHED, "MLP: "),
        ("raise SystemExit(0)", Verdict.CRASHED, "raises SystemExit (line "),
        ("self.c_fcc(x)", Verdict.CRASHED, "has no attribute 'c_fcc'"),
    ],
)
def test_a_forward_that_ends_badly_costs_its_own_part_alone(
    line: str, verdict: Verdict, says: str, hand_in: HandIn
) -> None:
    report = hand_in(changed("mlp.py", "hidden = self.gelu", f"{line}\n        hidden = self.gelu"), limits=PATIENCE)
    assert losing(report) == ["mlp"] and report.parts["mlp"].verdict is verdict
    assert any(says in message for message in rejecting(report).values()), rejecting(report)


def test_after_a_time_out_the_rest_of_the_part_is_not_waited_for(hand_in: HandIn) -> None:
    work = changed("mlp.py", "self.c_fc = nn.Linear", "while True: pass\n        self.c_fc = nn.Linear")
    report = hand_in(work, limits=PATIENCE, parts=["mlp"])
    verdicts = [check.verdict for check in report.parts["mlp"].checks]
    assert verdicts.count(Verdict.TIMED_OUT) == 1 and set(verdicts) == {Verdict.TIMED_OUT, Verdict.BLOCKED}
    assert "Look for a loop that never ends" in report.parts["mlp"].checks[0].look_at


def test_a_file_that_never_finishes_loading_leaves_nothing_to_grade(hand_in: HandIn) -> None:
    report = hand_in({"model.py": "while True: pass\n"}, limits=PATIENCE)
    assert (report.verdict, report.score) == (Verdict.TIMED_OUT, 0)
    assert all("When it is imported" in part.diagnosis for part in report.parts.values())


def test_tampering_voids_all_that_torch_measured_but_not_the_config(hand_in: HandIn) -> None:
    report = hand_in(changed("mlp.py", "from torch import nn\n", "from torch import nn\ntorch.allclose = print\n"))
    assert report.parts["config"].score == 5 == report.score
    voided = [part for name, part in report.parts.items() if name != "config"]
    assert {part.verdict for part in voided} == {Verdict.FORBIDDEN} and report.verdict is Verdict.FORBIDDEN
    assert all("allclose" in part.diagnosis and part.score == 0 for part in voided)
    assert any("allclose" in warning for warning in report.warnings)
    assert {check.verdict for part in voided for check in part.checks} == {Verdict.FORBIDDEN, Verdict.BLOCKED}


def test_a_global_setting_left_changed_costs_one_point_and_nothing_else(hand_in: HandIn) -> None:
    line = "from torch import nn\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)\n"
    report = hand_in(changed("attention.py", "from torch import nn\n", line))
    assert list(rejecting(report)) == ["gpt.imports_cleanly"] and report.score == 99


def test_endless_chatter_is_a_warning_and_harmless_habits_are_told(hand_in: HandIn) -> None:
    chatter = "return self.c_proj(hidden)", "print('x' * 200_000)\n        return self.c_proj(hidden)"
    report = hand_in(changed("mlp.py", *chatter))
    assert report.score == 100 and "prints an enormous amount" in " ".join(report.warnings)


def test_a_model_that_lies_about_its_parameters_is_forbidden(hand_in: HandIn) -> None:
    lie = "    def parameters(self, recurse=True):\n        return iter([])\n\n    def forward("
    report = hand_in(changed("mlp.py", "    def forward(", lie))
    assert "claims tensors that the model does not have" in report.parts["gpt"].diagnosis
    lie = "    __class__ = property(lambda self: torch.Tensor)\n\n    def forward("
    report = hand_in(changed("mlp.py", "    def forward(", lie))
    assert "lies about its class" in " ".join(report.warnings) and report.verdict is Verdict.FORBIDDEN


# -- nothing to grade -------------------------------------------------------------------------------------------------


def test_a_submission_that_cannot_be_read_is_refused_with_its_reason(
    nursery: Nursery, track: Track, tmp_path: Path
) -> None:
    write(tmp_path / "work", solutions())
    (tmp_path / "work" / "gpt.py").unlink()
    (tmp_path / "work" / "gpt.py").symlink_to(SOLUTIONS / "gpt.py")
    report = grade(read_submission(tmp_path / "work", track), track, nursery, seed=SEED)
    assert report.score == 0 and report.verdict is not Verdict.PASSED
    assert "link" in (report.error or report.parts["gpt"].diagnosis)


def test_an_empty_folder_is_not_attempted_and_says_so(nursery: Nursery, track: Track, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    report = grade(read_submission(tmp_path / "work", track, "bo"), track, nursery, seed=SEED)
    assert (report.student, report.score, report.max_score) == ("bo", 0, 100)
    assert report.verdict is Verdict.NOT_ATTEMPTED and report.error == report.parts["config"].diagnosis != ""
    assert {check.verdict for check in checks(report).values()} == {Verdict.NOT_ATTEMPTED, Verdict.BLOCKED}


class FailsLater(Nursery):
    """A sandbox that can start one child and then no more, as on a disk that is full."""

    children = 0

    def spawn(self, tree: Path, limits: Limits | None = None) -> ChildProcess:
        self.children += 1
        if self.children > 1:
            raise ProbeFailure(Verdict.UNGRADABLE, "The grader failed, not the code: the disk is full.")
        return super().spawn(tree, limits)


def test_a_sandbox_that_fails_half_way_leaves_no_half_grade(track: Track, tmp_path: Path) -> None:
    files = changed("mlp.py", "hidden = self.gelu", "__import__('os')._exit(3)\n        hidden = self.gelu")
    with FailsLater() as failing:
        report = grade(read_submission(write(tmp_path / "work", files), track), track, failing, seed=SEED)
    assert report.verdict is Verdict.UNGRADABLE and report.error == "The grader failed, not the code: the disk is full."
    assert {part.verdict for part in report.parts.values()} == {Verdict.UNGRADABLE}


def test_a_sandbox_that_cannot_start_is_ours_and_never_a_mistake_of_the_student(track: Track, tmp_path: Path) -> None:
    submission = read_submission(write(tmp_path / "work", solutions()), track)
    with Nursery(workbench="autograder.no_such_room:Workbench") as broken:
        report = grade(submission, track, broken, seed=SEED)
    assert report.verdict is Verdict.UNGRADABLE and "The grader failed, not the code" in report.error
    assert {part.verdict for part in report.parts.values()} == {Verdict.UNGRADABLE}
