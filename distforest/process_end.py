"""How the processes of commands and embedded clusters end."""

import atexit
import gc


def end_sooner() -> None:
    """Let this process end without a search for cycles among all modules, which takes it half a second.

    The system frees the memory anyway. It is for processes of our own: objects in cycles are not finalised.
    """
    atexit.register(gc.freeze)
