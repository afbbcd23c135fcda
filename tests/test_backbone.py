"""What a model offers beside its logits: each check passes right code and says what is wrong with the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import write

from autograder.checks.exam import Exam
from autograder.checks.registry import Outcome, Stopped, find_check
from autograder.checks.student import Student
from autograder.oracle.cases import Draws
from autograder.oracle.reference import Reference
from autograder.oracle.released import Released, course_meant
from autograder.probe.standins import named_arguments, standin_class
from autograder.sandbox import Limits, Nursery
from autograder.submission import read_submission, write_tree
from autograder.track import load_track
from autograder.verdict import Verdict

TRACK = load_track("foundations")
REFERENCE = Reference(TRACK)
PLAIN = (Path(__file__).parent / "cases" / "foundations" / "correct" / "plain" / "model.py").read_text(encoding="utf-8")

DRAW = "torch.multinomial(probs, num_samples=1)"
CONTEXT = "context = idx[:, -self.context_length :]"
LOOP = "for block in self.attn_blocks:\n            x = block(x)"
INIT = "        self.context_length = context_length\n"
SWITCH = INIT + "        self.use_checkpoint = False\n"
HEAD = "self.lm_head = nn.Linear(n_embed, vocab_size)"
NORM = "return self.layer_norm(x)"
END = "            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)\n        return idx"


def outcome(check: str, nursery: Nursery, tmp_path: Path, *changes: tuple[str, str]) -> Outcome:
    """Run one check of the whole model on right code with passages replaced."""
    text = PLAIN
    for find, replace in changes:
        assert text.count(find) == 1, find
        text = text.replace(find, replace)
    submission = read_submission(write(tmp_path / "work", {"model.py": text}), TRACK, "ada")
    tree = tmp_path / "tree"
    tree.mkdir()
    write_tree(submission, tree)
    student = Student(submission, TRACK, nursery, Limits(), tree)
    part = TRACK.part("transformer")
    try:
        student.load()
        return find_check(TRACK, part, f"transformer.{check}").run(Exam(student, REFERENCE, Draws(9)), part)
    except Stopped as stopped:
        return stopped.outcome
    finally:
        student.close()


@pytest.mark.parametrize(
    ("check", "changes", "says"),
    [
        ("untied", (), ""),
        ("context", (), ""),
        ("hidden", (), ""),
        ("generates", (), ""),
        ("generates", ((DRAW, "probs.argmax(dim=-1, keepdim=True)"),), ""),
        ("strided_targets", (), ""),
        ("checkpointing", (), "no switch"),
        (
            "checkpointing",
            ((INIT, SWITCH), (LOOP, LOOP.replace("block(x)", "block(x) + 0.0 if self.use_checkpoint else block(x)"))),
            "The same numbers with use_checkpoint = True",
        ),
        ("checkpointing", (("targets is not None", "targets is not None and undefined"),), "Not measured"),
    ],
)
def test_right_code_passes(
    check: str, changes: tuple[tuple[str, str], ...], says: str, nursery: Nursery, tmp_path: Path
) -> None:
    found = outcome(check, nursery, tmp_path, *changes)
    assert found.verdict is Verdict.PASSED and says in found.message


@pytest.mark.parametrize(
    ("check", "find", "replace", "says"),
    [
        ("untied", HEAD, f"{HEAD}\n        self.lm_head.weight = self.token_embed.weight", "is a matrix of its own"),
        ("untied", HEAD, f"{HEAD}\n        del self.lm_head.weight, self.token_embed.weight", "no token table"),
        (
            "context",
            "x = self.token_embed(idx)",
            "idx = idx[:, :11]\n        T = idx.shape[1]\n        x = self.token_embed(idx)",
            "taken without an error",
        ),
        ("hidden", "def forward_hidden", "def hidden", "Transformer has no method forward_hidden"),
        ("hidden", NORM, "return self.layer_norm(x)[:, -1:]", "expected one tensor (B, T, C)"),
        ("hidden", NORM, "return self.layer_norm(x), x", "raises"),
        ("generates", "def generate", "def write", "Transformer has no method generate"),
        ("generates", CONTEXT, "context = idx", "generate: Transformer"),
        ("generates", CONTEXT, "context = idx[:, : self.context_length]", "once the text is longer"),
        ("generates", "logits[:, -1, :]", "logits[:, 0, :]", "draws another id"),
        ("generates", "        return idx\n", "        return idx[:, -max_new_tokens:]\n", "expected (3, 7)"),
        ("generates", "probs = F.softmax(logits[:, -1, :]", "probs = F.softmax(logits[:, -1, :] / 2", "other chances"),
        ("generates", "        return idx\n", "        return idx.float()\n", "not integers"),
        ("generates", "        return idx\n", "        return idx.flip(1)\n", "does not begin with idx"),
        ("generates", DRAW, f"{DRAW} + 100", "raises"),
        ("generates", END, f"{END} + 0 * (self.train(True) is self)", "another mode"),
        (
            "generates",
            END,
            END.replace("return idx", "out = idx.clone()\n        out[:, -1] = 1000\n        return out"),
            "outside of the vocabulary",
        ),
        ("generates", f"            {CONTEXT}", f"            idx[:, 0] = 1\n            {CONTEXT}", "does not begin"),
        ("strided_targets", "targets.reshape(B * T)", "targets.view(B * T)", "not contiguous in memory"),
        ("strided_targets", "targets.reshape(B * T)", "targets.as_strided((B * T,), (1,))", "lie otherwise in memory"),
    ],
)
def test_what_is_wrong_is_said(
    check: str, find: str, replace: str, says: str, nursery: Nursery, tmp_path: Path
) -> None:
    found = outcome(check, nursery, tmp_path, (find, replace))
    assert found.verdict is not Verdict.PASSED and says in found.message


@pytest.mark.parametrize(
    ("loop", "says"),
    [
        ("if self.use_checkpoint:\n                continue\n            x = block(x)", "the loss is another one"),
        ("x = block(x) if not self.use_checkpoint else undefined", "With checkpointing switched on"),
        ("x = block(x.detach() if self.use_checkpoint else x)", "With use_checkpoint = True the gradient of"),
    ],
)
def test_checkpointing_that_changes_a_number_is_told(loop: str, says: str, nursery: Nursery, tmp_path: Path) -> None:
    changed = LOOP.replace("x = block(x)", loop)
    found = outcome("checkpointing", nursery, tmp_path, (INIT, SWITCH), (LOOP, changed))
    assert found.verdict is not Verdict.PASSED and says in found.message


def test_a_stand_in_takes_the_arguments_of_the_class_it_replaces() -> None:
    takes = {"head_size": "head_dim", "n_embed": "n_embd", "context_length": "block_size"}
    assert named_arguments(takes, (), (4, 12), {"context_length": 9}) == {
        "head_size": 4,
        "n_embed": 12,
        "context_length": 9,
    }
    swapped = named_arguments(takes, ("n_embed", "head_size"), (12, 4, 9), {"other": 1})
    assert swapped == {"n_embed": 12, "head_size": 4, "context_length": 9}
    built: list[str] = []
    fields = {"head_dim": 4, "n_embd": 12, "block_size": 9}
    head = standin_class("head", "Head", built, 12, fields, takes=takes, out="head_dim")
    assert head(4, 12, 9).standin_head.shape == (12, 4) and head(12, 12, 9).standin_head.shape == (12, 4)
    assert built == ["", "Head is built with head_size = 12 where 4 is right"]
    assert standin_class("head", "Head", takes=takes, out="head_dim")(4, 12, 9).standin_head.shape == (12, 4)


def test_in_a_kit_no_name_means_the_course_of_the_kit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert course_meant("gpt") == "gpt"
    kit = Released(tmp_path, (65,), "1", "foundations")
    monkeypatch.setattr("autograder.oracle.released.released", lambda: kit)
    assert (course_meant("gpt"), course_meant("mine.toml")) == ("foundations", "mine.toml")
