"""Everything about the appliance as it is now: what `appliance status` and the dashboard show."""

import os

from appliance.control.conditions import missing
from appliance.control.observer import Observer
from appliance.server import admin_types as types
from appliance.server.context import Context


def status(context: Context) -> types.StatusAnswer:
    """The one document; brings `context.observer` up to date."""
    context.observer.look()
    running, spare = context.running, context.supervisor.spare()
    reasons = ["the appliance is shutting down"] if context.draining else list(context.supervisor.readiness())
    return types.StatusAnswer(
        version=context.version,
        pid=os.getpid(),
        started=context.started,
        file=str(context.file),
        socket=str(context.socket),
        generation=running.generation,
        file_matches_running=running.matches,
        last_reload=types.reload(running.last),
        convergence=convergence(context.observer),
        ready=not reasons,
        not_ready=reasons,
        draining=context.draining,
        in_flight=len(context.in_flight),
        pending_restart=list(running.pending_restart),
        models=models(context.observer),
        spare=types.spare(spare),
        memory=types.memory(running.deployment, context.observer.models, spare),
        recent=list(reversed(context.events.recent)),
    )


def convergence(observer: Observer) -> types.Convergence:
    """As of the observer's last look, as is all below."""
    left = missing(observer.models)
    final = bool(left) and all(each.final for each in left)
    return types.Convergence(not left, [str(each) for each in left], final)


def models(observer: Observer) -> list[types.ModelAnswer]:
    standings = observer.standings
    return [types.model(m, () if m.retired else standings[m.name]) for m in observer.models]
