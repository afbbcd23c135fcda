"""Watches student code from inside its own process, and says "forbidden" with what was tried.

What is seen here is a claim from a hostile process: it can only hurt the submission that makes it. Code that slips past
gains nothing, because the grader compares raw tensors in another process. So the aim is a true sentence for the report,
and, above all, never one about honest code.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import autograder
from autograder.probe import watch_audit
from autograder.probe.watch_callers import Callers
from autograder.probe.watch_functions import Snapshot, planted_modules, snapshot
from autograder.probe.watch_intercepts import Intercepts
from autograder.probe.watch_log import Log, listing
from autograder.probe.watch_paths import Paths
from autograder.probe.watch_settings import Settings
from autograder.probe.watch_tally import MAX_FORKS, Tally

__all__ = ["Snapshot", "Watch", "snapshot"]


class Watch:
    """Takes note of how things are, before any student code is loaded from `tree`, and installs an audit hook.

    Sentences are at most 300 printable characters, at most 20 of a kind, and quote nothing of the student's objects:

    - `tampering`: what cannot be a mistake (verdict `forbidden`);
    - `side_effects`: importing or calling the code changes a global setting (undone by `inspect`; costs a point);
    - `notices`: harmless, but worth a warning.

    `originals` is what `snapshot()` gave before forking; without it, one is taken now (a few ms). The current
    directory counts as the submission's scratch directory. Works once in a process: the hook cannot be removed.
    """

    def __init__(self, tree: str, originals: Snapshot | None = None) -> None:
        kit = os.path.dirname(autograder.__file__)  # noqa: PTH120 -- before student code can change it; text is wanted
        self._log = Log()
        self._tally = Tally()
        self._originals = originals or snapshot()
        callers = Callers(tree, kit)
        self._intercepts = Intercepts(callers)
        self._settings = Settings(self._tally.variables)
        watch_audit.install(callers, Paths((tree, str(Path.cwd())), kit), self._log, self._tally)

    @property
    def tampering(self) -> list[str]:
        return list(self._log.tampering)

    @property
    def side_effects(self) -> list[str]:
        return list(self._log.side_effects)

    @property
    def notices(self) -> list[str]:
        return list(self._log.notices)

    def inspect(self) -> None:
        """Compare with how things were, note the differences, and undo what can be undone.

        To be called after the submission was imported and after a model was built, outside any torch context of the
        caller's own. Functions are put back first: what follows calls them. Never raises.
        """
        self._take((self._originals.inspect, self._intercepts.inspect, self._settings.inspect, self._inspect_processes))

    def glance(self) -> None:
        """As `inspect`, but for the three thousand functions: for after a call, where it would cost more than the call.

        What a call replaces is seen at the next `inspect`.
        """
        self._take((self._intercepts.glance, self._settings.inspect))

    def restore(self) -> None:
        """Put back what would change how torch computes: for between two calls, which must not disturb each other."""
        self._take((self._settings.inspect_torch,))

    def _take(self, steps: tuple[Callable[[Log], None], ...]) -> None:
        for step in steps:
            try:
                step(self._log)
            except Exception as error:  # one blind eye is better than a reply that never comes
                self._log.notice(
                    f"The grader could not look at everything that the code changed ({type(error).__name__})."
                )

    def _inspect_processes(self, log: Log) -> None:
        if self._tally.forks > MAX_FORKS:
            log.tamper(f"The code starts many processes (more than {MAX_FORKS}).")
        planted = planted_modules()
        if planted:
            log.tamper(f"The code plants modules under the grader's names: {listing(planted)}.")
