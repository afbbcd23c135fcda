"""`picture`: what a class of this notebook does: who hears whom, what attention looks at, where the loss starts.

For GPTConfig it shows where the numbers of a model live.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from autograder.jupyter.checking import part_of
from autograder.jupyter.showing import note, reader, show
from autograder.reports.notebook import exhibit_html, exhibit_text
from autograder.track import Part, Track, load_track
from autograder.verdict import Evidence

if TYPE_CHECKING:
    from torch import Tensor

#: Small enough to be drawn as squares, and no two of them equal.
_CONFIG = {"vocab_size": 11, "block_size": 10, "n_layer": 2, "n_head": 3, "n_embd": 12}
_T = 8


def picture(thing: type, track: str = "gpt") -> None:
    """Draw what a class of this notebook does: `picture(CausalSelfAttention)`. It runs here, in this kernel."""
    course = load_track(track)
    name, problem = part_of(thing, course)
    if not problem and course.part(name).functions:
        problem = f'There is no picture of {course.part(name).file}: check("{name}") says what there is to say.'
    if not problem and not isinstance(thing, type):
        problem = f"picture takes the class itself: picture({course.part(name).class_name})."
    if problem:
        note(problem)
        return
    try:
        part = course.part(name)
        items = [_sizes(course, thing)] if part.role == "config" else _pictures(course, thing, part)
    except NotImplementedError:
        text = f"Nothing to draw yet: {thing.__name__} is still to be written."
        note(text)
    except Exception as error:  # the student's own code, in the student's own kernel
        text = f"Nothing to draw: {type(error).__name__}: {error}. `check({thing.__name__})` says more."
        note(text)
    else:
        for item in items:
            show(exhibit_html(item, reader()), exhibit_text(item, reader()))


def _pictures(track: Track, cls: type, part: Part) -> list[Evidence]:
    pattern = None if part.constructor else _attention(cls)
    found = [influence(cls, track, part), pattern, _start(track, cls, part)]
    return [item for item in found if item is not None]


def _made(cls: Any, part: Part, config: dict[str, int]) -> Any:
    return cls(**part.arguments(config)) if part.constructor else cls(SimpleNamespace(**config))


def influence(cls: type, track: Track, part: Part) -> Evidence:
    """Return the T x T matrix of influences: how strongly input position j moves output position i of `cls`.

    Measured by the gradient of a random sum of output i. Raises what the student's code raises.
    """
    import torch

    with _same_random_state():
        module = _made(cls, part, _CONFIG)
        x, y = _run(module, track, part)
        direction = torch.randn(y.shape[1:])
        rows = []
        for i in range(_T):
            (gradient,) = torch.autograd.grad((y[0, i] * direction[i]).sum(), x, retain_graph=True, allow_unused=True)
            rows.append([0.0] * _T if gradient is None else gradient[0].norm(dim=-1).tolist())
    data = {"rows": rows, "row_label": "output position", "column_label": "input position"}
    return Evidence("matrix", f"Who hears whom in {cls.__name__}", {**data, "empty_above_diagonal": True})


def _attention(cls: Any) -> Evidence | None:
    """Return the attention weights of the first head of `cls`, where it is an attention with the contract's layers."""
    import torch

    from autograder.checks.attention_pattern import CONFIG, pattern_evidence, patterns, question
    from autograder.oracle.cases import Draws

    weights, x = question(Draws(0))
    with _same_random_state(), torch.no_grad():
        module = cls(SimpleNamespace(**CONFIG))
        own = dict(module.named_parameters())
        if own.keys() != weights.keys() or any(own[name].shape != value.shape for name, value in weights.items()):
            return None
        for name, value in weights.items():
            own[name].copy_(value)
        found = patterns(module(x))
    return None if found is None else pattern_evidence(found, 0)


def _start(track: Track, cls: Any, part: Part) -> Evidence | None:
    """Return the loss of an untrained `cls` beside ln V, where it is a model that gives a loss."""
    import torch

    if not issubclass(cls, torch.nn.Module) or not part.takes_tokens:
        return None
    vocab = track.config["vocab_size"]
    with _same_random_state(), torch.no_grad():
        module = _made(cls, part, {**_CONFIG, "vocab_size": vocab, "n_embd": 48})
        idx = torch.randint(vocab, (8, _T + 1))
        _, loss = module(idx[:, :-1], idx[:, 1:])
    if loss is None:
        return None
    rows = [["yours", round(float(loss), 4)], [f"ln {vocab}", round(math.log(vocab), 4)]]
    return Evidence("bars", "Loss before training", {"rows": rows})


@contextlib.contextmanager
def _same_random_state() -> Iterator[None]:
    """Draw the same numbers each time, and leave the notebook's own generator as it was."""
    import torch

    state = torch.random.get_rng_state()
    try:
        torch.manual_seed(0)
        yield
    finally:
        torch.random.set_rng_state(state)


def _run(module: Any, track: Track, part: Part) -> tuple[Tensor, Tensor]:
    """Return the vectors that go into `module` and what comes out, (1, T, C) each; of a GPT, the tokens' vectors."""
    import torch

    if not part.takes_tokens:
        x = torch.randn(1, _T, _CONFIG["n_embd"], requires_grad=True)
        return x, module(x)
    seen: list[Tensor] = []
    table = module.get_submodule(track.tables.tokens.removesuffix(".weight"))
    hook = table.register_forward_hook(lambda _m, _i, out: seen.append(out))
    try:
        logits, _ = module(torch.arange(_T)[None] % _CONFIG["vocab_size"])
    finally:
        hook.remove()
    return seen[0], logits


def _sizes(track: Track, cls: Any) -> Evidence:
    """Return how many numbers each part of a GPT holds at the defaults of `cls`."""
    config = {name: int(getattr(cls(), name)) for name in track.config}
    counts: dict[str, int] = {}
    for part in track.parts:
        times = config["n_layer"] if part is not track.parts[-1] else 1
        for name, shape in part.shapes(config).items():
            if name != "lm_head.weight":  # the token table under its second name
                row = f"{part.name}: {name.rpartition('.')[0]}" + (f", {times} times" if times > 1 else "")
                counts[row] = counts.get(row, 0) + times * math.prod(shape)
    rows = [*map(list, counts.items()), ["together", sum(counts.values())]]
    return Evidence("table", "Where the parameters live", {"columns": ["layer", "numbers"], "rows": rows})
