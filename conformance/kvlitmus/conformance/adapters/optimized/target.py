"""The target ``optimized``, over tensors on the CPU or on a CUDA device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.adapters.optimized.contents import Variant, variant_of
from kvlitmus.conformance.adapters.optimized.flat import PROFILE, OptimizedCache, OptimizedPorts, missing
from kvlitmus.conformance.adapters.stores.file import FileStoreAdapter
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run.targets import TargetError, UnknownTarget

if TYPE_CHECKING:
    from kvlitmus.optimized.cache import Parts


@dataclass(eq=False)
class OptimizedTarget:
    """The target ``optimized``, or one made of other parts.

    ``variant``: kind of cache, element type and host layout of every hierarchy, instead of one by configuration;
    ``shift``: others by configuration.  ``core``: which core it has.  ``device``: where the device
    pool of a hierarchy is.  ``audited``: whether everything is counted again whenever somebody looks.
    """

    parts: Parts | None = None
    profile: Profile = PROFILE
    variant: Variant | None = None
    shift: int = 0
    device: str = "cpu"
    audited: bool = False
    core: str = "auto"
    pools = ("device", "host", "tiers", "store")

    def shifted(self, shift: int) -> OptimizedTarget:
        """The same over other kinds of pools."""
        return replace(self, shift=shift)

    def make(self, config: Config) -> Any:
        """A fresh cache; its file store alone, where that is asked for."""
        if config.pool == "store":
            return FileStoreAdapter()
        from kvlitmus.optimized.policy import POLICIES

        if config.policy not in POLICIES:
            raise Unsupported(f"the optimized cache has no policy {config.policy!r}; it has {', '.join(POLICIES)}")
        if config.components:
            raise Unsupported(f"this cache has KV alone, no {config.components}")
        made: OptimizedPorts
        if config.tiered:
            from kvlitmus.conformance.adapters.optimized.tiers import TieredOptimized  # it needs torch

            variant = self.variant or variant_of(config, self.shift)
            made = TieredOptimized(config, self.profile, self.parts, variant, self.device, self.core)
        else:
            made = OptimizedCache(config, self.profile, self.parts, self.core)
        made.audited = self.audited
        return made


def __getattr__(name: str) -> Any:
    """A target, once it is known that everything it needs is there; raises :class:`TargetError` otherwise.

    A core that the environment names and that can't be is the user's mistake, told once: :class:`UnknownTarget`.
    """
    if name not in ("target", "cuda", "audited", "native", "python"):
        raise AttributeError(name)
    lacking = missing()
    if lacking:
        raise TargetError(
            f"the optimized cache needs {', '.join(lacking)}, which this Python has not: "
            "pip install 'kvlitmus[optimized]'"
        )
    if name == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise TargetError("not run: no CUDA device")
    from kvlitmus.optimized import cores

    if name == "native" and (why := cores.lacking()):
        raise TargetError(f"not run: there is no native core: {why}")
    core = name if name in ("native", "python") else "auto"
    try:
        cores.core_of(core)
    except ValueError as error:
        raise UnknownTarget(str(error)) from error
    device = "cuda" if name == "cuda" else "cpu"
    found = globals()[name] = OptimizedTarget(device=device, audited=name in ("audited", core), core=core)
    return found
