"""A deterministic engine from a YAML script: `source: fake:script.yaml`. For tests and demos.

Everything is optional. Milliseconds are really waited, so a script can be as slow as a test needs it.

    text: "Hello {last}"         the answer, default "{last}". Fields: last (the last user message), prompt (all),
                                 kwargs (the template's, JSON), and every sampling value: seed, temperature, …
    words: [one, two]            instead of text: at temperature 0 the words in order, above it drawn by seed and
                                 position; `length: 8` words, then the end
    tokens: [321, 0]             instead of text: these token ids, then the end
    endless: true                begin the answer again where it would end
    step_ms: 0                   a step that decodes         prefill_ms_per_token: 0
    load_ms: 0                   loading                     fail_load: message        permanent: false
    context: 4096                tokens                      token_bytes: 4            longest token, 1 to 6
    special: ["[TOOL_CALLS]"]    more special tokens
    kv_bytes_per_token: 1024     weight_bytes: 1048576       trim: true                snapshots can be trimmed
    crash_after: n               end the process instead of giving a sequence more than n tokens
    crash_on: text               … only for prompts that contain this (crash_after is 0 unless given)
    crash_load: true             end the process while loading
    crash_how: kill              kill, abort, exit (status 3) or exception
    crash_times: n               only so often, counted in the file <script>.crashes
    hang_after: n                never come back from the step that would give a sequence its token n + 1
    fault_after: n               report a device fault there instead
    fault_at: wait               … already when that step is launched (launch), when what a sequence has is copied
                                 with so many tokens (snapshot), or when it begins, whatever n (open)
    fail_render: text            the template refuses prompts that contain this
    when:                        the first row that fits a prompt overrides what stands above for that sequence
      - {contains: weather, text: "<tool_call>…</tool_call>"}

A token is up to `token_bytes` bytes of a word, so longer characters are split. Its id is the number `0x01 bytes…`;
ids below 256 are special: 0 `<|end|>` ends an answer, 1 `<|im_start|>`, 2 `<|im_end|>`,
then those of the script.
"""

from appliance.engine.fake.backend import FakeBackend

__all__ = ["FakeBackend"]
