"""The life of an engine process: hello, load, serve, end."""

import ctypes
import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

from msgspec import structs

from appliance import log
from appliance.engine.adapter import Adapters
from appliance.engine.backend import Backend
from appliance.engine.constraint import Grammars
from appliance.engine.disk_tier import DiskTier
from appliance.engine.inbox import Arrival, Farewell, Inbox
from appliance.engine.link import Link
from appliance.engine.loop import Loop
from appliance.engine.outbox import Outbox
from appliance.engine.prefix_cache import PrefixCache
from appliance.engine.preparation import run_preparation
from appliance.engine.prepare import Preparer
from appliance.engine.room import Room
from appliance.engine.scheduler import Scheduler
from appliance.engine.speculation import Speculation
from appliance.engine.warming import Warmer
from appliance.errors import BadRequest, LoadFailed
from appliance.vocab.spec import ModelInfo
from appliance.wire.frames import VERSION, Hello, HelloBack, LoadError, Progress, Ready, Warm

BACKENDS = {"mlx": "appliance.engine.mlx.backend:MlxBackend", "fake": "appliance.engine.fake:FakeBackend"}
"""Imported by name, so that only an engine that needs them pays for a backend's libraries."""

EXIT_OK, EXIT_LOAD, EXIT_FAULT = 0, 1, 70
NICENESS = 5
PREPARATION_THREADS = 2
_FLUSH_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(link_fd: int, backend: str | None = None) -> NoReturn:
    """Serve the socket of this descriptor until it is closed. With `backend` import that before there is a model."""
    # Ctrl-C on the terminal reaches the whole group, but ending is the server's to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _end_with_the_server()
    _step_back()
    link_socket = socket.socket(fileno=link_fd)
    link_socket.setblocking(True)
    outbox = Outbox(link_socket, on_dead=_end)
    link = Link(link_socket, outbox, Inbox(), die=_end)
    outbox.put(HelloBack(VERSION, os.getpid()))
    threading.Thread(target=link.read, name="reader", daemon=True).start()
    try:
        if backend is not None:
            _import(backend)
            outbox.put(Warm())
        _serve(link, link.hellos.get())
    except LoadFailed as error:
        log.get().error("engine.load_failed", reason=error.message, permanent=error.permanent)
        outbox.put(LoadError(error.message, error.permanent))
        outbox.flush(_FLUSH_SECONDS)
        _exit(EXIT_LOAD)
    except Exception:  # noqa: BLE001 - the engine loop's edge: what is not understood must not go on
        log.get().exception("engine.failed")
        outbox.flush(_FLUSH_SECONDS)  # tokens of steps before it are their clients'
        _exit(EXIT_FAULT)


def _serve(link: Link, hello: Hello) -> NoReturn:
    if hello.version != VERSION:
        raise LoadFailed(
            f"the server speaks version {hello.version} of the engine protocol, this engine version {VERSION}:"
            " both must come from one installation; restart the appliance",
            permanent=True,
        )
    if hello.settings.log is not None:
        log.configure(*hello.settings.log)
    backend = _import(hello.spec.backend)()
    info, tokenizer = backend.load(hello.spec, hello.settings, lambda *at: link.outbox.put(Progress(*at)))
    tier = DiskTier(None if hello.spec.tokenizer_only else backend.freezer(), link.inbox.post)
    tier.configure(hello.settings.disk)
    link.die = lambda reason: _part(reason, link.inbox, tier)
    scheduler = Scheduler(
        hello.settings,
        info.kv_bytes_per_token,
        PrefixCache(hello.settings.prefix_bytes, tier),
        Speculation(hello.spec.speculative, able=info.trims),
        room=Room.of(info),
        trims=info.trims,
    )
    grammars = Grammars(tokenizer.tokenizer_json, info.vocab_size, tokenizer.eos_ids)
    adapters = Adapters({} if hello.spec.tokenizer_only else backend.targets())
    info = _with_notes(info, adapters, () if hello.spec.tokenizer_only else hello.settings.adapters)
    preparer = Preparer(
        tokenizer,
        info.vocab_size,
        lambda: min(info.context, scheduler.context),
        grammars,
        adapters,
        info.trims,
        hello.spec.speculative is not None,
    )
    warmer = Warmer(preparer.tokens, tokenizer, preparer.context, lambda sequence: link.inbox.post(Arrival(sequence)))
    loop = Loop(backend, scheduler, link.outbox.put, tier, warmer.warm)
    link.pong = loop.pong
    for _ in range(PREPARATION_THREADS):
        threading.Thread(target=run_preparation, args=(preparer, link), name="prepare", daemon=True).start()
    warmer.delivered()
    _tell_ready(link, hello, info)
    loop.run(link.inbox)


def _with_notes(info: ModelInfo, adapters: Adapters, directories: Sequence[str]) -> ModelInfo:
    """What is wrong with adapters that requests may ask for: those requests fail, the model serves all others."""
    unfit = []
    for directory in directories:
        try:
            adapters.find(directory)
        except BadRequest as error:
            log.get().error("engine.adapter_unfit", reason=error.message)
            unfit.append(error.message)
    return structs.replace(info, notes=(*info.notes, *unfit))


def _tell_ready(link: Link, hello: Hello, info: ModelInfo) -> None:
    link.outbox.put(Ready(info))
    log.get().info("engine.ready", model=hello.model, seconds=round(info.load_seconds, 3), dtype=info.dtype)


def _import(backend: str) -> Callable[[], Backend]:
    module, _, attribute = BACKENDS[backend].partition(":")
    made: Callable[[], Backend] = getattr(importlib.import_module(module), attribute)
    return made


def _end_with_the_server() -> None:
    """On Linux have the kernel end an engine whose server is gone, for one that is stopped reads no end of file."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _step_back() -> None:
    """On Linux run niced, so that the server answers beside an engine that uses every core. Threads that libraries
    started before main (a preloaded BLAS) have a niceness of their own."""
    if sys.platform != "linux":
        return
    for thread in os.listdir("/proc/self/task"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, int(thread), NICENESS)


def _part(reason: str, inbox: Inbox, tier: DiskTier) -> NoReturn:
    """Write what the next engine would otherwise compute again, then end. On the reader thread."""
    inbox.post(Farewell())
    tier.flush(_FLUSH_SECONDS)
    _end(reason)


def _end(reason: str) -> NoReturn:
    log.get().debug("engine.ends", reason=reason)
    _exit(EXIT_OK)


def _exit(code: int) -> NoReturn:
    """At once, from any thread: a step or a load that is running is of no use to anyone."""
    sys.stderr.flush()
    os._exit(code)
