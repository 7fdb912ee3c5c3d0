"""What clients are told of a request that its engine dies of, in their own protocol; and who else is: nobody."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai
import pytest

from tests.server.up import Up, chat

SCRIPT = "text: '{last} and {last} and {last}'\nstep_ms: 2\ncrash_on: poison\ncrash_how: abort\ncrash_after: 2\n"
MESSAGES = [{"role": "user", "content": "poison"}]


@pytest.fixture(scope="module")
def dying(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("dying")
    (directory / "m.yaml").write_text(SCRIPT)
    file = directory / "deploy.yaml"
    file.write_text("version: 1\nserver: {listen: 127.0.0.1:0}\nmodels: {m: {source: 'fake:m.yaml'}}\n")
    with Up.start(file) as up:
        yield up


def test_poison_fails_as_a_stream_s_own_error_and_its_neighbours_are_answered(dying: Up) -> None:
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(dying.post, chat("m", f"n{number}")) for number in range(4)]
        with pytest.raises(openai.APIError, match="with this request alone"):
            for _ in dying.client().chat.completions.create(model="m", messages=MESSAGES, stream=True):
                pass
        answers = [other.result().json()["choices"][0]["message"]["content"] for other in others]
    assert answers == [f"n{n} and n{n} and n{n}" for n in range(4)]
    assert dying.metric('appliance_engine_deaths_total{model="m"}') >= 2
    assert dying.metric('appliance_engine_loads_total{model="m"}') >= 3


def test_poison_fails_in_anthropic_s_words(dying: Up) -> None:
    with pytest.raises(anthropic.APIError, match="with this request alone"):
        dying.anthropic().messages.create(model="m", max_tokens=50, messages=MESSAGES)
    assert dying.post(chat("m", "fine")).status_code == 200
