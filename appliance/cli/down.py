"""`appliance down`: end a running appliance, letting running generations finish."""

import time

import typer

from appliance.cli.admin_client import AdminClient
from appliance.cli.telling import DEFAULT_FILE, AsJson, File, Timeout, failing, note, tell
from appliance.control.state_dir import owner, state_of
from appliance.errors import TimedOut

POLL_SECONDS = 0.05


def down(file: File = DEFAULT_FILE, timeout: Timeout = 300.0, as_json: AsJson = False) -> None:
    """Stop the appliance that serves this file, and wait until it has stopped."""
    state = state_of(file)
    with failing("down", as_json):
        pid = owner(state)
        AdminClient(file).post("/shutdown")
        if not as_json:
            note(f"process {pid} is ending")
        end = time.monotonic() + timeout
        while owner(state) == pid:
            if time.monotonic() > end:
                raise TimedOut(
                    f"process {pid} has not ended within {timeout:g} s; `appliance ps` shows what it waits for"
                )
            time.sleep(POLL_SECONDS)
    if as_json:
        tell("down", {"pid": pid})
    else:
        typer.echo(f"process {pid} has ended")
