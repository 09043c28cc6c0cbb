"""What a model did with a sentence, as data and as one HTML page that needs nothing but a browser.

explanation = explain(sixfold.load("model"), "A man is sleeping.")
Path("page.html").write_text(render(explanation), encoding="utf-8")
"""

from sixfold.explain.explanation import Explanation, explain
from sixfold.explain.head_roles import Habits, find_habits, sample_sentences
from sixfold.explain.html_page import render, render_training
from sixfold.explain.training_history import Training, read_training

__all__ = [
    "Explanation",
    "Habits",
    "Training",
    "explain",
    "find_habits",
    "read_training",
    "render",
    "render_training",
    "sample_sentences",
]
