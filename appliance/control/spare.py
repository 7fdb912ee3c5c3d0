"""One blank engine process that has done its imports, kept for the next load of its backend."""

import asyncio
from dataclasses import dataclass

from appliance import log
from appliance.control.handle import EngineHandle
from appliance.control.launch import Blank
from appliance.control.tasks import Own
from appliance.errors import EngineDied, LoadFailed

STOP_GRACE_SECONDS = 10.0
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 300.0
"""Before one that died is replaced; doubled for each in a row that nobody could use."""

ANSWER_SECONDS = 5.0
"""Enough for one that is still busy with its imports on a busy machine, and little beside a load."""

_log = log.get()


@dataclass(frozen=True, slots=True)
class SpareStatus:
    """`seconds` it took to get warm, None before; `taken` bytes of memory when last measured. `adopted` loads were
    given one so far, and had `saved` seconds less to wait in all.
    """

    pid: int | None
    seconds: float | None
    taken: int | None
    adopted: int
    saved: float


class Spare:
    """`keep` says of which kind one is wanted, `replenish` is called whenever the machine has time for one, `take`
    hands it out. `taken` is written by whoever measures.
    """

    def __init__(self, own: Own) -> None:
        self.taken: int | None = None
        self._own = own
        self._wanted: Blank | None = None
        self._held: _Held | None = None
        self._task: asyncio.Task[None] | None = None
        self._deaths = 0
        self._again: asyncio.TimerHandle | None = None
        self._adopted, self._saved = 0, 0.0

    def keep(self, wanted: Blank | None) -> None:
        """Want one of this kind from now on, and end one of another kind; None: want none."""
        if wanted == self._wanted:
            return
        self._wanted, self._deaths = wanted, 0
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._held is not None:
            self._held.handle.close()
            self._held = None

    def replenish(self) -> None:
        """Start one where one is wanted and there is none."""
        resting = self._again is not None or (self._task is not None and not self._task.done())
        if self._wanted is not None and not resting:
            self._task = self._own(self._hold(self._wanted), "spare engine")

    async def take(self, blank: Blank) -> tuple[EngineHandle, float] | None:
        """The process, if there is one of this kind that answers, and the seconds of its start that nobody has to
        wait for. One that does not answer is killed.
        """
        if (held := self._held) is None or held.blank != blank or not held.handle.alive:
            return None
        self._held, self.taken, self._deaths = None, None, 0
        held.given.set()
        answers = False
        try:
            answers = await _answers(held.handle)
        finally:
            if not answers:
                code = await held.handle.stop(0)
                _log.warning("spare.mute", pid=held.handle.pid, exit=code)
        if not answers:
            return None
        saved = held.warm_seconds if held.warm_seconds is not None else _now() - held.began
        self._adopted, self._saved = self._adopted + 1, self._saved + saved
        return held.handle, saved

    @property
    def pid(self) -> int | None:
        return self._held.handle.pid if self._held else None

    def status(self) -> SpareStatus | None:
        """None where none is wanted."""
        if self._wanted is None:
            return None
        seconds = self._held.warm_seconds if self._held else None
        return SpareStatus(self.pid, seconds, self.taken, self._adopted, self._saved)

    async def _hold(self, blank: Blank) -> None:
        """One process, until it is taken or has ended."""
        try:
            held = _Held(blank, await EngineHandle.spawn(blank), _now())
        except LoadFailed as error:
            _log.warning("spare.failed", reason=error.message)
            self._pause()
            return
        if self._wanted == blank:
            self._held = held
        else:
            held.handle.close()
        try:
            await held.until_taken()
        finally:
            if not held.given.is_set():
                asked = self._held is not held
                self._held = None if self._held is held else self._held
                code = await held.handle.stop(STOP_GRACE_SECONDS)
                (_log.info if asked else _log.warning)("spare.gone", pid=held.handle.pid, exit=code, asked=asked)
                if asked:
                    # Another kind may be wanted since; this task is over when that is looked at.
                    asyncio.get_running_loop().call_soon(self.replenish)
                else:
                    self._pause()

    def _pause(self) -> None:
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self._deaths, 16))
        self._deaths += 1

        def again() -> None:
            self._again = None
            self.replenish()

        self._again = asyncio.get_running_loop().call_later(pause, again)


async def _answers(handle: EngineHandle) -> bool:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await handle.ping()
    except (TimeoutError, EngineDied):
        return False
    return True


class _Held:
    def __init__(self, blank: Blank, handle: EngineHandle, began: float) -> None:
        self.blank, self.handle, self.began = blank, handle, began
        self.warm_seconds: float | None = None
        self.given = asyncio.Event()

    async def until_taken(self) -> None:
        """Wait for that, or for its end; note when it is warm."""
        ended = [asyncio.create_task(wait) for wait in (self.given.wait(), self.handle.disconnected())]
        warm = asyncio.create_task(self.handle.warm.wait())
        try:
            await asyncio.wait([*ended, warm], return_when=asyncio.FIRST_COMPLETED)
            if warm.done():
                self.warm_seconds = _now() - self.began
                _log.info("spare.warm", pid=self.handle.pid, seconds=round(self.warm_seconds, 2))
            await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*ended, warm):
                task.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()
