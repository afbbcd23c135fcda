"""The oracle: what a right submission would answer. Lives in the grader alone, never beside student code."""
