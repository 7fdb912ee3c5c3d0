"""The appliance's state as one HTML page: nothing is loaded from elsewhere, and nothing runs in it. PURE."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from html import escape
from typing import Any

from appliance.config.units import show_bytes, show_duration
from appliance.server.admin_types import ConditionAnswer, ModelAnswer, ProblemAnswer, Progress, StatusAnswer

REFRESH_SECONDS = 5
_STYLE = """
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{max-width:75rem;margin:2rem auto;padding:0 1rem}
code,pre{font-family:ui-monospace,monospace}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.5rem 0 0}
.refused{background:#b00020;color:#fff;border-radius:.4rem;padding:.8rem 1rem;margin:1rem 0}
.refused h2{margin:0;font-size:1.1rem}
table{border-collapse:collapse;width:100%;margin:.8rem 0}
th{text-align:left;font-weight:600}
th,td{border-top:1px solid #8883;padding:.3rem .8rem .3rem 0;vertical-align:top;overflow-wrap:anywhere}
.facts th{width:11rem}
.retired{opacity:.6}
.bad{color:#c62828}
.note{display:block;font-size:.85rem;opacity:.8}
"""
_ALARMING = {"Downloaded": False, "Ready": False, "Degraded": True}
"""The status of a condition that needs attention. A model that is not loaded may just not be asked for."""
_SHOWN_ELSEWHERE = frozenset({"event", "time", "problems", "changes"})


def page(status: StatusAnswer) -> bytes:
    """The page, in UTF-8; a browser asks for it again every REFRESH_SECONDS."""
    title = f"appliance {escape(status.version)}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="{REFRESH_SECONDS}">'
        f"<style>{_STYLE}</style></head><body><h1>{title}</h1>{_refused(status)}"
        f'<table class="facts">{_rows(_facts(status))}</table>'
        f"<h2>Models</h2>{_models(status.models)}<h2>Events</h2>{_events(status.recent)}</body></html>"
    ).encode("utf-8", "replace")


def _refused(status: StatusAnswer) -> str:
    """What is wrong with the file, while it is not what runs."""
    last = status.last_reload
    if last.status == "rejected":
        head = f"The deploy file was refused; generation {status.generation} goes on"
    elif not status.file_matches_running:
        head = f"The deploy file is not what runs, which is generation {status.generation}"
    else:
        return ""
    problems = "".join(f"<pre>{escape(_located(problem))}</pre>" for problem in last.problems)
    said = f"<p>{escape(last.message)} ({_time(last.time)})</p>" if last.message else ""
    return f'<section class="refused" role="alert"><h2>{head}</h2>{said}{problems}</section>'


def _located(problem: ProblemAnswer) -> str:
    told = f"{problem.path}: {problem.message}" if problem.path else problem.message
    hint = f"; {problem.hint}" if problem.hint else ""
    return f"{problem.file}:{problem.line}:{problem.column} {problem.severity}[{problem.code}] {told}{hint}"


def _facts(status: StatusAnswer) -> Iterator[tuple[str, str]]:
    memory = status.memory
    yield "file", f"<code>{escape(status.file)}</code>"
    yield "generation", f"{status.generation}, {escape(status.last_reload.status)} {_time(status.last_reload.time)}"
    yield "ready", "yes" if status.ready else _bad(f"no: {'; '.join(status.not_ready)}")
    yield "converged", "yes" if status.convergence.converged else escape("; ".join(status.convergence.missing))
    yield "generating", str(status.in_flight)
    if memory is not None:
        planned, taken, budget, kept = map(
            show_bytes, (memory.planned, memory.taken, memory.budget, memory.kv_reserve)
        )
        yield "memory", f"{planned} planned, {taken} taken, of {budget} ({kept} of it for rows and prefixes)"
    if status.pending_restart:
        yield "needs a restart", _bad(", ".join(status.pending_restart))
    yield "process", f"{status.pid}, since {_time(status.started)}"


def _models(models: Iterable[ModelAnswer]) -> str:
    heads = ("model", "state", "pid", "requests", "waiting", "idle left", "memory", "conditions")
    head = "".join(f"<th>{head}</th>" for head in heads)
    return f"<table><tr>{head}</tr>{''.join(map(_model, models))}</table>"


def _model(model: ModelAnswer) -> str:
    cells = (
        f"<code>{escape(model.name)}</code>{_notes(model.drift)}",
        f"{escape('leaving' if model.retired else model.state)}{_notes(_progress(model))}",
        "" if model.pid is None else str(model.pid),
        str(model.leases),
        f"{model.waiting}{_notes(_waits(model))}",
        "" if model.idle_left is None else escape(show_duration(round(model.idle_left))),
        _memory(model),
        "".join(map(_condition, model.conditions)),
    )
    kind = ' class="retired"' if model.retired else ""
    return f"<tr{kind}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _progress(model: ModelAnswer) -> Iterator[str]:
    for each in (model.load, model.download):
        if each is not None:
            yield _share(each)


def _share(progress: Progress) -> str:
    return f"{progress.phase} {progress.done / progress.total:.0%}" if progress.total else progress.phase


def _waits(model: ModelAnswer) -> Iterator[str]:
    if model.position is not None:
        yield f"#{model.position} in line"
    if model.waits_for:
        yield f"for {model.waits_for}"


def _memory(model: ModelAnswer) -> str:
    notes = [] if model.taken is None else [f"{show_bytes(model.taken)} taken"]
    if model.gauges is not None:
        rows, prefixes = show_bytes(model.gauges.kv_bytes), show_bytes(model.gauges.prefix_bytes)
        notes.append(f"{rows} of answers, {prefixes} of known prompts")
    return f"{show_bytes(model.bytes)}{_notes(notes)}"


def _condition(condition: ConditionAnswer) -> str:
    calm = condition.status is not _ALARMING.get(condition.type)
    said = f"{condition.type}: {condition.reason}"
    shown = escape(said) if calm else _bad(said)
    told = [f"{condition.message}, since {_time(condition.since)}"] if condition.message and not calm else []
    return f"<div>{shown}{_notes(told)}</div>"


def _events(recent: Iterable[dict[str, Any]]) -> str:
    rows = [(_time(event.get("time", 0)), _event(event)) for event in recent]
    return f'<table class="facts">{_rows(rows)}</table>' if rows else "<p>None yet.</p>"


def _event(event: dict[str, Any]) -> str:
    known = (f"{name}={value}" for name, value in event.items() if value and name not in _SHOWN_ELSEWHERE)
    return f"<b>{escape(str(event.get('event', '')))}</b> {escape(' '.join(known))}"


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"<tr><th>{head}</th><td>{cell}</td></tr>" for head, cell in rows)


def _notes(notes: Iterable[str]) -> str:
    return "".join(f'<span class="note">{escape(note)}</span>' for note in notes)


def _bad(text: str) -> str:
    return f'<span class="bad">{escape(text)}</span>'


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
