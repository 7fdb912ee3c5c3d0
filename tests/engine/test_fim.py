"""A gap to be filled in, as each family writes it."""

import pytest

from appliance.engine.fake.tokenizer import FakeTokenizer
from appliance.engine.fim import FORMS, Form, fill_in
from appliance.errors import Unsupported
from appliance.vocab.request import TextPrompt

GAP = TextPrompt(text="left", suffix="right")


@pytest.mark.parametrize("form", FORMS, ids=[f"{form.left} {form.right}" for form in FORMS])
def test_both_sides_stand_where_the_model_expects_them(form: Form) -> None:
    names = [name for name in (form.left, form.right, form.end) if name is not None]
    tokenizer = FakeTokenizer(4, special=names)
    text = tokenizer.text(fill_in(GAP, tokenizer))
    if form.right_first:
        assert text == f"{form.right}right{form.left}left"
    else:
        assert text == f"{form.left}left{form.right}right{form.end}"


def test_a_model_without_such_tokens_refuses() -> None:
    with pytest.raises(Unsupported) as refused:
        fill_in(GAP, FakeTokenizer(4, special=["<|fim_prefix|>"]))
    assert refused.value.param == "suffix"
