"""Places where code hooks itself into everybody else's: tracing, imports, global module hooks."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from typing import Any

import torch.nn.modules.module as torch_modules

from autograder.probe.watch_callers import Callers
from autograder.probe.watch_log import Log, listing


class Intercepts:
    """What was hooked in before student code ran; `inspect` reports and removes what came later."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._trace, self._profile = sys.gettrace(), sys.getprofile()
        self._thread_trace, self._thread_profile = threading.gettrace(), threading.getprofile()
        # The list objects themselves: code may swap them for lists of its own.
        self._import_lists = {
            name: (getattr(sys, name), list(getattr(sys, name))) for name in ("meta_path", "path_hooks")
        }
        self._hooks = {
            name: (value, dict(value)) for name, value in vars(torch_modules).items() if _is_hook_table(name, value)
        }
        self._full_backward = torch_modules._global_is_full_backward_hook

    def inspect(self, log: Log) -> None:
        """Report what student code hooked in; take it out, and put back what it took out."""
        self._inspect_frames(log)
        self.glance(log)

    def glance(self, log: Log) -> None:
        """As `inspect`, but for the frames: to walk them is slow, because the audit hook sees it."""
        self._inspect_tracing(log)
        self._inspect_imports(log)
        self._inspect_hooks(log)

    def _inspect_tracing(self, log: Log) -> None:
        tracer, profiler = sys.gettrace(), sys.getprofile()
        if tracer is not self._trace:
            self._report_tracer(log, tracer, "sys.settrace")
            sys.settrace(self._trace)
        if profiler is not self._profile:
            self._report_tracer(log, profiler, "sys.setprofile")
            sys.setprofile(self._profile)
        tracer, profiler = threading.gettrace(), threading.getprofile()
        if tracer is not self._thread_trace:
            self._report_tracer(log, tracer, "threading.settrace")
            threading.settrace(self._thread_trace)
        if profiler is not self._thread_profile:
            self._report_tracer(log, profiler, "threading.setprofile")
            threading.setprofile(self._thread_profile)

    def _inspect_frames(self, log: Log) -> None:
        frame = sys._getframe()
        while frame is not None:
            if frame.f_trace is not None and self._callers.made(frame.f_trace):
                log.tamper("The code traces the grader while it runs (f_trace).")
                frame.f_trace = None
            frame = frame.f_back  # type: ignore[assignment]  # None ends the loop

    def _report_tracer(self, log: Log, tracer: Any, how: str) -> None:
        if tracer is None:  # a debugger that ended took the tracer of a coverage measurement with it
            return
        if self._callers.made(tracer):
            log.tamper(f"The code traces the grader while it runs ({how}).")
        else:  # breakpoint() leaves pdb's
            log.notice("The code leaves a debugger or a profiler running.")

    def _inspect_imports(self, log: Log) -> None:
        for name, (original, entries) in self._import_lists.items():
            current = getattr(sys, name, [])
            ours = {id(entry) for entry in entries}
            added = [entry for entry in current if id(entry) not in ours]
            foreign = [entry for entry in added if self._callers.made(entry)]
            missing = len([entry for entry in current if id(entry) in ours]) < len(entries)
            if foreign or missing:
                log.tamper(f"The code intercepts imports (sys.{name}).")
            if foreign or missing or current is not original:
                kept = [entry for entry in added if not any(entry is one for one in foreign)]
                original[:] = kept + entries
                setattr(sys, name, original)

    def _inspect_hooks(self, log: Log) -> None:
        changed = []
        for name, (table, entries) in self._hooks.items():
            current = getattr(torch_modules, name, None)
            unchanged = len(table) == len(entries) and all(table.get(k) is v for k, v in entries.items())
            if current is not table or not unchanged:
                changed.append(name.removeprefix("_global_"))
                table.clear()
                table.update(entries)
                setattr(torch_modules, name, table)
        torch_modules._global_is_full_backward_hook = self._full_backward
        if changed:
            log.tamper(f"The code hooks every module there is, the grader's included (global {listing(changed)}).")


def _is_hook_table(name: str, value: Any) -> bool:
    return name.startswith("_global_") and isinstance(value, OrderedDict | dict)
