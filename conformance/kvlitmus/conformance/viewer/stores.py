"""What is drawn of a page store: each key, what was put there last, and what was read last."""

from __future__ import annotations

from dataclasses import dataclass

from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.viewer.plain import items, number, page, part, short, told
from kvlitmus.conformance.viewer.scenes import Call, Drawn, Follows, Job, Looks, Pool, Row, table


@dataclass(slots=True)
class Object:
    """What calls said of one key."""

    put: str = "–"
    stored: str = ""
    there: str = "–"
    read: str = "–"


class Stores(Follows):
    """A page store: all that is known of it is what it answers."""

    begins = "store_"

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}

    def of(self, key: Json) -> Object:
        """What is known of a key."""
        return self.objects.setdefault(harmless(key, 100), Object())

    def follow(self, call: Call) -> None:
        """A call was made and answered; that a read raised is all that is known of what it read."""
        super().follow(call)
        if call.refused and call.name in ("store_get", "store_get_into"):
            for key in items(call.given.get("keys")):
                self.of(key).read = f"raised, step {call.number}"

    def draw(self, looks: Looks) -> tuple[list[Pool], list[Drawn], list[Job]]:
        """What is there now."""
        rows = [
            Row(key, [short(key, 24), one.put, one.stored, one.there, one.read]) for key, one in self.objects.items()
        ]
        return [], [table("Keys", ["key", "put last", "the put answered", "said to be there", "read last"], rows)], []

    def _exists(self, call: Call) -> None:
        leading = number(call.answer)
        for at, key in enumerate(items(call.given.get("keys"))[: leading + 1]):
            self.of(key).there = f"{'yes' if at < leading else 'no'}, step {call.number}"

    def _put(self, call: Call) -> None:
        for at, key in enumerate(items(call.given.get("keys"))):
            one = self.of(key)
            one.put = f"{page(part(call.given.get('values'), at))}, step {call.number}"
            one.stored = told(part(call.answer, at))

    def _get(self, call: Call) -> None:
        for at, key in enumerate(items(call.given.get("keys"))):
            self.of(key).read = f"{page(part(call.answer, at))}, step {call.number}"

    def _get_into(self, call: Call) -> None:
        filled = {
            part(one, 2): part(one, 3) for one in call.did if part(one, 0) == "fill" and type(part(one, 2)) is int
        }
        for at, key in enumerate(items(call.given.get("keys"))):
            was = part(call.answer, at)
            self.of(key).read = f"{page(filled[at]) if at in filled else told(was)}, step {call.number}"

    def _damage(self, call: Call) -> None:
        if call.answer is True:
            self.of(call.given.get("key")).put = f"damaged ({told(call.given.get('how'))}), step {call.number}"

    def _crash(self, call: Call) -> None:
        what = page(call.given.get("value"))
        self.of(call.given.get("key")).put = f"{what}, writer killed, step {call.number}"

    def _clear(self, call: Call) -> None:
        for one in self.objects.values():
            one.put, one.stored = f"cleared, step {call.number}", ""
