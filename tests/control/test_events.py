"""What happens is told to those who listen, in order, and nobody can hold up the others."""

from appliance.control.events import LONGEST_QUEUE, Events


async def test_listeners_hear_what_happens_while_they_listen() -> None:
    events = Events()
    events.publish("too.early")
    with events.listening() as one, events.listening() as other:
        events.publish("model.ready", model="m")
        events.publish("model.gone")
        for listener in (one, other):
            heard = await listener.next()
            assert (heard["event"], heard["model"]) == ("model.ready", "m")
            assert (await listener.next())["event"] == "model.gone"
    events.publish("too.late")


async def test_a_listener_that_does_not_keep_up_is_told_what_it_lost() -> None:
    events = Events()
    with events.listening() as slow:
        for number in range(LONGEST_QUEUE + 5):
            events.publish("step", number=number)
        lost = await slow.next()
        assert (lost["event"], lost["count"]) == ("events.lost", 5)
        assert (await slow.next())["number"] == 5
