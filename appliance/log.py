"""How log events are written: structlog configured once per process, request and model ids by contextvar.

An event is a dotted name and fields: `log.get().info("engine.ready", model="demo", seconds=1.2)`.
Everything goes to stderr; stdout belongs to data.
"""

import logging
import sys
from contextlib import AbstractContextManager
from typing import Any, Literal, TextIO

import structlog

Format = Literal["console", "json"]
Level = Literal["debug", "info", "warning", "error"]

_RENDERERS: dict[Format, Any] = {
    "console": lambda stream: structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
    ),
    "json": lambda stream: structlog.processors.JSONRenderer(),
}
_NUMBERS: dict[Level, int] = {
    "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR,
}  # fmt: skip


def configure(format: Format = "console", level: Level = "info", stream: TextIO | None = None) -> None:
    """Decide how this process logs; may be called again when the configuration changes."""
    stream = stream or sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.format_exc_info] if format == "json" else []),
            _RENDERERS[format](stream),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_NUMBERS[level]),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )


def get() -> Any:
    """The logger; its configuration is looked up at each event, so it may be got at import time."""
    return structlog.get_logger()


def bound(**ids: Any) -> AbstractContextManager[None]:
    """Within the block every event of this task carries these fields: `with log.bound(request=…, model=…)`."""
    return structlog.contextvars.bound_contextvars(**ids)
