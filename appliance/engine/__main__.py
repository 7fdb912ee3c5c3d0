"""`python -m appliance.engine FD [FORMAT [LEVEL [BACKEND]]]`: an engine that serves the socket with this descriptor.

It imports BACKEND before it is told what to load.
"""

import sys
from typing import cast

from appliance import log
from appliance.engine.process import BACKENDS, main

if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        sys.exit(
            "usage: python -m appliance.engine FD [console|json [LEVEL [BACKEND]]]"
            " (started by the appliance, not by hand)"
        )
    format, level = (*sys.argv[2:4], *("console", "info")[len(sys.argv[2:4]) :])
    log.configure(cast(log.Format, format), cast(log.Level, level))
    main(int(sys.argv[1]), next((name for name in sys.argv[4:] if name in BACKENDS), None))
