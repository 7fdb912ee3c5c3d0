"""Reasons that several tools' flags share."""

from appliance.convert.target import Reason

AUTOMATIC = Reason("the engine sizes its steps itself, from measured speed and memory")
ALWAYS = Reason("always so; there is nothing to switch")
LOSSY = Reason("it changes the answers; nothing here trades answers for speed")
EXACT = Reason("speculation here is exact; how a proposal is accepted is no setting")
INTERNAL = Reason("an internal of that tool's engine; ours is built differently")
FAMILY = Reason("the model's family decides; see `family`")
NO_MEDIA = Reason("images, audio and video have no settings in this language")
NO_CUDA = Reason("about GPUs of another kind; MLX has one device")
NO_CLUSTER = Reason("one model is served by one machine; other machines are `routing.peers`")
CHECKS = Reason("a deploy file is checked and planned before anything is downloaded or loaded")
RESPONSES = Reason("answers are computed, never replayed from a store")
PAGED = Reason("the KV store is not paged; `cache.<name>.prefix.memory` bounds it in bytes")
ENTRIES = Reason("prefixes are bounded in bytes, not by their number: cache.<name>.prefix.memory")
STREAM = Reason("tokens are sent as they come; those that wait for a slow client are merged")
TOOL_SERVERS = Reason("tools are run by the client; the appliance calls no tool servers")
LOG_FILE = Reason("the log goes to stderr; redirect it there")
SWITCH_OF_CHOICE = Reason("tool choice needs no switch: a request says it")
DRAFT = "this language does not say which other model makes the proposals"
ADAPTER = "an adapter is chosen by an alias or a request, not for every request of the model"
ASKED_FOR = Reason("a request may ask for this sampler; a deploy file sets none")
