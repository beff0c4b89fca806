"""Where SGLang attaches a state that a prefetch has read, when the ranks agree on less KV than one of them has.

Target: ``commits_13``, 0.5.13.post1.  No code of that release makes a ``HiMambaRadixCache``; 0.5.23 has no such class.

Real are ``check_prefetch_progress`` and ``_insert_helper_host`` of that class, over nodes of its own tree: one for each
page that is cached behind the anchor when the prefetch is committed.  The KV that came is what the ranks have agreed
on; of the state is said what this rank has.  A rank reads the state only after all of its own KV, so less KV with the
state takes another rank that has read less.

All else is the suite's reference: tree, pools, admission, what is read, and what is given back.  So a rule that a run
passes says nothing of SGLang, and only what is attached can be wrong: COMP-15 and COMP-29.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

from kvlitmus.conformance.adapters.reference.components import ReferenceComponents
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13.components import COMPONENT_PLAN
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.prefix.components.prefetch import landed
from kvlitmus.spec.prefix.components.calls import Entries
from kvlitmus.spec.prefix.components.fetch import committed
from kvlitmus.spec.prefix.components.state import end_name
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.work_calls import Commit

PLAN = replace(COMPONENT_PLAN, real=COMPONENT_PLAN.real | {f"{MEM}.hi_mamba_radix_cache", f"{MEM}.mamba_radix_cache"})
PROFILE = Profile()
CAPABILITIES = frozenset(
    {"components", "component_lookup", "component_prefetch", "component_counters", "component_view"}
)
CONFIGS = (
    Config(page_size=4, pages=16, components="kv+state"),
    Config(page_size=1, pages=16, components="kv+state"),
)
STATE = "state"


class Published(NamedTuple):
    """What a commit has done to the tree, in tokens behind the anchor.

    ``matched``: up to where there was KV already.  ``node``: where the node ends that was made; 0 where none was.
    ``state``: the host slot of the state that it got, if any.
    """

    matched: int
    node: int
    state: int | None


class HiMamba:
    """The published methods of ``HiMambaRadixCache``, over an object with the fields that they read."""

    def __init__(self, page: int) -> None:
        load = install(PLAN)
        self.page, self.torch = page, torch_module()
        self.module: Foreign = load(f"{MEM}.hi_mamba_radix_cache")
        self.storage: Foreign = load(f"{MEM}.hicache_storage")
        self.key: Foreign = load(f"{MEM}.radix_cache").RadixKey

    def commit(self, asked: int, cached: int, agreed: int, state: int | None) -> Published:
        """A prefetch of ``asked`` tokens ends: the first ``cached`` are in the tree, the ranks agree on ``agreed``.

        state: the host slot of the state that this rank has read for the end of all of them; ``None`` if it hasn't.
        """
        tokens = list(range(asked))
        root, last = self.chain(tokens[:cached])
        kind = self.storage.PoolName.MAMBA
        transfer = self.storage.PoolTransfer(name=kind, host_indices=self.torch.tensor([state or 0]))
        operation = SimpleNamespace(
            host_indices=self.torch.arange(asked),
            pool_transfers=[transfer],
            pool_storage_result=self.storage.PoolTransferResult(asked, {kind: int(state is not None)}),
        )
        tree = self.tree(root, tokens, operation, agreed)
        assert tree.check_prefetch_progress("r")
        made = list(last.children.values())
        if not made:
            return Published(agreed, 0, None)
        (leaf,) = made
        value = leaf.mamba_host_value
        return Published(cached, cached + len(leaf.key), None if value is None else int(value[0]))

    def chain(self, tokens: Sequence[int]) -> tuple[Foreign, Foreign]:
        """A root with a node for each page below it, one after the other, and the last of them."""
        root = last = self.module.TreeNode()
        root.key = self.key([], None)
        for start in range(0, len(tokens), self.page):
            node = self.module.TreeNode()
            node.parent, node.key = last, self.key(list(tokens[start : start + self.page]), None)
            node.host_value = self.torch.arange(start, start + self.page)
            last.children[node.key.child_key(self.page)] = node
            last = node
        return root, last

    def tree(self, root: Foreign, tokens: list[int], operation: Foreign, agreed: int) -> Foreign:
        """What the methods are called on: one prefetch is under way."""
        tree = object.__new__(self.module.HiMambaRadixCache)
        host = SimpleNamespace(free=lambda _indices: None)
        vars(tree).update(
            page_size=self.page,
            root_node=root,
            tp_world_size=1,
            enable_storage_metrics=False,
            ongoing_prefetch={"r": (root, tokens, operation.host_indices, operation)},
            prefetch_loaded_tokens_by_reqid={},
            mamba_host_lru_list=SimpleNamespace(in_list=lambda _node: False, insert_mru=lambda _node: None),
            mamba_pool_host=host,
            can_terminate_prefetch=lambda _operation: True,
            _release_host_node=lambda _node: None,
            _update_full_host_leaf_status=lambda _node: None,
            _record_store_event=lambda *_args, **_kwargs: None,
            cache_controller=SimpleNamespace(
                terminate_prefetch=lambda _operation: (agreed, [str(token) for token in tokens]),
                mem_pool_host=host,
                append_host_mem_release=lambda _indices: None,
                prefetch_tokens_occupied=len(tokens),
            ),
        )
        return tree


class StateCommits(ReferenceComponents):
    """The reference, which attaches what the published commit does."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, PROFILE)
        self.published = HiMamba(config.page_size)

    def component_prefetch_commit(self, fetch: object, came: Mapping[str, Sequence[int]]) -> tuple[int, Entries]:
        """KV and state go where the published methods have put them."""
        assert isinstance(fetch, int)
        mine, layout = self.cache.fetches[fetch], self.setting.layout
        start, boundary, base = mine.start, mine.boundary, layout.base
        if not any(mine.reads.values()):
            return super().component_prefetch_commit(fetch, came)
        call = Commit(fetch, {name: frozenset(some) for name, some in came.items()})
        end = committed(layout, start, boundary, call.came)
        cached = sum(
            (base.name, end_name(mine.path, at)) in self.cache.places(DEVICE) for at in range(start + 1, boundary + 1)
        )
        place = mine.reads.get(STATE, {}).get(boundary)
        state = place if boundary in call.came.get(STATE, ()) else None
        done = self.published.commit(boundary - start, cached * base.unit, end - start, state)
        brought = {
            (base.name, end_name(mine.path, at)): mine.reads[base.name][at]
            for at in range(start + done.matched + base.unit, start + done.node + 1, base.unit)
        }
        if done.state is not None:
            brought[STATE, end_name(mine.path, start + done.node)] = done.state
        self.cache, answer = landed(self.cache, self.setting, call, end, brought)
        return answer.boundary, answer.returned


commits_13 = Peer(
    plan=PLAN, profile=PROFILE, capabilities=CAPABILITIES, configs=CONFIGS, policies=("lru",), build=StateCommits
)
