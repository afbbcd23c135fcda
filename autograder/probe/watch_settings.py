"""Global settings that importing or calling a submission may leave changed, and how to put them back."""

from __future__ import annotations

import contextlib
import locale
import os
import signal
import sys
import warnings
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.utils._device  # which get_default_device() would import on its first call, at 1 ms
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils._python_dispatch import _pop_mode as _pop_dispatch_mode

from autograder.probe.watch_log import Log, listing

#: The polite ways to ask a process to stop.
_STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGALRM")
#: Variables that the interpreter and the numeric libraries read: put back. Others may be the submission's own, and a
#: model that reads in forward() what it set at import must go on working.
_RUNTIME_VARIABLES = ("CUDA", "KMP_", "LD_", "MKL_", "OMP_", "OPENBLAS_", "PATH", "PYTHON", "PYTORCH", "TORCH")


@dataclass(frozen=True)
class _Setting:
    """One global setting: `read` and `write` are the original functions, held from before student code runs."""

    what: str
    read: Callable[[], Any]
    write: Callable[[Any], Any]
    shown: Callable[[Any], str] = str  # only ever given values of built-in and torch types


class Settings:
    """The settings as they were before student code ran; `inspect` reports what changed and puts it back.

    `variables` names, while the code runs, the environment variables that it touches; libraries may touch others.
    """

    def __init__(self, variables: Set[str]) -> None:
        self._variables = variables
        self._guards: list[Any] = []  # inference mode ends with the guard object: ours must live on
        self._effects = [(setting, setting.read()) for setting in self._numeric_settings()]
        self._surroundings = [(setting, setting.read()) for setting in _surrounding_settings()]
        self._function_modes = torch._C._len_torch_function_stack()
        self._dispatch_modes = len(_get_current_dispatch_mode_stack())
        self._numpy_errors = np.geterr()
        self._recursion_limit = sys.getrecursionlimit()
        self._error_filters = _error_filters()
        self._locale = (locale.setlocale(locale.LC_ALL), locale.localeconv()["decimal_point"])
        self._environment = dict(os.environ)
        self._handlers = {
            name: signal.getsignal(getattr(signal, name)) for name in _STOP_SIGNALS if hasattr(signal, name)
        }

    def inspect(self, log: Log) -> None:
        """Report and undo what was left changed; to be called outside any torch context of the caller's own."""
        self.inspect_torch(log)
        self._inspect_python(log)
        for setting, before in self._surroundings:
            now = None
            with contextlib.suppress(OSError):  # a working directory that was deleted cannot be named
                now = setting.read()
            if now != before:
                log.notice(f"The code changes {setting.what}.")
                with contextlib.suppress(OSError, ValueError):  # not ours to change any more
                    setting.write(before)
        self._inspect_environment(log)
        self._inspect_signals(log)

    def inspect_torch(self, log: Log) -> None:
        """As `inspect`, for what decides on torch's numbers alone."""
        self._inspect_modes(log)
        for setting, before in self._effects:
            now = setting.read()
            if now != before:
                log.side_effect(f"The code leaves {setting.what} changed to {setting.shown(now)}.")
                setting.write(before)
        self._remove_modes()  # what is left of the default device

    def _numeric_settings(self) -> list[_Setting]:
        def enable_inference(mode: bool) -> None:
            guard = torch.inference_mode(mode)
            guard.__enter__()
            self._guards.append(guard)

        def deterministic() -> tuple[bool, bool]:
            return (
                torch.are_deterministic_algorithms_enabled(),
                torch.is_deterministic_algorithms_warn_only_enabled(),
            )

        def set_deterministic(value: tuple[bool, bool]) -> None:
            torch.use_deterministic_algorithms(value[0], warn_only=value[1])

        def set_device(device: torch.device) -> None:
            torch.set_default_device(None if device.type == "cpu" else device)

        def on_off(value: bool) -> str:
            return "on" if value else "off"

        autocast, set_autocast = torch.is_autocast_enabled, torch.set_autocast_enabled
        return [
            _Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype),
            _Setting("the default device", torch.get_default_device, set_device),
            _Setting("inference mode", torch.is_inference_mode_enabled, enable_inference, on_off),
            _Setting("gradient recording", torch.is_grad_enabled, torch._C._set_grad_enabled, on_off),
            _Setting("deterministic algorithms", deterministic, set_deterministic, lambda value: on_off(value[0])),
            _Setting("anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly, on_off),
            _Setting("autocast", lambda: autocast("cpu"), lambda value: set_autocast("cpu", value), on_off),
        ]

    def _inspect_modes(self, log: Log) -> None:
        # First of all, because a mode left active answers whatever is asked of torch next.
        modes = self._remove_modes()
        devices = [mode for mode in modes if type(mode) is torch.utils._device.DeviceContext]
        for mode in devices:  # the default device is a mode too, and has a sentence of its own
            torch._C._push_on_torch_function_stack(mode)
        if len(modes) > len(devices):
            log.side_effect("The code leaves a torch mode active that sees every operation.")

    def _remove_modes(self) -> list[Any]:
        removed: list[Any] = []
        while len(_get_current_dispatch_mode_stack()) > self._dispatch_modes:
            removed.append(_pop_dispatch_mode())
        while torch._C._len_torch_function_stack() > self._function_modes:
            removed.append(torch._C._pop_torch_function_stack())
        return removed

    def _inspect_python(self, log: Log) -> None:
        errors = np.geterr()
        if errors != self._numpy_errors:
            if any(action in ("raise", "call") for action in errors.values()):
                log.side_effect("The code leaves numpy raising errors where it only warns (numpy.seterr).")
            np.seterr(**self._numpy_errors)
        limit = sys.getrecursionlimit()
        if limit < self._recursion_limit:  # raising it is common, and harmless
            log.side_effect(f"The code leaves the recursion limit lowered to {limit}.")
            sys.setrecursionlimit(self._recursion_limit)
        added = [entry for entry in _error_filters() if entry not in self._error_filters]
        if added:
            log.side_effect("The code leaves warnings turned into errors (warnings.filterwarnings).")
            kept = [entry for entry in warnings.filters if entry not in added]
            warnings.resetwarnings()  # also makes modules forget which filter matched
            cast(list[Any], warnings.filters)[:] = kept
        name, point = self._locale
        if locale.setlocale(locale.LC_ALL) != name:
            if locale.localeconv()["decimal_point"] != point:
                log.side_effect("The code leaves the locale changed: numbers are written differently.")
            else:
                log.notice("The code changes the locale.")
            locale.setlocale(locale.LC_ALL, name)

    def _inspect_environment(self, log: Log) -> None:
        if not self._variables:
            return
        now, before = dict(os.environ), self._environment
        changed = sorted(name for name in self._variables if now.get(name) != before.get(name))
        if not changed:
            return
        log.notice(f"The code changes environment variables ({listing([name[:40] for name in changed])}).")
        for name in changed:
            if name in before:
                os.environ[name] = before[name]
            elif name.startswith(_RUNTIME_VARIABLES):
                del os.environ[name]
        self._environment = dict(os.environ)

    def _inspect_signals(self, log: Log) -> None:
        # By identity: a handler of student code may compare equal to anything.
        changed = [
            name for name, handler in self._handlers.items() if signal.getsignal(getattr(signal, name)) is not handler
        ]
        for name in changed:
            with contextlib.suppress(TypeError, ValueError):  # None: not set from Python; or not the main thread
                signal.signal(getattr(signal, name), self._handlers[name])
        if changed:
            log.notice(f"The code ignores the request to stop ({listing(changed)}).")


def _surrounding_settings() -> list[_Setting]:
    settings = [
        _Setting("the working directory", os.getcwd, os.chdir),
        _Setting("the umask", _umask, os.umask),
        _Setting("the number of threads", torch.get_num_threads, torch.set_num_threads),
        # A line of every training script for GPUs (allow_tf32 is the same); on a CPU it changes nothing here.
        _Setting("float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    ]
    if hasattr(os, "sched_getaffinity"):
        affinity: Callable[[], Any] = lambda: os.sched_getaffinity(0)  # noqa: E731
        settings.append(_Setting("the CPU affinity", affinity, lambda cpus: os.sched_setaffinity(0, cpus)))
    return settings


def _umask() -> int:
    mask = os.umask(0o077)  # the only way to read it is to set it
    os.umask(mask)
    return mask


def _error_filters() -> list[Any]:
    return [entry for entry in warnings.filters if entry[0] == "error"]
