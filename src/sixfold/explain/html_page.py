"""One HTML file that needs nothing else: the ES modules in `browser/`, their style, and the data.

The modules are joined into one script, in the order they need each other, and the page's policy allows that script
by its digest and no other. Data stands in a block that is never executed, and reaches the page as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import asdict
from functools import cache
from importlib.resources import files

from sixfold.explain.explanation import Explanation
from sixfold.explain.training_history import Training

IMPORT = re.compile(r'^import (\{[^}]*\}) from "\./(\w+)\.js";', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)

TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws its pictures with JavaScript, which is switched off.</noscript>
<script type="application/json" id="data">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def render(explanation: Explanation) -> str:
    """Return the page that shows an explanation."""
    return fill("Sixfold explains a translation", "explain", asdict(explanation), "'none'")


def render_training(training: Training, is_live: bool = False) -> str:
    """Return the page that shows a training; a live one asks its server for news."""
    content = {**asdict(training), "is_live": is_live}
    return fill("Sixfold training", "training", content, "'self'" if is_live else "'none'")


def fill(title: str, module: str, content: dict[str, object], may_ask: str) -> str:
    """Return a page with a script, its style and its data."""
    script, style = joined(module), asset("page.css")
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; img-src data: blob:; "
        f"connect-src {may_ask}; base-uri 'none'; form-action 'none'"
    )
    return TEMPLATE.format(policy=policy, title=title, style=style, data=embedded(content), script=script)


def embedded(content: dict[str, object]) -> str:
    """Return JSON in ASCII that no HTML parser can take for markup."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def digest(content: str) -> str:
    """Return the name of an inline script or style in a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


@cache
def joined(module: str) -> str:
    """Return a module and all it needs as one script."""
    script = "\n".join(map(enclosed, needed(module)))
    assert "</script" not in script
    return script


def needed(module: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the modules that a module needs and itself, each after those it needs."""
    for _, name in IMPORT.findall(asset(f"{module}.js")):
        if name not in before:
            before = needed(name, before)
    return (*before, module)


def enclosed(module: str) -> str:
    """Return a module as an object of what it exports; whatever else it names stays its own."""
    content = asset(f"{module}.js")
    names = ", ".join(name for _, name in EXPORT.findall(content))
    body = EXPORT.sub(r"\1", IMPORT.sub(r"const \1 = module_\2;", content))
    return f"const module_{module} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();"


@cache
def asset(name: str) -> str:
    """Return a file of `browser/`."""
    return files("sixfold.explain").joinpath("browser", name).read_text(encoding="utf-8")
