"""How many connections this process may hold: its own limit on open files, raised as far as it may."""

import resource

ENOUGH = 65_536


def raise_limit(enough: int = ENOUGH) -> int:
    """The limit from now on. Systems start programs with as few as 256, and every connection takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError):
        # macOS has a lower limit for a process than it says.
        return soft
    return wanted
