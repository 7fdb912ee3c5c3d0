"""A thread that prepares what comes in, so that no template or long text ever delays a step."""

from typing import NoReturn

from appliance import log
from appliance.engine.link import Link
from appliance.engine.prepare import Preparer
from appliance.errors import ApplianceError, EngineFault
from appliance.text.probe import probe
from appliance.vocab.event import Event, Failed, Finished, Started, Usage
from appliance.vocab.spec import Submission
from appliance.wire.frames import Count, Counted, Events, Probe, Probed, SequenceEvents


def run_preparation(preparer: Preparer, link: Link) -> NoReturn:
    """One preparation thread: take submissions in order, deliver sequences or say why not."""
    while True:
        order, asked = link.submissions.get()
        match asked:
            case Probe():
                link.outbox.put(Probed(asked.nonce, _mismatches(preparer, asked)))
            case Count():
                link.outbox.put(_counted(preparer, asked))
            case Submission():
                _prepare(preparer, link, order, asked)


def _prepare(preparer: Preparer, link: Link, order: int, submission: Submission) -> None:
    """Nothing of the sequence is kept here: an adapter stays in memory for as long as any has it."""
    id = submission.id
    if not link.inbox.wanted(id):
        _withdraw(link, id, Finished("cancelled", Usage(0, 0)))
        return
    try:
        sequence = preparer.prepare(submission, order)
        ended = sequence.pipeline.begin(submission.emitted)
    except ApplianceError as error:
        _withdraw(link, id, Failed(error.code, error.message, error.param))
        return
    except Exception:  # noqa: BLE001 - request edge: what a tokenizer or template raises fails this request only
        log.get().exception("engine.prepare_failed", sequence=id)
        _withdraw(link, id, Failed(EngineFault.code, "the prompt could not be prepared; the log says why"))
        return
    pipeline = sequence.pipeline
    if ended:
        _withdraw(link, id, Started(pipeline.prompt_tokens, 0), *ended)
    elif not link.inbox.deliver(sequence):
        _say(link, id, *pipeline.cancel())


def _mismatches(preparer: Preparer, asked: Probe) -> dict[str, str]:
    """What of the template and the dialects does not agree; nothing where there is no template to ask."""
    renderer = preparer.tokenizer.renderer
    if renderer is None or (asked.template or renderer.own) is None:
        return {}
    try:
        found = probe(renderer, asked.tools, asked.reasoning, asked.kwargs, template=asked.template)
    except Exception:  # noqa: BLE001 - request edge, as below
        log.get().exception("engine.probe_failed", nonce=asked.nonce)
        return {}
    return {mismatch.what: mismatch.message for mismatch in found}


def _counted(preparer: Preparer, asked: Count) -> Counted:
    try:
        return preparer.count(asked)
    except ApplianceError as error:
        failed = Failed(error.code, error.message, error.param)
    except Exception:  # noqa: BLE001 - request edge, as below
        log.get().exception("engine.count_failed", nonce=asked.nonce)
        failed = Failed(EngineFault.code, "the prompt could not be prepared; the log says why")
    return Counted(asked.nonce, 0, failed=failed)


def _withdraw(link: Link, id: int, *events: Event) -> None:
    link.inbox.withdraw(id)
    _say(link, id, *events)


def _say(link: Link, id: int, *events: Event) -> None:
    link.outbox.put(Events(0, (SequenceEvents(id, (), events),)))
