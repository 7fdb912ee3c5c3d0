"""What loading one model comes to: every number of the decision, and the decision. PURE."""

from dataclasses import dataclass

from appliance.control.demand import Place
from appliance.control.eviction import CannotFit, Policy, plan
from appliance.control.footprint import Footprint


@dataclass(frozen=True, slots=True)
class Ledger:
    """Bytes and tokens. `measured` is what the process took when it was loaded last, `need` what is planned for it.

    `state` is what every row takes before its first token; `need` has that of all rows. `token` is what each token
    of a row costs, `row` what the longest row of `context` tokens does, `rows` as many of them as run together; those
    are taken from what is left of `budget`. `room` is what models may take of it, `spare` what the blank engine does.
    `refusal` says why it never fits, empty where it does.
    """

    base: int
    weights: int
    activations: int
    adapters: int
    measured: int | None
    need: int
    attention: str
    state: int
    token: int
    context: int
    concurrency: int
    row: int
    rows: int
    budget: int
    kv_reserve: int
    spare: int
    room: int
    left: int
    refusal: str


def ledger(
    name: str, footprint: Footprint, place: Place, policy: Policy, *, context: int, concurrency: int
) -> Ledger:
    """For a model alone in memory."""
    row = footprint.row.values(context) * footprint.width + footprint.state
    decision = plan(name, place.need, [], policy)
    return Ledger(
        base=footprint.base,
        weights=footprint.weights,
        activations=footprint.activations,
        adapters=place.adapters,
        measured=place.measured,
        need=place.need,
        attention=footprint.row.kind,
        state=footprint.state,
        token=footprint.token,
        context=context,
        concurrency=concurrency,
        row=row,
        rows=row * concurrency,
        budget=policy.budget,
        kv_reserve=policy.reserve,
        spare=policy.spare,
        room=policy.room,
        left=max(0, policy.budget - policy.spare - place.need),
        refusal=decision.message if isinstance(decision, CannotFit) else "",
    )
