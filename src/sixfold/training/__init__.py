"""Training: the step, the loop and everything around them, for any task."""
