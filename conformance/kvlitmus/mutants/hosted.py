"""What mutants of a hierarchy share: where they show, and a host pool that believes its callers."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.specimen.prefix.host import HostPool

SGLANG = "https://github.com/sgl-project/sglang/"
VLLM = "https://github.com/vllm-project/vllm/"
LMCACHE = "https://github.com/LMCache/LMCache/"

HOSTED = TIER_CONFIGS
"""Every configuration of a hierarchy."""

THROUGH = tuple(config for config in HOSTED if config.write == "write_through")
SELECTIVE = tuple(config for config in HOSTED if config.write == "write_through_selective")
WRITE_BACK = tuple(config for config in HOSTED if config.write == "write_back")
NOT_BACK = THROUGH + SELECTIVE
WAITING = tuple(config for config in HOSTED if config.stop == "wait_complete")
TIMED = tuple(config for config in HOSTED if config.stop == "timeout")
BIGRAM = tuple(config for config in HOSTED if config.bigram)


class BelievingHost(HostPool):
    """A host pool that takes back whatever it is given, as most do."""

    def give_back(self, pages: Sequence[int]) -> None:
        """No questions."""
        for page in pages:
            self.is_free[page] = True
        self.free_list += pages
