"""What `/metrics` reads off a running appliance each time it is asked: values that somebody else owns."""

from collections.abc import Callable, Iterable

from appliance.control.status import ModelStatus
from appliance.server.context import Context
from appliance.server.metrics import Labels, Reading, Sample
from appliance.vocab.gauges import Gauges

_WHOLE: tuple[tuple[str, str, Callable[[Context], float]], ...] = (
    ("generations_running", "Generations in flight.", lambda context: len(context.in_flight)),
    ("config_generation", "Number of the deployment that is running.", lambda context: context.running.generation),
    ("config_last_reload_success", "1 unless the file was refused when it was last read.",
     lambda context: context.running.last.status != "rejected"),
    ("config_file_matches_running",
     "0 when the file on disk is not what is running: refused, rolled back, or not watched.",
     lambda context: context.running.matches),
)  # fmt: skip
"""One value each."""

_MODELS: tuple[tuple[str, str, Labels, Callable[[ModelStatus], Iterable[Sample]]], ...] = (
    ("model_state", "1 for the state each model is in.", ("state",), lambda model: [((model.state.value,), 1)]),
    ("model_waiting", "Requests that wait for this model to be loaded.", (), lambda model: [((), model.waiting)]),
    ("model_leases", "Requests that hold this model's engine.", (), lambda model: [((), model.leases)]),
    ("model_memory_bytes", "Memory the engine of this model takes, when last measured.", (),
     lambda model: [] if model.taken is None else [((), model.taken)]),
    ("model_degraded", "Whether this model serves less than its deploy file asks for, and in one word why.",
     ("reason",), lambda model: [((c.reason,), 1) for c in model.conditions if c.name == "Degraded" and c.holds]),
)  # fmt: skip
"""Values of each model; their labels stand behind its name."""

_GAUGES: tuple[tuple[str, str, Callable[[Gauges], float]], ...] = (
    ("rows_running", "Answers that the engine of this model computes together.", lambda told: told.running),
    ("rows_waiting", "Requests that wait in the engine of this model.", lambda told: told.waiting),
    ("kv_bytes", "Bytes of the keys and values of the answers that run.", lambda told: told.kv_bytes),
    ("prefix_bytes", "Bytes of the known prompts kept in memory.", lambda told: told.prefix_bytes),
    ("adapter_bytes", "Bytes of the adapters in memory.", lambda told: told.adapter_bytes),
)
"""What a loaded engine tells of itself every few seconds; models that share one show the same."""

_ENGINES = {
    "loads": "Engines that were loaded.",
    "unloads": "Engines that were stopped.",
    "deaths": "Engines that ended by themselves.",
    "load_failures": "Loads that failed.",
}


def readings(context: Context) -> list[Reading]:
    """In the order they are shown."""
    return [
        *(_whole(context, *row) for row in _WHOLE),
        *(_model(context, *row) for row in _MODELS),
        *(_gauge(context, *row) for row in _GAUGES),
        _peers(context),
        *(_engines(context, kind, text) for kind, text in _ENGINES.items()),
        Reading("appliance_build_info", "The version that runs.", ("version",), lambda: [((context.version,), 1)]),
    ]


def _whole(context: Context, name: str, text: str, value: Callable[[Context], float]) -> Reading:
    return Reading(f"appliance_{name}", text, (), lambda: [((), float(value(context)))])


def _model(
    context: Context, name: str, text: str, labels: Labels, values: Callable[[ModelStatus], Iterable[Sample]]
) -> Reading:
    def read() -> Iterable[Sample]:
        present = [status for status in context.supervisor.status() if not status.retired]
        return [((status.name, *more), value) for status in present for more, value in values(status)]

    return Reading(f"appliance_{name}", text, ("model", *labels), read)


def _gauge(context: Context, name: str, text: str, value: Callable[[Gauges], float]) -> Reading:
    def values(model: ModelStatus) -> list[Sample]:
        return [] if model.gauges is None else [((), float(value(model.gauges)))]

    return _model(context, f"model_{name}", text, (), values)


def _peers(context: Context) -> Reading:
    def read() -> Iterable[Sample]:
        down = context.traffic.peers.down()
        return [((name,), float(name not in down)) for name in context.running.deployment.routing.peers]

    return Reading("appliance_peer_up", "Whether this peer is well, as far as is known.", ("peer",), read)


def _engines(context: Context, kind: str, text: str) -> Reading:
    def read() -> Iterable[Sample]:
        return [((model,), count) for (what, model), count in context.supervisor.counts.items() if what == kind]

    return Reading(f"appliance_engine_{kind}_total", text, ("model",), read, "counter")
