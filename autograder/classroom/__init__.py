"""Classroom: many submissions in, a report for each out."""

from autograder.classroom.local import failure_report, grade_class, usable_cores

__all__ = ["failure_report", "grade_class", "usable_cores"]
