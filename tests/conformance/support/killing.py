"""A target that ends who plays it: the process that has started its worker, as a machine may that is taken away.

``KVLITMUS_KILL`` says whom it never ends (the process of the test), and where it is noted that it did.  ``once`` does
so the first time that a cache is made; ``always`` does so in the configuration of 16-token pages, each time.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import target as specimen


class Killing:
    """The built-in cache, with a temper."""

    configs = tuple(Config(page_size=size) for size in (1, 4, 16))

    def __init__(self, *, again: bool) -> None:
        self.profile = specimen.profile
        self.again = again

    def make(self, config: Config) -> Any:
        spared, _, notes = os.environ["KVLITMUS_KILL"].partition(":")
        met = Path(notes)
        if os.getppid() != int(spared) and (config.page_size == 16 if self.again else not met.exists()):
            with met.open("a") as file:
                file.write("killed\n")
            os.kill(os.getppid(), signal.SIGKILL)
            os._exit(0)  # before it has another parent
        return specimen.make(config)


once = Killing(again=False)
always = Killing(again=True)
