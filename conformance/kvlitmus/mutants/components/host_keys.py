"""Mutants of host memory of components that show with some keys alone: of namespaces, of bigrams, and that part."""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS
from kvlitmus.conformance.specimen.components.host import ComponentCopier, Pinned
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.units import Key

HOSTS = COMPONENT_HOST_CONFIGS[:2]
BIGRAM = tuple(config for config in COMPONENT_HOST_CONFIGS if config.bigram)
TWO_KEYS = "two keys are computed, and both or one backed up first, which takes some calls each"


def path_to(node: ComponentNode) -> list[ComponentNode]:
    """The nodes from the first page on to this one."""
    path = [node]
    while path[-1].above is not None:
        path.append(path[-1].above)
    return path[-2::-1]


# Namespaces


@mutant("component-load-of-any-namespace", kills=("LOAD-11",), configs=HOSTS)
class LoadOfAnyNamespace(ComponentCopier):
    """The host is searched by tokens alone: a tenant gets what another one's prompt has left there."""

    def deepest(self, key: Key) -> ComponentNode | None:
        others = [super(LoadOfAnyNamespace, self).deepest(key._replace(namespace=one)) for one in self.tree.roots]
        found = [one for one in (super().deepest(key), *others) if one is not None]
        return max(found, key=lambda node: node.end, default=None)


@mutant("component-backup-once-for-all-namespaces", kills=("COMP-32", "COMP-36"), configs=HOSTS, long_because=TWO_KEYS)
class BackupOnceForAllNamespaces(ComponentCopier):
    """What the host has of these tokens for another tenant isn't backed up again: its own tenant doesn't find it."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        found = super().lacks(node, load=load)
        return found if load else [(name, at) for name, at in found if not self.elsewhere(name, at)]

    def elsewhere(self, name: str, node: ComponentNode) -> bool:
        """Whether another namespace has an entry on the host for the same tokens."""
        pages = [one.units for one in path_to(node)]
        for root in self.tree.roots.values():
            at: ComponentNode | None = root
            for page in pages:
                at = at.children.get(page) if at else None
            if at is not None and name in at.host:
                return True
        return False


# Bigrams


@mutant("component-load-of-bigrams-by-token", kills=("LOAD-11",), configs=BIGRAM)
class LoadOfBigramsByToken(ComponentCopier):
    """Of bigrams the first tokens are compared: a page is loaded back that was computed with another next token."""

    def deepest(self, key: Key) -> ComponentNode | None:
        path, size = list(self.tree.walk(key)), self.tree.size
        node = path[-1] if path else self.tree.roots.get(key.namespace)
        tokens = key.tokens[: (len(path) + 1) * size]
        for one in node.children.values() if node and len(tokens) == (len(path) + 1) * size else ():
            units: Any = one.units
            if tuple([unit[0] for unit in units]) == tokens[-size:]:
                return super().deepest(key._replace(tokens=(*tokens, units[-1][1])))
        return super().deepest(key)


@mutant("component-load-counts-tokens-of-bigrams", kills=("LOAD-11", "COMP-36"), configs=BIGRAM)
class LoadCountsTokensOfBigrams(ComponentCopier):
    """A key of bigrams is taken to be a token shorter than its bigrams once more: its last page never comes back."""

    def deepest(self, key: Key) -> ComponentNode | None:
        return super().deepest(key._replace(tokens=key.tokens[:-1]) if key.tokens else key)


# Keys that part


@mutant("component-load-beyond-the-parting", kills=("LOAD-11",), configs=HOSTS)
class LoadBeyondTheParting(ComponentCopier):
    """What was backed up together is loaded back together, also behind the page at which the key goes another way."""

    def deepest(self, key: Key) -> ComponentNode | None:
        best = super().deepest(key)
        parts = best is not None and len(key.units) > best.end
        further = [one for one in best.children.values() if self.base.name in one.host] if best and parts else []
        return further[0] if further and not any(one in further for one in self.tree.walk(key)) else best


@mutant("component-load-of-whole-backups", kills=("COMP-36",), configs=HOSTS, long_because=TWO_KEYS)
class LoadOfWholeBackups(ComponentCopier):
    """A key that parts from what was backed up before its end finds nothing: only whole backups are looked for."""

    def deepest(self, key: Key) -> ComponentNode | None:
        path = list(self.tree.walk(key))
        goes_on = path and any(self.base.name in one.host for one in path[-1].children.values())
        parts = len(key.units) - len(key.units) % self.tree.size > len(path) * self.tree.size
        return None if parts and goes_on else super().deepest(key)


@mutant("component-backup-by-depth", kills=("COMP-32",), configs=HOSTS, long_because=TWO_KEYS)
class BackupByDepth(ComponentCopier):
    """Behind a page that is on the host, whatever follows it there is taken for the key's own: it isn't copied."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        return [(name, at) for name, at in super().lacks(node, load=load) if load or not self.beside(name, at)]

    def beside(self, name: str, node: ComponentNode) -> bool:
        """Whether another page has an entry on the host behind the same prefix."""
        return node.above is not None and any(name in one.host for one in node.above.children.values())
