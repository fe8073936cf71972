"""Reference pages, generated from the code: configuration, commands, metrics, the notebook."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from connectors.artifacts.columns import DESCRIPTIONS
from flows.catalog import find_flow, flow_names
from flows.config.environment import PREFIX, Environment
from flows.config.form import with_rare

Schema = Mapping[str, Any]
LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def configuration() -> str:
    """Return the page of all configuration keys, one section per flow; groups of several flows appear once."""
    parts = [
        "# Configuration",
        "Every key of a configuration file, with its type, default and limits. `wasp schema FLOW` prints the JSON "
        "schema. A group that several flows share is listed once, under its name. Every file may also name its `flow` "
        "and a base in `extends`.",
    ]
    parts += ["## Environment variables", f"{Environment.__doc__}", _variables()]
    groups: dict[str, Schema] = {}
    for name in flow_names():
        schema = with_rare(find_flow(name).config.model_json_schema())
        parts += [f"## {name}", _keys(schema, schema["$defs"])]
        for group, body in schema["$defs"].items():
            groups.setdefault(group, body | {"$defs": schema["$defs"]})
    parts.append("## Groups")
    for group in sorted(groups):
        if groups[group].get("properties"):
            about, keys = (
                groups[group].get("description", ""),
                _keys(groups[group], groups[group]["$defs"]),
            )
            parts += [f"### {group}", _cell(about), keys]
    return "\n\n".join(parts) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _variables() -> str:
    rows = (
        (f"`{PREFIX}{name.upper()}`", f"{field.description}")
        for name, field in Environment.model_fields.items()
    )
    return _table(("variable", "description"), rows)


def _keys(schema: Schema, groups: Mapping[str, Schema]) -> str:
    required, rows = set(schema.get("required", ())), []
    for name, field in schema["properties"].items():
        default = "required" if name in required else f"`{_shown(field.get('default'))}`"
        about = field.get("description") or _group_of(field, groups).get("description", "")
        rows.append((f"`{name}`", _type(field), default, _cell(about)))
    return _table(("key", "type", "default", "description"), rows)


def _type(field: Schema) -> str:
    if "$ref" in field:
        group = field["$ref"].rpartition("/")[2]
        return f"[{group}](#{group.lower()})"
    for choice in ("anyOf", "allOf", "oneOf"):
        if choice in field:
            return " or ".join(dict.fromkeys(_type(part) for part in field[choice]))
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    limits = [f"{sign} {field[name]:g}" for name, sign in LIMITS.items() if name in field]
    kind = {"null": "empty", "object": "group"}.get(field.get("type", ""), field.get("type", "any"))
    return " ".join([kind, ", ".join(limits)]).strip()


def _group_of(field: Schema, groups: Mapping[str, Schema]) -> Schema:
    choices = [field, *field.get("anyOf", ()), *field.get("allOf", ())]
    names = [choice["$ref"].rpartition("/")[2] for choice in choices if "$ref" in choice]
    return groups.get(names[0], {}) if names else {}


def _shown(value: Any) -> str:
    if isinstance(value, dict) and value:
        return "see group"
    text = (
        "empty"
        if value in (None, "", [], {})
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )
    return text if len(text) <= 60 else f"{text[:57]}..."


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def commands() -> str:
    """Return the page of all commands with arguments and options."""
    import typer.cli

    from flows.cli.main import app

    root = typer.main.get_command(app)
    context = root.make_context("wasp", [], resilient_parsing=True)
    title, _, rest = typer.cli.get_docs_for_click(
        obj=root, ctx=context, name="wasp", title="Commands"
    ).partition("\n")
    about = (
        "Every command takes `--json`: the last line of standard output is then one object. Exit codes are in the "
        "[FAQ](../faq.md#exit-codes)."
    )
    return f"{title}\n\n{about}\n{rest}"


def python() -> str:
    """Return the directive that inserts the docstrings of the Python interface."""
    from wasp import __all__ as names

    members = ", ".join(names)
    return f"::: wasp\n    options:\n      members: [{members}]\n"


def columns() -> str:
    """Return a table of the columns of all Parquet files."""
    return _table(
        ("column", "content"), ((f"`{name}`", _cell(text)) for name, text in DESCRIPTIONS.items())
    )


def metrics() -> str:
    """Return the page of the registered metrics."""
    from tasks.metrics.registry import all_metrics

    about = (
        "Metrics of a run, by their name in `--json`, MLflow (`texts/NAME`, `student/NAME`) and comparisons. "
        "Packages add metrics by the entry point `wasp.metrics`."
    )
    better = {True: "higher", False: "lower", None: ""}
    rows = [
        (
            f"`{metric.name}`",
            _cell(metric.title),
            better[metric.higher_is_better],
            metric.needs or "nothing",
        )
        for metric in all_metrics()
    ]
    return f"# Metrics\n{about}\n\n{_table(('name', 'title', 'better', 'needs'), rows)}\n"


def notebook(path: Path) -> str:
    """Return a notebook of `# %%` cells as a page."""
    parts = []
    for cell in path.read_text(encoding="utf-8").split("# %%")[1:]:
        head, _, body = cell.partition("\n")
        if "[markdown]" in head:
            parts.append(re.sub(r"^# ?", "", body, flags=re.M).strip())
        else:
            parts.append(f"```python\n{body.strip()}\n```")
    return "\n\n".join(parts) + "\n"
