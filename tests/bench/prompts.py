"""The chats that are sent: made from a seed, so that every target of a round gets the same and no two are alike."""

from random import Random

Chat = list[dict[str, str]]

_TEXT = (
    "apple river stone window garden winter summer bridge market village mountain forest ocean island castle "
    "kitchen table paper letter number color music dance story picture camera doctor teacher farmer driver "
    "soldier king queen brother sister mother father uncle cousin neighbor friend stranger guest host leader "
    "morning evening night week month year minute hour moment season weather rain snow wind cloud storm fire "
    "water earth metal gold silver iron glass wood cotton silk bread cheese butter sugar salt coffee milk fruit "
    "horse cow sheep dog cat bird fish lion tiger bear wolf road street corner station train ship plane engine"
)
WORDS = _TEXT.split()
"""Common words: one token each in most tokenizers."""

REQUEST = "Write a very long story with these words."


def words(count: int, seed: str) -> str:
    """`count` words; different seeds differ from the first words on."""
    random = Random(seed)
    return " ".join(random.choice(WORDS) for _ in range(count))


def chat(tokens: int, seed: str) -> Chat:
    """One user message of about `tokens` tokens, which is answered at length."""
    return [{"role": "user", "content": f"{words(max(1, tokens - 10), seed)}. {REQUEST}"}]


def chats(count: int, tokens: int, seed: str) -> list[Chat]:
    """`count` different chats."""
    return [chat(tokens, f"{seed}-{n}") for n in range(count)]
