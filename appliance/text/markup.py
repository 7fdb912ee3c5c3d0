"""How calls written as marked-up parameters are read, and sections of calls."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.text.json_body import dump
from appliance.text.reader import Cut, NotACall, Reader, Steps
from appliance.text.typed import is_text, json_of

_LONGEST_KEY = 256
_RAW = ("<![CDATA[", "]]>")


@dataclass(frozen=True, slots=True)
class Section:
    """Calls that each begin with `call`, between `begin` and `end`; the opener may be `begin` or already `call`."""

    begin: str
    call: str
    end: str

    def read(self, reader: Reader, one: Callable[[Reader], Steps[None]]) -> Steps[None]:
        """Each call with `one`, which reads on behind `call`. Raises NotACall, Cut."""
        if reader.opener != self.call:
            yield from reader.space()
            yield from reader.literal(self.call)
        while True:
            yield from one(reader)
            yield from reader.space()
            if (yield from reader.option(self.call, self.end)) != self.call:
                return


@dataclass(frozen=True, slots=True)
class Markup:
    """The tags around one parameter and behind the last. `key_ends` end a key; one that has an attribute says whether
    the value is a string or JSON, else the schema does. With `padded` a value stands on lines of its own.
    """

    key: str
    key_ends: tuple[str, ...]
    value_end: str
    call_ends: tuple[str, ...]
    value: str = ""
    padded: bool = False

    def parameters(self, reader: Reader) -> Steps[None]:
        """The parameters of a call that has begun, and its end. Raises NotACall, Cut."""
        glue = "{"
        while True:
            yield from reader.space()
            if (yield from reader.literal(self.key, *self.call_ends)) != self.key:
                break
            yield from self._parameter(reader, glue)
            glue = ", "
        reader.argue("{}" if glue == "{" else "}")
        reader.end()

    def _parameter(self, reader: Reader, glue: str) -> Steps[None]:
        key, kind = yield from reader.until(*self.key_ends, within=_LONGEST_KEY)
        key = key.strip()
        if not key or "<" in key or "\n" in key:
            raise NotACall("malformed call")
        if self.value:
            yield from reader.space()
            yield from reader.literal(self.value)
        head = f"{glue}{dump(key)}: "
        try:
            text = yield from self._text(reader)
        except Cut as cut:
            if _is_text(kind) or is_text(reader.schema(), key):
                reader.argue(head + dump(cut.args[0].removeprefix("\n" if self.padded else ""))[:-1])
            raise
        reader.argue(head + self._json(text, kind, reader, key))

    def _text(self, reader: Reader) -> Steps[str]:
        """Up to the closing tag that a parameter or the end follows: another one is part of the text."""
        parts: list[str] = []
        try:
            while True:
                text, _ = yield from reader.until(self.value_end)
                parts.append(text)
                if (yield from reader.follows(self.key, *self.call_ends)):
                    return "".join(parts)
                parts.append(self.value_end)
        except Cut as cut:
            raise Cut("".join(parts) + (cut.args[0] if cut.args else "")) from None

    def _json(self, text: str, kind: str, reader: Reader, key: str) -> str:
        if self.padded and text.startswith("\n"):
            text = text[1:].removesuffix("\n")
        if text.startswith(_RAW[0]) and text.endswith(_RAW[1]):
            text = text[len(_RAW[0]) : -len(_RAW[1])]
        if _is_text(kind):
            return dump(text)
        if "=" in kind:
            return json_of(text, {}, key)
        return json_of(text, reader.schema(), key)


def _is_text(kind: str) -> bool:
    return 'string="true"' in kind or 'type="string"' in kind
