"""Mutants of what is done with running rows: forks, requests that wait on the host, and what they outlive."""

from __future__ import annotations

from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.mutants.hosted import HOSTED
from kvlitmus.mutants.prefix.request import CROWDED
from kvlitmus.mutants.registry import PAGED, mutant, null_mutant

BEAMS = (
    "https://github.com/NVIDIA/TensorRT-LLM/pull/14945",
    "https://github.com/huggingface/transformers/pull/42921",
    "https://github.com/ggml-org/llama.cpp/issues/3802",
)


@mutant("beams-write-into-one-page", links=BEAMS, kills=("REQ-18", "POOL-15", "POOL-12"), configs=(PAGED,))
class BeamsWriteIntoOnePage(RequestTable):
    """Two beams write into the same slots: the page that isn't full is shared like those that are."""

    def fork(self, rid: int, of: int) -> SpecimenRequest | None:
        request = self.running[of]
        self.tree.lock(request.node)
        self.running[rid] = SpecimenRequest(request.key, list(request.row), request.cached, request.node)
        return self.running[rid]


@mutant("fork-without-a-lock", links=BEAMS, kills=("LOCK-02", "LOCK-04", "LOCK-06"))
class ForkWithoutALock(RequestTable):
    """The prompt of all beams may be evicted when the first beam ends: a fork doesn't count."""

    def fork(self, rid: int, of: int) -> SpecimenRequest | None:
        running = super().fork(rid, of)
        if running is not None:
            self.tree.unlock(running.node)
            running.node = self.tree.root(running.key.namespace)
        return running


@mutant("refused-fork-keeps-its-lock", links=BEAMS, kills=("LOCK-02", "LOCK-04", "LOCK-06"), configs=CROWDED)
class RefusedForkKeepsItsLock(RequestTable):
    """A prompt stays protected for good: a fork locks it, finds no page for its own tokens, and forgets the lock."""

    def fork(self, rid: int, of: int) -> SpecimenRequest | None:
        running = super().fork(rid, of)
        if running is None:
            self.tree.lock(self.running[of].node)
        return running


