"""Python's audit events: sees what student code asks of the interpreter, and refuses what is none of its business."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType, FunctionType
from typing import Any

from autograder.probe.watch_callers import Callers, module_of
from autograder.probe.watch_log import Log
from autograder.probe.watch_paths import SECRET_MODULES, Kind, Paths, resolve
from autograder.probe.watch_tally import MAX_FILES, MAX_FORKS, Tally

#: What a handler gets, and the exception with which it refuses (None: go ahead).
Handler = Callable[[str, tuple[Any, ...], FrameType], Exception | None]

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STANDARD = sys.stdlib_module_names
_LAUNCHERS = frozenset({"os", "subprocess", "pty"})
_IMPORTERS = frozenset({"importlib._bootstrap_external", "_frozen_importlib_external"})
#: Device files are no litter.
_DEVICES = "/dev/"
#: Lowering one of these can make the grader's own work in this process fail (RLIMIT_CORE, say, cannot).
_VITAL_LIMITS = (
    "RLIMIT_AS",
    "RLIMIT_CPU",
    "RLIMIT_DATA",
    "RLIMIT_FSIZE",
    "RLIMIT_NOFILE",
    "RLIMIT_NPROC",
    "RLIMIT_STACK",
)
#: Assigning these changes what an existing function or class does, without replacing it.
_INNARDS = frozenset({"__code__", "__defaults__", "__kwdefaults__", "__bases__"})
_LIBRARIES = frozenset({"autograder", "builtins", "numpy", "torch", "unittest"})

_MEMORY_READERS = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")
_STACK_READERS = ("sys._getframe", "sys._current_frames", "sys._current_exceptions")
_TRACERS = ("sys.settrace", "sys.setprofile", "sys.monitoring.register_callback")
_FOREIGN = (
    *("ctypes.dlopen", "ctypes.dlsym", "ctypes.dlsym/handle", "ctypes.call_function", "ctypes.string_at"),
    *("ctypes.wstring_at", "ctypes.cdata", "ctypes.cdata/buffer", "ctypes.addressof", "ctypes.PyObj_FromPtr"),
)
_PROGRAMS = ("os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "pty.spawn", "subprocess.Popen")
#: Events whose arguments are paths: which of them, and whether the last one is made by the call.
_PATH_EVENTS: dict[str, tuple[tuple[int, ...], bool]] = {
    **dict.fromkeys(("os.chmod", "os.chown", "os.remove", "os.rmdir", "os.truncate"), ((0,), False)),
    "os.rename": ((0, 1), False),
    "os.mkdir": ((0,), True),
    **dict.fromkeys(("os.link", "os.symlink"), ((0, 1), True)),
}


def install(callers: Callers, paths: Paths, log: Log, tally: Tally) -> None:
    """Add the hook. It stays until the process ends, and is inherited by its forks: such is sys.addaudithook.

    The hook returns at once for events that are not in its table, never looks at itself, and lets no error of its own
    out: it raises only to refuse.
    """
    handlers = _Handlers(callers, paths, log, tally).table()
    busy: set[int] = set()
    this_thread, caller = threading.get_ident, sys._getframe

    def hook(event: str, args: tuple[Any, ...]) -> None:
        handler = handlers.get(event)
        if handler is None:
            return
        thread = this_thread()
        if thread in busy:
            return
        busy.add(thread)
        refusal = None
        try:
            refusal = handler(event, args, caller(1))
        except Exception:
            return  # a bug of ours, or an interpreter that is shutting down: never the student's fault
        finally:
            busy.discard(thread)
        if refusal is not None:
            raise refusal

    # Python lets nothing trace an audit hook, unless the hook says otherwise. A coverage measurement that is on may.
    hook.__cantrace__ = sys.gettrace() is not None  # type: ignore[attr-defined]
    sys.addaudithook(hook)


class _Handlers:
    """What to do about each event."""

    def __init__(self, callers: Callers, paths: Paths, log: Log, tally: Tally) -> None:
        self._callers, self._paths, self._log, self._tally = callers, paths, log, tally

    def table(self) -> dict[str, Handler]:
        def each(events: Iterable[str], handler: Handler) -> dict[str, Handler]:
            return dict.fromkeys(events, handler)

        return {
            **each(_TRACERS, self._trace),
            **each(_MEMORY_READERS, self._search_memory),
            **each(_STACK_READERS, self._read_stack),
            **each(_FOREIGN, self._foreign),
            **each(_PROGRAMS, self._program),
            **each(_PATH_EVENTS, self._change),
            **each(("os.kill", "os.killpg", "signal.pthread_kill"), self._signal),
            **each(("os.fork", "os.forkpty"), self._fork),
            **each(("os.listdir", "os.scandir"), self._list),
            **each(("resource.setrlimit", "resource.prlimit"), self._limit),
            **each(("socket.bind", "socket.connect", "socket.sendmsg", "socket.sendto"), self._network),
            **each(("os.putenv", "os.unsetenv"), self._environment),
            "socket.getaddrinfo": self._name_lookup,
            "sys.addaudithook": self._hook,
            "object.__setattr__": self._innards,
            "import": self._import,
            "open": self._open,
        }

    # -- the interpreter ----------------------------------------------------------------------------------------------

    def _trace(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        if self._callers.direct(frame, frozenset({"threading"})):
            self._log.tamper(f"The code traces the grader while it runs ({event}).")

    def _search_memory(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        if self._callers.direct(frame):
            self._log.tamper(f"The code searches the interpreter's memory for objects that are not its own ({event}).")

    def _read_stack(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        if self._callers.direct(frame):
            self._log.notice(f"The code looks at the interpreter's call stack ({event}).")

    def _foreign(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        if self._callers.direct(frame, frozenset({"ctypes"})):
            self._log.tamper(f"The code reaches into the interpreter's memory with ctypes ({event}).")

    def _hook(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        if not self._callers.direct(frame):
            return None
        self._log.tamper("The code installs an audit hook (sys.addaudithook).")
        return RuntimeError("not while grading")  # by convention: the new hook is not added, and nothing is raised

    def _innards(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        target, name = args[0], args[1]
        if name not in _INNARDS or not self._callers.direct(frame):
            return None
        if type(target) is FunctionType:
            if self._callers.made(target):
                return None
            label = target.__name__
        else:
            # Read through type itself: a metaclass of the submission's may answer anything.
            if type.__getattribute__(target, "__module__").partition(".")[0] not in _LIBRARIES:
                return None
            label = type.__getattribute__(target, "__name__")
        self._log.tamper(f"The code changes the inside of {label} ({name}).")
        return _refused(f"changing {label}.{name}")

    # -- other processes ----------------------------------------------------------------------------------------------

    def _signal(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        own = threading.get_ident() if event == "signal.pthread_kill" else os.getpid()
        if args[0] == own or not self._callers.direct(frame, frozenset({"os"})):
            return None
        self._log.tamper(f"The code sends signals to other processes ({event}).")
        return _refused("sending signals")

    def _program(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        if not self._callers.blame(frame):
            return None
        if self._callers.direct(frame, _LAUNCHERS):
            self._log.tamper(f"The code starts another program ({event}).")
        else:
            self._log.notice(f"A library that the code uses tried to start another program ({event}).")
        return _refused("starting programs")

    def _fork(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        if not self._callers.blame(frame):
            return None
        if self._tally.fork() <= MAX_FORKS:
            self._log.notice("The code starts background processes.")
            return None
        self._log.tamper(f"The code starts many processes (more than {MAX_FORKS}).")
        return _refused("starting more processes")

    def _limit(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        if not self._callers.direct(frame):
            return
        import resource  # not on Windows, where these events do not exist either

        which, limits = args[-2], args[-1]
        vital = which in {getattr(resource, name) for name in _VITAL_LIMITS if hasattr(resource, name)}
        if vital and not _at_least(limits, resource.getrlimit(which)[0], resource.RLIM_INFINITY):
            self._log.tamper("The code lowers the limits of the process that grades it.")
        elif limits:
            self._log.notice("The code changes the limits of its process.")

    def _environment(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        if self._callers.direct(frame, _STANDARD):
            self._tally.variables.add(os.fsdecode(args[0]))

    # -- network ------------------------------------------------------------------------------------------------------

    def _network(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        address = args[1]
        if address is None or not self._callers.blame(frame):
            return None
        if self._callers.direct(frame, frozenset({"socket"})):
            self._log.tamper(f"The code opens a network connection ({event}).")
            return _refused("using the network")
        # A text address is a socket between processes of this machine: multiprocessing hands tensors over by it.
        return None if isinstance(address, str | bytes) else self._no_network()

    def _name_lookup(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        # Looking up a name oneself is harmless; a library that is about to connect is spared the wait for a time-out.
        if not self._callers.blame(frame) or self._callers.direct(frame, frozenset({"socket"})):
            return None
        return self._no_network()

    def _no_network(self) -> Exception:
        self._log.notice("The code tries to download something; there is no network while grading.")
        return _refused("using the network")

    # -- files --------------------------------------------------------------------------------------------------------

    def _import(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        name = args[0]
        if not any(name == secret or name.startswith(secret + ".") for secret in SECRET_MODULES):
            return None
        return self._off_limits("grader", self._callers.blame(frame))

    def _open(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        blame = self._callers.blame(frame)
        path = resolve(args[0]) if blame else None
        if path is None:
            return None
        if args[1] is None and not path.startswith(_DEVICES) and self._paths.is_strange_folder(path):
            self._log.tamper("The code opens folders of the machine by their descriptors.")
            return _refused("this folder")
        writing = bool(args[2] & _WRITING)
        kind = self._paths.kind(path, writing and module_of(frame) not in _IMPORTERS)
        if kind:
            return self._off_limits(kind, blame)
        if writing and module_of(frame) not in _IMPORTERS and not path.startswith(_DEVICES):
            return self._made_file(path, frame)
        return None

    def _list(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        blame = self._callers.blame(frame)
        path = resolve(args[0]) if blame else None
        kind = self._paths.kind(path, False) if path else ""
        return self._off_limits(kind, blame) if kind else None

    def _change(self, event: str, args: tuple[Any, ...], frame: FrameType) -> Exception | None:
        blame = self._callers.blame(frame)
        if not blame or module_of(frame) in _IMPORTERS:
            return None
        which, creates = _PATH_EVENTS[event]
        path = None
        for index in which:
            path = resolve(args[index])
            kind = self._paths.kind(path, True) if path else ""
            if kind:
                return self._off_limits(kind, blame)
        return self._made_file(path, frame) if creates and path else None

    def _made_file(self, path: str, frame: FrameType) -> Exception | None:
        if self._tally.file(path) <= MAX_FILES:
            if self._callers.direct(frame, _STANDARD):  # and not a library that fills its cache
                self._log.notice("The code writes files when it is imported or called.")
            return None
        self._log.tamper(f"The code litters the working directory (more than {MAX_FILES} files).")
        return _refused("writing more files")

    def _off_limits(self, kind: Kind, blame: str) -> Exception | None:
        if not blame:
            return None
        if blame == "kit":  # an honest `from autograder... import` in a notebook pulls the rest in by itself
            self._log.notice("The code imports the workshop's own package, which is not available while grading.")
        elif kind == "process":
            self._log.tamper("The code tries to read the memory or the environment of a process (/proc).")
        elif kind == "installed":
            self._log.tamper("The code tries to change installed packages.")
        else:
            self._log.tamper("The code tries to read the grader's files.")
        return _refused("this file")


def _at_least(limits: Any, now: int, infinity: int) -> bool:
    """Whether a (soft, hard) pair given by student code keeps the soft limit `now` or raises it."""
    if limits is None:
        return True
    if type(limits) not in (tuple, list) or len(limits) != 2 or type(limits[0]) is not int:
        return False
    soft = limits[0]
    return bool(soft == infinity or (now != infinity and soft >= now))


def _refused(what: str) -> PermissionError:
    return PermissionError(f"{what} is not allowed while grading")
