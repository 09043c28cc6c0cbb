"""What a model did, as data and as a self-contained HTML page.

explanation = explain(sixfold.load("translator"), "A man is sleeping.")
explanation = explain_continuation(sixfold.load("writer"), "Once upon a time")
Path("page.html").write_text(render(explanation), encoding="utf-8")
"""

from sixfold.explain.head_roles import HeadRoles
from sixfold.explain.html_page import render, render_training
from sixfold.explain.text import TextExplanation, explain_continuation, explain_text
from sixfold.explain.text_heads import measure_text_heads, sample_texts
from sixfold.explain.training_history import TrainingHistory, read_training
from sixfold.explain.translation import Explanation, explain
from sixfold.explain.translation_heads import measure_head_roles, sample_sentences

__all__ = [
    "Explanation",
    "HeadRoles",
    "TextExplanation",
    "TrainingHistory",
    "explain",
    "explain_continuation",
    "explain_text",
    "measure_head_roles",
    "measure_text_heads",
    "read_training",
    "render",
    "render_training",
    "sample_sentences",
    "sample_texts",
]
