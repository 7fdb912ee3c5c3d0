"""A request that another server answers: what that server is asked, and what it is not told."""

from collections.abc import AsyncGenerator

from appliance.config.deployment import Deployment, Rewrite, Target
from appliance.config.peered import split
from appliance.config.routing import Peer
from appliance.config.sampling import Decided
from appliance.control.peer_answer import Envelope
from appliance.control.peer_answer import generate as generate_there
from appliance.control.peers import Peers
from appliance.control.timing import Deadlines, Indexed
from appliance.errors import Unavailable
from appliance.protocols.peers.kinds import KINDS
from appliance.protocols.peers.question import Question
from appliance.server.caller import Caller
from appliance.vocab.request import GenerateRequest

HOPS = "x-appliance-hops"
"""Over how many appliances a request came."""
MOST_HOPS = 4


def peer_of(deployment: Deployment, target: Target) -> Peer:
    """The server that has the target's model."""
    found = split(deployment, target.model.name)
    assert found is not None
    return found[0]


def questions(target: Target, asked: GenerateRequest, decided: Decided) -> tuple[Question, ...]:
    """One for each prompt."""
    model, sampling, names = target.model.source.ref, decided.sampling, decided.given_names
    return tuple(Question(model, asked, sampling, names, prompt) for prompt in asked.prompts or (None,))


def left_out(deployment: Deployment, target: Target, asked: GenerateRequest, decided: Decided) -> tuple[Rewrite, ...]:
    """What the client said and the peer is not told. Raises Unsupported for what cannot be left out."""
    ask = KINDS[peer_of(deployment, target).api].ask
    names = ask(questions(target, asked, decided)[0]).left_out
    given = asked.sampling.given()
    by_layers = (decided.given_names - given.keys()) | (decided.template.keys() - asked.template.keys())
    own = (name for name in names if name not in by_layers)
    return tuple(Rewrite(name, "stripped", given.get(name, "given"), None) for name in own)


def generate(
    peers: Peers,
    deployment: Deployment,
    target: Target,
    asked: GenerateRequest,
    decided: Decided,
    caller: Caller,
    estimate: int,
    deadlines: Deadlines,
) -> AsyncGenerator[Indexed, None]:
    """The events of the peer's answers. Raises Unavailable for a request that goes round in circles."""
    hops = caller.headers.get(HOPS, "0")
    over = int(hops) if hops.isdecimal() and len(hops) < 4 else 0
    if over >= MOST_HOPS:
        raise Unavailable(f"this request came over {over} appliances already: do they name each other?")
    envelope = Envelope(estimate, {HOPS: str(over + 1), "x-request-id": caller.id})
    return generate_there(
        peers,
        peer_of(deployment, target),
        questions(target, asked, decided),
        n=asked.n,
        envelope=envelope,
        deadlines=deadlines,
    )
