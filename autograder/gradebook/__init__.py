"""nbgrader's side of a class: its cells, its course folder, its gradebook, and our pages beside its own."""
