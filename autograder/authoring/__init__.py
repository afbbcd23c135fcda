"""What the course's authors do: stubs and notebooks from the solutions, and the kit that students get."""
