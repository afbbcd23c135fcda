"""`workshop watch`: one screen that answers every save. `watch_folder` is all that the command needs."""

from autograder.watch.loop import watch_folder

__all__ = ["watch_folder"]
