"""Which request heads are unambiguous, so that this server and every proxy see the same request. PURE.

Where they disagree about where a request ends, a second one can hide in the first (request smuggling).
"""

import re

NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""RFC 9110, 5.1; a space before the colon is part of none (RFC 9112, 5.1)."""
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
"""RFC 9110, 5.5; some take a lone carriage return for the end of a line."""
FORMS = {
    b"content-length": re.compile(rb"[0-9]+"),
    b"transfer-encoding": re.compile(rb"chunked"),
    b"host": re.compile(rb"(\[[0-9A-Fa-f:.]+(%25[\w.~-]+)?\]|[0-9A-Za-z._~%!$&'()*+,;=-]*)(:[0-9]*)?"),
}
"""Those that say where a request ends and whom it is for: in no other spelling than everybody's."""
SHOWN = 40


def fault(head: bytes) -> str | None:
    """What is wrong with the lines below the first, without the empty one behind them; None where nothing is."""
    hosts = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        shown = name[:SHOWN].decode("ascii", "backslashreplace")
        if not NAME.fullmatch(name):
            return f"{shown!r} is no name of a header"
        if not VALUE.fullmatch(value):
            return f"the header {shown!r} holds a control character"
        form = FORMS.get(name.lower())
        if form is not None and not form.fullmatch(value.strip(b" \t")):
            return f"the header {shown!r} is not written as it has to be"
        hosts += name.lower() == b"host"
    return "the request has several Host headers" if hosts > 1 else None
