"""What the course's authors do: build the kit that students get. None of this is in that kit."""
