"""How a model translated a sentence, as data and as a self-contained HTML page.

explanation = explain(sixfold.load("model"), "A man is sleeping.")
Path("page.html").write_text(render(explanation), encoding="utf-8")
"""

from sixfold.explain.explanation import Explanation, explain
from sixfold.explain.head_roles import HeadRoles, measure_head_roles, sample_sentences
from sixfold.explain.html_page import render, render_training
from sixfold.explain.training_history import TrainingHistory, read_training

__all__ = [
    "Explanation",
    "HeadRoles",
    "TrainingHistory",
    "explain",
    "measure_head_roles",
    "read_training",
    "render",
    "render_training",
    "sample_sentences",
]
