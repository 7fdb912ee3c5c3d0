"""What happens to engines when the server dies without a word."""

import asyncio
import os
import sys
import textwrap

import pytest

SERVER = """
    import asyncio, sys
    from pathlib import Path
    from appliance import log
    from tests.process.site import Site, answer

    log.configure()

    async def main():
        site = Site(Path(sys.argv[1]))
        deployment = site.read()
        async with site.supervisor() as supervisor:
            await supervisor.apply(deployment)
            if sys.argv[2] == "spare":
                while (spare := supervisor.spare()) is None or spare.seconds is None:
                    await asyncio.sleep(0.005)
                print(spare.pid, flush=True)
                await asyncio.Event().wait()
            if sys.argv[2] == "ready":
                await answer(supervisor, deployment, max_tokens=1)
            holding = asyncio.create_task(answer(supervisor, deployment))
            while (pid := supervisor.status()[0].pid) is None:
                await asyncio.sleep(0.005)
            print(pid, flush=True)
            await holding

    asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["loading", "ready", "spare"])
async def test_a_killed_server_leaves_no_engine(site, state):
    site.script("m", text="on ", endless=True, step_ms=1, load_ms=60000 if state == "loading" else 0)
    site.deployment({"m": {}}, engine={"spare": state == "spare"})
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(SERVER), str(site.directory), state, stdout=asyncio.subprocess.PIPE
    )
    engine = int(await server.stdout.readline())
    gone = await asyncio.to_thread(os.pidfd_open, engine) if sys.platform == "linux" else None
    server.kill()
    await server.wait()
    await exited(engine, gone)


async def exited(pid, pidfd):
    """Wait for a process that is not our child."""
    async with asyncio.timeout(30):
        if pidfd is None:
            while True:
                try:
                    os.kill(pid, 0)
                except ProcessLookupError:
                    return
                await asyncio.sleep(0.01)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(pidfd, ended.set)
        await ended.wait()
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
