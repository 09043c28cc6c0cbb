"""Training: the step, the loop and what surrounds them. It knows a task, never a particular one."""