@mutant("fork-copies-what-is-shared", links=BEAMS, kills=("REQ-18", "REQ-03"))
class ForkCopiesWhatIsShared(RequestTable):
    """So many beams take so many times the memory of their prompt: each gets a copy of all of it."""

    def fork(self, rid: int, of: int) -> SpecimenRequest | None:
        request, size = self.running[of], self.pool.page_size
        wanted = -(-len(request.row) // size)
        own = self.pool.take(wanted) if self.make_room(wanted) else None
        if own is None:
            return None
        row = self.pool.slots(own)[: len(request.row)]
        self.write(row, self.read(request.row))
        self.running[rid] = SpecimenRequest(request.key, row, 0, self.tree.root(request.key.namespace))
        return self.running[rid]


@mutant("forks-admitted-by-the-prompt", kills=("REQ-14",), links=BEAMS)
class ForksAdmittedByThePrompt(RequestTable):
    """Beams are refused though all they need is a page each: what they share is counted as if they needed it anew."""

    def fork(self, rid: int, of: int) -> SpecimenRequest | None:
        size = self.pool.page_size
        if -(-len(self.running[of].row) // size) > len(self.pool.free_list):
            return None
        return super().fork(rid, of)


SWAPPED = (
    "https://github.com/sgl-project/sglang/pull/40729",
    "https://github.com/vllm-project/vllm/issues/51637",
    "https://github.com/vllm-project/vllm/issues/52360",
)


class HostOfSixPages(RequestTable):
    """The host has six pages for retracted requests."""

    most = 6

    def fits(self, rid: int) -> bool:
        """Whether there is room for one more."""
        rows = [request.row for request, _ in self.saved.values()] + [self.running[rid].row]
        return sum(-(-len(row) // self.pool.page_size) for row in rows) <= self.most

    def retract(self, rid: int) -> bool:
        return self.fits(rid) and super().retract(rid)


@null_mutant("host-of-six-pages")
class HasSixPages(HostOfSixPages):
    """How much memory of the host there is for retracted requests is a cache's own affair."""


@null_mutant("retractions-wait-for-loads", configs=HOSTED)
class RetractionsWaitForLoads(RequestTable):
    """What a load is still filling nobody copies: the request runs on, and is retracted once the load has landed."""

    def retract(self, rid: int) -> bool:
        return self.bringing().keys().isdisjoint(self.running[rid].row) and super().retract(rid)


@null_mutant("resumed-shares-what-is-cached")
class ResumedSharesWhatIsCached(RequestTable):
    """A request that comes back is looked up like a new one, and what is cached of it needn't be brought back."""

    def resume(self, rid: int) -> SpecimenRequest | None:
        request, contents = self.saved[rid]
        if not self.room(request):
            return super().resume(rid)
        running = self.begin(rid, request.key)
        assert running is not None
        self.write(running.row[running.cached :], contents[running.cached :])
        self.discard(rid)
        return running

    def room(self, request: SpecimenRequest) -> bool:
        """Whether there is room for all of it, so that it can't be refused."""
        return -(-len(request.row) // self.pool.page_size) <= len(self.pool.free_list)


@mutant("copied-after-the-pages-are-gone", links=SWAPPED, kills=("REQ-02",), configs=HOSTED)
class CopiedAfterThePagesAreGone(RequestTable):
    """A request resumes with the KV of another one: its pages are given back, and copied when it is wanted again."""

    def resume(self, rid: int) -> SpecimenRequest | None:
        request, _ = self.saved[rid]
        self.saved[rid] = request, self.read(request.row)
        return super().resume(rid)


@mutant(
    "retracted-before-its-load-has-landed",
    links=("https://github.com/vllm-project/vllm/issues/45704", "https://github.com/sgl-project/sglang/pull/30899"),
    kills=("REQ-02",),
    configs=HOSTED,
)
class RetractedBeforeItsLoadHasLanded(RequestTable):
    """A request resumes with garbage: it was copied to the host while a load was still filling what it shares."""

    def retract(self, rid: int) -> bool:
        self.bringing = dict
        return super().retract(rid)


@mutant("retracted-keeps-its-lock", links=SWAPPED, kills=("LOCK-02", "LOCK-04", "LOCK-06"))
class RetractedKeepsItsLock(RequestTable):
    """Memory stays short whoever is retracted: what the request shared is protected on."""

    def retract(self, rid: int) -> bool:
        self.tree.lock(self.running[rid].node)
        return super().retract(rid)


@mutant("refused-retraction-has-ended", links=SWAPPED, kills=("POOL-12", "FRAME-02", "LOCK-02", "LOCK-04"))
class RefusedRetractionHasEnded(HostOfSixPages):
    """A request goes on in slots that others get: its pages are freed before it is known that the host has room."""

    def retract(self, rid: int) -> bool:
        if self.fits(rid):
            return super().retract(rid)
        self.free_tail(self.running[rid], self.running[rid].cached)
        return False


@mutant("host-pages-kept-of-the-resumed", links=SWAPPED, kills=("REQ-19",))
class HostPagesKeptOfTheResumed(HostOfSixPages):
    """Nobody can be retracted any more some hours later: what came back has its pages of the host still."""

    lost = 0

    def fits(self, rid: int) -> bool:
        rows = [request.row for request, _ in self.saved.values()] + [self.running[rid].row]
        return sum(-(-len(row) // self.pool.page_size) for row in rows) + self.lost <= self.most

    def resume(self, rid: int) -> SpecimenRequest | None:
        running = super().resume(rid)
        if running is not None:
            self.lost += -(-len(running.row) // self.pool.page_size)
        return running


@mutant("host-pages-kept-of-the-aborted", links=SWAPPED, kills=("REQ-19",))
class HostPagesKeptOfTheAborted(HostPagesKeptOfTheResumed):
    """The same of requests whose clients have gone while they were retracted."""

    def resume(self, rid: int) -> SpecimenRequest | None:
        return HostOfSixPages.resume(self, rid)

    def discard(self, rid: int) -> None:
        if rid not in self.running:
            self.lost += -(-len(self.saved[rid][0].row) // self.pool.page_size)
        super().discard(rid)


@mutant("resumed-without-its-last-page", links=SWAPPED, kills=("REQ-01", "REQ-02"))
class ResumedWithoutItsLastPage(RequestTable):
    """The last tokens are lost: whole pages are brought back, and the tail that fills none is not."""

    def resume(self, rid: int) -> SpecimenRequest | None:
        running = super().resume(rid)
        if running is not None and len(running.row) >= self.pool.page_size:
            end = len(running.row) - len(running.row) % self.pool.page_size
            self.pool.give_back([slot // self.pool.page_size for slot in running.row[end :: self.pool.page_size]])
            del running.row[end:]
        return running


@mutant("resume-counts-what-waits-on-the-host", links=SWAPPED, kills=("REQ-14",))
class ResumeCountsWhatWaitsOnTheHost(RequestTable):
    """The device is empty and nobody resumes: a request is let back when there is room for all that wait."""

    def resume(self, rid: int) -> SpecimenRequest | None:
        rows = [request.row for request, _ in self.saved.values()]
        if sum(-(-len(row) // self.pool.page_size) for row in rows) > len(self.pool.free_list):
            return None
        return super().resume(rid)


FLUSHED = ("https://github.com/vllm-project/vllm/pull/12284", "https://github.com/vllm-project/vllm/pull/34382")


@null_mutant("flush-waits-for-idle")
class FlushWaitsForIdle(RequestTable):
    """Real engines refuse to flush while anything runs, and say so; whoever must have it ends the requests first."""

    def flush(self) -> bool:
        return not self.tree.protected and super().flush()


@mutant("flush-takes-what-is-held", links=FLUSHED, kills=("EVICT-25", "LOCK-01", "POOL-12", "LOCK-02"))
class FlushTakesWhatIsHeld(RequestTable):
    """Requests read pages that others write: a flush forgets the whole tree, and what requests share is free."""

    def flush(self) -> bool:
        for root in self.tree.roots.values():
            waiting = list(root.children.values())
            while waiting:
                node = waiting.pop()
                waiting += node.children.values()
                self.pool.give_back(node.pages)
            root.children.clear()
        return True


@mutant("flush-counts-the-retracted", links=FLUSHED, kills=("EVICT-26",))
class FlushCountsTheRetracted(RequestTable):
    """Nothing is flushed as long as a request waits on the host, though it has nothing on the device."""

    def flush(self) -> bool:
        return not self.saved and super().flush()


@mutant("flush-forgets-one-leaf-a-time", links=FLUSHED, kills=("EVICT-25",))
class FlushForgetsOneLeafATime(RequestTable):
    """Answers are given of old weights: a flush takes what is a leaf, and what was above it stays."""

    def flush(self) -> bool:
        self.tree.evict(len(self.tree.roots) * self.pool.page_size)
        return True
