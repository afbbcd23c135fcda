"""The check that token table and output head are one parameter, by identity and by behaviour."""

from __future__ import annotations

from autograder.checks.evidence import (
    numbers,
    shape_text,
)
from autograder.checks.exam import Exam
from autograder.checks.outputs import draw_targets, unchanged
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.track import Part


@check("gpt.tying", needs=["builds"])
def head_and_table_are_tied(exam: Exam, part: Part) -> Outcome:
    """lm_head and wte share one parameter: by identity, after load_state_dict, and after a step of the optimizer."""
    sizes = exam.draws.sizes("tying", n_layer=1, batch=3)
    model = exam.build(part, sizes)
    names = exam.tied_names(part, model, sizes)
    if names is None:
        return failed(
            "There is no token table or no lm_head to tie.",
            "transformer.wte = nn.Embedding(V, C), lm_head = nn.Linear(C, V, bias=False).",
        )
    table_row, head_row = (model.find(name) for name in names)
    if table_row is None or head_row is None:
        present = names[0] if head_row is None else names[1]
        if exam.approach(part).renamed:
            return passed("One matrix serves both as table and as head.")
        return failed(
            f"Only {present} is a parameter of the model.",
            "Both names should be there, for one and the same Parameter.",
        )
    exhibit = numbers(
        "Tying", same_parameter=table_row.group == head_row.group, same_memory=table_row.storage == head_row.storage
    )
    if table_row.shape != head_row.shape:
        return failed(
            f"wte {shape_text(table_row.shape)} and lm_head {shape_text(head_row.shape)} cannot be tied.",
            "nn.Linear(n_embd, vocab_size): its weight is (V, C).",
            [exhibit],
        )
    if table_row.group != head_row.group:
        if table_row.storage == head_row.storage:
            return failed(
                "wte and lm_head share memory, but are two Parameters, with separate gradients and optimizer state.",
                "Assign the Parameter itself, not its .data: self.transformer.wte.weight = self.lm_head.weight",
                [exhibit],
            )
        return failed(
            f"wte and lm_head are not tied: at the course's size that is {_table_size(exam):,} parameters too many.",
            "Make them one Parameter (no clone, no copy), and tie after any code that replaces weights.",
            [exhibit],
        )
    fresh = exam.draws.normal("tying weights", head_row.shape)
    loaded = exam.student.load_own_way(part, model, dict.fromkeys(names, fresh))
    table_row, head_row = (loaded.find(name) for name in names)
    if table_row is None or head_row is None or table_row.group != head_row.group:
        return failed(
            "load_state_dict unties wte and lm_head: after it they are two parameters.",
            "Leave load_state_dict as it is (assign=True replaces parameters).",
            [exhibit],
        )
    if abs(head_row.std - float(fresh.double().std(unbiased=False))) > 1e-6:
        return failed(
            "load_state_dict does not load the weights.", "Leave load_state_dict as nn.Module has it.", [exhibit]
        )
    inputs = {**exam.inputs(part, sizes, "tying"), "targets": draw_targets(exam, sizes, "tying")}
    try:
        exam.train_call(part, model, inputs, loss=True, train=True)
    except Stopped:
        return passed(
            "Tied by identity; the step of the optimizer could not be taken, because there is no loss to go down.",
            [exhibit],
        )
    after = exam.student.step(model, names, 0.5)
    if any(name not in after for name in names) or not unchanged(after[names[0]], after[names[1]]):
        return failed(
            "After load_state_dict and one step of the optimizer wte and lm_head differ.",
            "Tie the Parameter itself.",
            [exhibit],
        )
    return passed(evidence=[exhibit])


def _table_size(exam: Exam) -> int:
    return exam.track.config["vocab_size"] * exam.track.config["n_embd"]
