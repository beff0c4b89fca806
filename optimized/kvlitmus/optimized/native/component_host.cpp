// How copies of components between device and host begin and end, as methods of Components.
#include "component_calls.h"
#include "component_copies.h"

namespace kvlitmus {

namespace {

// Begin a copy to a tier for a boundary of the path at hand; answers its number, or -1, the boundary, and of each component
// where the entries end that it brings, their places on the other tier, and on this one, and how many were evicted.
PyObject* begin_copy(Components& tree, int tier, int64_t boundary, bool worth) {
    int64_t wants[MOST_COMPONENTS] = {}, evicted[MOST_COMPONENTS];
    int components = tree.layout.components;
    for (int k = 0; worth && k < components; ++k) wants[k] = tree.lacking(tier, k, boundary);
    bool any = std::any_of(wants, wants + components, [](int64_t many) { return many > 0; });
    auto count = [&](int k) { return wants[k]; };
    auto none = [](int) { return int64_t{0}; };
    Parts ends(components, names.int64, count), sources(components, names.int32, count),
        places(components, names.int32, count), nothing(components, names.int32, none);
    Counts freed(tree);
    Ref up_to = number(boundary), empty = nothing.tuple();
    Ref refused = together(number(-1), up_to, empty, empty, empty, freed.array);
    if (!any) return refused.release();
    Ref granted = together(number(tree.next_copy()), up_to, ends.tuple(), sources.tuple(), places.tuple(), freed.array);
    tree.short_pools(tier, wants, evicted);
    tree.room_to_evict(tier, evicted);
    tree.room_to_copy(boundary, wants);
    for (int k = 0; k < components; ++k) tree.lacking(tier, k, boundary, ends.of<int64_t>(k));
    if (!tree.begin_copy(tier, boundary, wants, evicted, freed.each())) return refused.release();
    const ComponentCopy& one = tree.last_copy();
    for (int64_t k = 0, next = 0; k < components; next += wants[k++])
        for (int64_t at = 0; at < wants[k]; ++at) {
            sources.of<int32_t>(static_cast<int>(k))[at] = tree.entries()[one.sources[next + at]].place;
            places.of<int32_t>(static_cast<int>(k))[at] = one.places[next + at];
        }
    return granted.release();
}

PyObject* begin_backup(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Units key;
    if (!given_as_many(given, 2) || !has_tier(self, HOST) || !key.open(self, args[0], args[1])) return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        tree.look({key.root, 0}, key.view.bytes(), key.pages(self));
        if (tree.valid(key.count)) return begin_copy(tree, HOST, key.count, true);
        PyErr_SetString(names.stale_handle, "what is to be backed up is not all cached");
        return nullptr;
    });
}

PyObject* begin_load(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Units key;
    int64_t start;
    if (!given_as_many(given, 3) || !has_tier(self, HOST) || !whole(args[2], start) || !key.open(self, args[0], args[1]))
        return nullptr;
    return step(self, [&](Components& tree) {
        tree.look({key.root, 0}, key.view.bytes(), key.pages(self));
        int64_t boundary = tree.longest(key.count, TIERS);
        return begin_copy(tree, DEVICE, boundary, boundary > start);
    });
}

PyObject* copied(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    int64_t wanted;
    if (!given_as_many(given, 2) || !whole(args[0], wanted)) return nullptr;
    int fine = PyObject_IsTrue(args[1]);
    if (fine < 0) return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        ComponentCopy* one = tree.copy_of(wanted);
        if (!one) return PyErr_Format(PyExc_ValueError, "copy %lld is not under way", static_cast<long long>(wanted));
        int64_t left[MOST_COMPONENTS] = {};
        tree.room_to_land(*one, fine, left);
        Parts returned(tree.layout.components, names.int32, [&](int k) { return left[k]; });
        Ref all = returned.tuple();
        tree.tick();
        tree.end_copy(*one, fine, returned.places());
        return all.release();
    });
}

// Up to which boundary a key is to be backed up that has just been inserted; `again`: only where that was there before.
PyObject* due(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Units key;
    if (!given_as_many(given, 3) || !has_tier(self, HOST) || !key.open(self, args[0], args[1])) return nullptr;
    int again = PyObject_IsTrue(args[2]);
    if (again < 0) return nullptr;
    return step(self, [&](Components& tree) {
        tree.look({key.root, 0}, key.view.bytes(), key.pages(self));
        int64_t boundary = tree.longest(key.count);
        bool fresh = boundary && tree.entries()[tree.at(BASE, boundary)].created == tree.clock;
        return number(again && fresh ? 0 : boundary).release();
    });
}

}  // namespace

PyMethodDef component_host_methods[] = {
    {"back_up", fast(begin_backup), METH_FASTCALL,
     "back_up(namespace, units): a copy to the host, or -1; its boundary, ends, sources and places; what was evicted."},
    {"load", fast(begin_load), METH_FASTCALL, "load(namespace, units, start): a copy to the device, likewise."},
    {"copied", fast(copied), METH_FASTCALL, "copied(copy, fine): it has ended; the places given back."},
    {"due", fast(due), METH_FASTCALL, "due(namespace, units, again): how much of a key just inserted is to be backed up."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace kvlitmus
