// The type Tree: kvlitmus.optimized.tree.Tree's core, for Python.
//
// What a call can't take it leaves to the methods of its Python class: `units_of` and the pool's `brought` make arrays,
// `priority_of` an integer, and the pool's `refuse` says why a page is refused.
#include "calls.h"

namespace kvlitmus {
namespace {

constexpr long long MOST_PRIORITY = 1ll << 62;
constexpr Py_ssize_t DIGEST_BYTES = 32;

// -- coming and going ---------------------------------------------------------------------------------------------

// The branch of this shadow is gone.
void shadow_gone(void* given) {
    auto* shadow = static_cast<ShadowObject*>(given);
    if (shadow->tree) --shadow->tree->shadows;
    shadow->tree = nullptr;
    shadow->number = NOWHERE;
    Py_DECREF(shadow);
}

// Calls `work` with the shadow of each branch and root that has one, until it says something but 0, and returns that.
template <typename Work>
int each_shadow(TreeObject* owner, Work work) {
    Tree& tree = *owner->tree;
    int said = 0;
    if (!owner->shadows) return said;
    for (size_t at = 0; !said && at < tree.branches.made(); ++at)
        if (void* shadow = tree.branches[at].shadow) said = work(static_cast<ShadowObject*>(shadow));
    for (int32_t at = 1; !said && at <= tree.roots(); ++at)
        if (void* shadow = tree.root(-at).shadow) said = work(static_cast<ShadowObject*>(shadow));
    return said;
}

// Let the names of all roots go, which may run anything.
void forget_names(TreeObject* owner) {
    for (int32_t at = 1; at <= owner->tree->roots(); ++at) {
        Ref name(static_cast<PyObject*>(owner->tree->root(-at).name));
        owner->tree->root(-at).name = nullptr;
    }
}

// The digests of pages that are gone are, too.
void shadow_shorter(void* given, int32_t pages) {
    auto* shadow = static_cast<ShadowObject*>(given);
    PyObject* digests = shadow->digests;
    if (!digests || !PyByteArray_CheckExact(digests) || PyByteArray_GET_SIZE(digests) <= pages * DIGEST_BYTES) return;
    if (PyByteArray_Resize(digests, pages * DIGEST_BYTES) < 0) {  // somebody looks at it: make it anew when asked
        PyErr_Clear();
        Py_CLEAR(shadow->digests);
    }
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
    long long page_size;
    int policy, unit_bytes, write_back, restored_counts;
    PyObject *pool, *host;
    if (!PyArg_ParseTuple(args, "LiO!iOpp", &page_size, &policy, pool_type, &pool, &unit_bytes, &host, &write_back,
                          &restored_counts))
        return nullptr;
    if (host != Py_None && !PyObject_TypeCheck(host, pool_type))
        return PyErr_Format(PyExc_TypeError, "the host has a pool of this core, or None (got %R)", host);
    if (page_size < 1 || page_size > INT32_MAX || policy < 0 || policy > static_cast<int>(Policy::slru) ||
        (unit_bytes != 4 && unit_bytes != 8))
        return PyErr_Format(PyExc_ValueError, "no tree has pages of %lld units of %d bytes", page_size, unit_bytes);
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    TreeObject* made = owner(self);
    made->unit_bytes = unit_bytes;
    made->pool = Py_NewRef(pool);
    made->host = host == Py_None ? nullptr : Py_NewRef(host);
    made->roots = PyDict_New();
    Pool* host_pool = made->host ? reinterpret_cast<PoolObject*>(made->host)->pool : nullptr;
    made->tree = new (std::nothrow) Tree(page_size, unit_bytes, static_cast<Policy>(policy),
                                         *reinterpret_cast<PoolObject*>(pool)->pool, host_pool, write_back, restored_counts);
    if (!made->roots || !made->tree) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    made->tree->gone = shadow_gone;
    made->tree->shorter = shadow_shorter;
    return self;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(owner(self)->roots);
    Py_VISIT(owner(self)->pool);
    Py_VISIT(owner(self)->host);
    Py_VISIT(owner(self)->tell);
    Py_VISIT(owner(self)->spill);
    if (!owner(self)->tree) return 0;
    for (int32_t at = 1; at <= tree_of(self).roots(); ++at) Py_VISIT(static_cast<PyObject*>(tree_of(self).root(-at).name));
    return each_shadow(owner(self), [&](ShadowObject* shadow) {
        Py_VISIT(shadow);
        return 0;
    });
}

int clear(PyObject* self) {
    if (owner(self)->roots) PyDict_Clear(owner(self)->roots);  // the pools stay: the tree works on them
    if (owner(self)->tree) forget_names(owner(self));
    Ref tell(owner(self)->tell), spill(owner(self)->spill);
    owner(self)->tell = owner(self)->spill = nullptr;
    if (owner(self)->tree) set_hooks(owner(self));
    return 0;
}

void drop(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (Tree* tree = owner(self)->tree) {
        each_shadow(owner(self), [](ShadowObject* shadow) {  // nobody reaches the tree by any of them from here on
            shadow->tree = nullptr;
            shadow->number = NOWHERE;
            return 0;
        });
        each_shadow(owner(self), [](ShadowObject* shadow) {
            Py_DECREF(shadow);
            return 0;
        });
        forget_names(owner(self));
        delete tree;
    }
    Py_XDECREF(owner(self)->roots);
    Py_XDECREF(owner(self)->pool);
    Py_XDECREF(owner(self)->host);
    Py_XDECREF(owner(self)->tell);
    Py_XDECREF(owner(self)->spill);
    type->tp_free(self);
    Py_DECREF(type);
}

// -- match --------------------------------------------------------------------------------------------------------

// An array at an odd address is none that a view opens: its numbers have another format.
PyObject* takes(PyObject* self, PyObject* given) {
    View view;
    return PyBool_FromLong(view.open(given) && view.width() == owner(self)->unit_bytes);
}

PyObject* takes_tokens(PyObject* self, PyObject* given) {
    View view;
    if (!view.open(given) || view.width() != owner(self)->unit_bytes) Py_RETURN_FALSE;
    int64_t count = view.count();
    return PyBool_FromLong(view.numbers([=](auto* numbers) {
        std::decay_t<decltype(*numbers)> bits = 0;  // of all of them
        for (int64_t at = 0; at < count; ++at) bits |= numbers[at];
        return sizeof(bits) == 4 ? bits >= 0 : !(static_cast<int64_t>(bits) >> 32);
    }));
}

PyObject* match(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    if (!given_as_many(count, 2, "match") || !matched(self, args[0], args[1], spot)) return nullptr;
    PyObject* answer = found(self, spot, args[0]);
    if (answer) note(pool_at(self));
    return answer;
}

PyObject* find(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    if (!given_as_many(count, 2, "find") || !matched(self, args[0], args[1], spot, false)) return nullptr;
    return found(self, spot, args[0]);
}

PyObject* match_pages(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    if (!given_as_many(count, 2, "match_pages") || !matched(self, args[0], args[1], spot)) return nullptr;
    Spot resident = tree_of(self).resident(spot);
    int64_t behind = tree_of(self).depth(spot) - tree_of(self).depth(resident);
    Ref pages = pages_on(self, resident, 0), place(pages ? place_at(self, resident, args[0]) : nullptr);
    if (!place) return nullptr;
    note(pool_at(self));
    PyObject* known = behind ? place_at(self, spot, args[0]) : Py_NewRef(place.get());
    return named_tuple(names.match, pages.release(), place.release(), PyLong_FromLongLong(behind), known);
}

PyObject* resume(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    PyObject* name = nullptr;
    View view;
    if (!given_as_many(count, 2, "resume") || !kept(self, args[0], spot, &name) || !open_units(self, args[1], view) ||
        !kept(self, args[0], spot, &name))
        return nullptr;
    return guarded([&] {
        spot = tree_of(self).match(spot, view.bytes(), view.count() / tree_of(self).page_size);
        PyObject* answer = found(self, spot, name);
        if (answer) note(pool_at(self));
        return answer;
    });
}

// -- insert -------------------------------------------------------------------------------------------------------

// What an insert is given besides its place.
struct Offer {
    View units, pages;
    int64_t priority = 0;
    bool counts = true;
};

bool priority_of(PyObject* self, PyObject* given, int64_t& into) {
    int over = 0;
    if (PyLong_CheckExact(given)) into = PyLong_AsLongLongAndOverflow(given, &over);
    if (PyLong_CheckExact(given) && !over && -MOST_PRIORITY <= into && into <= MOST_PRIORITY) return true;
    Ref brought(PyObject_CallMethod(self, "priority_of", "O", given));  // or it says what is wrong
    if (brought) into = PyLong_AsLongLong(brought.get());
    return brought && !PyErr_Occurred();
}

bool open_offer(PyObject* self, PyObject* units, PyObject* pages, PyObject* priority, PyObject* counts, Offer& offer) {
    if (!open_units(self, units, offer.units)) return false;
    if (!offer.pages.open(pages, owner(self)->pool, "brought")) return false;
    int64_t wanted = offer.pages.count() * tree_of(self).page_size;
    if (offer.units.count() < wanted) {
        PyErr_Format(PyExc_ValueError, "%lld pages need %lld units (got %lld)",
                     static_cast<long long>(offer.pages.count()), static_cast<long long>(wanted),
                     static_cast<long long>(offer.units.count()));
        return false;
    }
    if (priority && !priority_of(self, priority, offer.priority)) return false;
    int counted = counts ? PyObject_IsTrue(counts) : 1;
    offer.counts = counted > 0;
    return counted >= 0;
}

// The pool says why this page of the offered ones, from `already` on, can't be cached.
PyObject* refused(PyObject* self, PyObject* pages, int64_t already, int64_t wrong) {
    Ref rest(PySequence_GetSlice(pages, already, PY_SSIZE_T_MAX));
    if (!rest) return nullptr;
    Ref made(PyObject_CallMethod(owner(self)->pool, "refuse", "OLs", rest.get(),
                                 static_cast<long long>(wrong - already), "cached"));
    if (made) PyErr_SetString(PyExc_SystemError, "a page that is refused was not");
    return nullptr;
}

PyObject* insert_offer(PyObject* self, Spot spot, PyObject* name, PyObject* pages, const Offer& offer) {
    Tree& tree = tree_of(self);
    int64_t above = tree.depth(spot);
    Tree::Inserted inserted{};
    bool done = offer.pages.numbers([&](auto* numbers) {
        return insert_at(self, spot, name, offer.units.bytes(), numbers, offer.pages.count(), offer.priority,
                         offer.counts, false, inserted);
    });
    sweep(owner(self));
    if (!done) return nullptr;
    if (inserted.wrong != FINE) return refused(self, pages, inserted.already, inserted.wrong);
    return named_tuple(names.inserted, PyLong_FromLongLong(above + inserted.already),
                       place_at(self, inserted.spot, name));
}

// The arguments by name, priority and counts, behind the others.
bool named_arguments(PyObject* const* args, Py_ssize_t count, PyObject* keys, PyObject** priority, PyObject** counts) {
    for (Py_ssize_t at = 0; keys && at < PyTuple_GET_SIZE(keys); ++at) {
        PyObject* key = PyTuple_GET_ITEM(keys, at);
        if (PyUnicode_CompareWithASCIIString(key, "priority") == 0) {
            *priority = args[count + at];
        } else if (PyUnicode_CompareWithASCIIString(key, "counts") == 0) {
            *counts = args[count + at];
        } else {
            PyErr_Format(PyExc_TypeError, "an insert has no argument %R", key);
            return false;
        }
    }
    return true;
}

PyObject* insert(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keys) {
    PyObject *priority = nullptr, *counts = nullptr;
    if (!given_as_many(count, 3, "insert") || !named_arguments(args, count, keys, &priority, &counts)) return nullptr;
    Offer offer;
    Spot spot = {NOWHERE, 0};
    if (!open_offer(self, args[1], args[2], priority, counts, offer) || !root_of(owner(self), args[0], spot.branch))
        return nullptr;
    return insert_offer(self, spot, args[0], args[2], offer);
}

PyObject* insert_behind(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* keys) {
    PyObject *priority = nullptr, *counts = nullptr, *name = nullptr;
    if (!given_as_many(count, 3, "insert_behind") || !named_arguments(args, count, keys, &priority, &counts))
        return nullptr;
    Offer offer;
    Spot spot;
    if (!kept(self, args[0], spot, &name) || !open_offer(self, args[1], args[2], priority, counts, offer) ||
        !kept(self, args[0], spot, &name))
        return nullptr;
    return insert_offer(self, spot, name, args[2], offer);
}

// -- locks and eviction -------------------------------------------------------------------------------------------

PyObject* lock(PyObject* self, PyObject* place) {
    Spot spot;
    if (!checked(self, place, spot)) return nullptr;
    if (spot.branch >= 0 && spot.end > tree_of(self).branches[spot.branch].dev)
        return PyErr_Format(PyExc_ValueError, "this place is not resident: %d pages of its branch are, not %d",
                            tree_of(self).branches[spot.branch].dev, spot.end);
    return guarded([&]() -> PyObject* {
        tree_of(self).lock(spot);
        note(pool_at(self));
        Py_RETURN_NONE;
    });
}

PyObject* unlock(PyObject* self, PyObject* place) {
    Spot spot;
    return checked(self, place, spot) ? unlocked(self, spot) : nullptr;
}

PyObject* release(PyObject* self, PyObject* place) {
    Spot spot;
    return there(self, place, spot) ? unlocked(self, spot) : nullptr;
}

PyObject* evict(PyObject* self, PyObject* given) {
    int64_t pages;
    if (!whole(given, pages) || !ready(owner(self))) return nullptr;
    return evicted(self, [&] { return PyLong_FromLongLong(tree_of(self).evict(pages)); });
}

PyObject* evict_pages(PyObject* self, PyObject* given) {
    int64_t pages;
    if (!whole(given, pages) || !ready(owner(self))) return nullptr;
    return evicted(self, [&]() -> PyObject* {
        NoCollection none;  // which may take what is free now
        Tree& tree = tree_of(self);
        int64_t freed = tree.evict(pages);
        View out;
        Ref made = new_array(freed, names.int32, out);
        auto* into = reinterpret_cast<int32_t*>(out.bytes());
        if (made) tree.pool.copy_newest(into, freed);
        if (made) std::sort(into, into + freed);
        return made.release();
    });
}

// -- what is along a path -----------------------------------------------------------------------------------------

PyObject* check(PyObject* self, PyObject* place) {
    Spot spot;
    if (!checked(self, place, spot)) return nullptr;
    Ref branch(PyObject_GetAttrString(place, "branch"));
    return branch ? Py_BuildValue("Oi", branch.get(), spot.end) : nullptr;
}

PyObject* depth(PyObject* self, PyObject* place) {
    Spot spot;
    return there(self, place, spot) ? PyLong_FromLongLong(tree_of(self).depth(spot)) : nullptr;
}

PyObject* ascend(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t wanted;
    if (!given_as_many(count, 2, "ascend") || !count_of(args[1], wanted) || !there(self, args[0], spot)) return nullptr;
    Tree& tree = tree_of(self);
    if (wanted > tree.depth(spot))
        return PyErr_Format(PyExc_ValueError, "the path has %lld pages (asked for %lld)",
                            static_cast<long long>(tree.depth(spot)), static_cast<long long>(wanted));
    auto* place = reinterpret_cast<PlaceObject*>(args[0]);
    spot = tree.ascend(spot, wanted > 0 ? wanted : 0);
    PyObject* name = spot.branch >= 0      ? nullptr
                     : place->branch >= 0  ? static_cast<PyObject*>(tree.root(spot.branch).name)
                                           : place->name;
    return new_place(owner(self), spot, name, place->tick);
}

PyObject* path_pages(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t lo;
    return along(self, args, count, spot, lo, true) ? pages_on(self, spot, lo).release() : nullptr;
}

PyObject* path_units(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t lo;
    if (!along(self, args, count, spot, lo)) return nullptr;
    Tree& tree = tree_of(self);
    int64_t depth = tree.depth(spot);
    View out;
    PyObject* dtype = owner(self)->unit_bytes == 4 ? names.int32 : names.int64;
    Ref made = new_array(depth > lo ? (depth - lo) * tree.page_size : 0, dtype, out);
    for (; made && spot.branch >= 0; spot = {tree.branches[spot.branch].parent, tree.branches[spot.branch].at}) {
        const Branch& branch = tree.branches[spot.branch];
        int64_t start = lo > branch.base ? lo - branch.base : 0;
        if (start >= spot.end) break;
        std::memcpy(out.bytes() + (branch.base + start - lo) * tree.page_bytes, branch.data + start * tree.page_bytes,
                    (spot.end - start) * tree.page_bytes);
    }
    return made.release();
}

// runs(place, lo=0): the pages lo .. depth-1 of a path, branch by branch, from the root on.
PyObject* runs(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t lo;
    if (!along(self, args, count, spot, lo)) return nullptr;
    return guarded([&] {
        Array<Span> all;
        tree_of(self).path(spot, lo, all);
        return run_list(owner(self), all);
    });
}

PyObject* hits(PyObject* self, PyObject* place) {
    Spot spot;
    if (!there(self, place, spot)) return nullptr;
    return PyLong_FromLongLong(spot.branch < 0 ? 0 : tree_of(self).branches[spot.branch].nodes.hits_at(spot.end - 1));
}

PyObject* get_clock(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).clock); }
PyObject* get_evictable(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).evictable); }
PyObject* get_evicted(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).evicted); }
PyObject* get_evicted_host(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).evicted_host); }
PyObject* get_protected(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).guarded); }
PyObject* get_page_size(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).page_size); }
PyObject* get_pool(PyObject* self, void*) { return Py_NewRef(owner(self)->pool); }
PyObject* get_host(PyObject* self, void*) { return Py_NewRef(owner(self)->host ? owner(self)->host : Py_None); }
PyObject* get_write_back(PyObject* self, void*) { return PyBool_FromLong(tree_of(self).write_back); }
PyObject* get_restored_counts(PyObject* self, void*) { return PyBool_FromLong(tree_of(self).restored_counts); }

// The hooks: what its closure points to.
PyObject* get_hook(PyObject* self, void* which) {
    PyObject* hook = which ? owner(self)->spill : owner(self)->tell;
    return Py_NewRef(hook ? hook : Py_None);
}

int set_hook(PyObject* self, PyObject* given, void* which) {
    Ref old(which ? owner(self)->spill : owner(self)->tell);
    PyObject* hook = !given || given == Py_None ? nullptr : Py_NewRef(given);
    (which ? owner(self)->spill : owner(self)->tell) = hook;
    set_hooks(owner(self));
    return 0;
}

int spill_hook;  // its address says which

PyMethodDef methods[] = {
    {"match", fast(match), METH_FASTCALL, "match(namespace, units): the longest known prefix; all of it is used now."},
    {"match_pages", fast(match_pages), METH_FASTCALL, "The same, with the pages of the prefix."},
    {"takes", takes, METH_O, "Whether these units are taken as they are: nothing is to be made of them."},
    {"takes_tokens", takes_tokens, METH_O, "Whether these may be cached as they are: each has 32 bits and no sign."},
    {"find", fast(find), METH_FASTCALL, "The same without a use."},
    {"resume", fast(resume), METH_FASTCALL, "resume(place, units): match from a place on that is locked."},
    {"insert", fast(insert), METH_FASTCALL | METH_KEYWORDS, "insert(namespace, units, pages, *, priority, counts)."},
    {"insert_behind", fast(insert_behind), METH_FASTCALL | METH_KEYWORDS, "insert_behind(place, units, pages, ...)."},
    {"lock", lock, METH_O, "Protect the path to a place once more."},
    {"unlock", unlock, METH_O, "Give one protection back."},
    {"release", release, METH_O, "The same for whoever holds the lock, so that the place can't be gone."},
    {"evict", evict, METH_O, "Free so many pages, or as many as are not locked; returns how many."},
    {"evict_pages", evict_pages, METH_O, "The same; returns which they are."},
    {"begin", fast(begin), METH_FASTCALL, "A request's first step at once."},
    {"store", fast(store), METH_FASTCALL, "Cache what a request has computed."},
    {"leave", fast(leave), METH_FASTCALL, "A request's last step at once."},
    {"fill", fast(fill), METH_FASTCALL, "Write the slots of a path into a row."},
    {"check", check, METH_O, "Branch and end of a place; raises StaleHandle where it is gone."},
    {"depth", depth, METH_O, "How many pages a prefix has."},
    {"ascend", fast(ascend), METH_FASTCALL, "ascend(place, depth): the place so deep on the path to this one."},
    {"path_pages", fast(path_pages), METH_FASTCALL, "path_pages(place, lo=0): the pages of a path."},
    {"path_units", fast(path_units), METH_FASTCALL, "path_units(place, lo=0): the units of a path."},
    {"runs", fast(runs), METH_FASTCALL, "runs(place, lo=0): a path, branch by branch."},
    {"hits", hits, METH_O, "How many hits the last page of a prefix has."},
    {"export", export_all, METH_NOARGS, "All that there is."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"clock", get_clock, nullptr, "Raised by every use.", nullptr},
    {"evictable", get_evictable, nullptr, "Pages that could be evicted.", nullptr},
    {"evicted", get_evicted, nullptr, "Pages that were evicted from the device.", nullptr},
    {"evicted_host", get_evicted_host, nullptr, "Pages that were evicted from the host.", nullptr},
    {"protected", get_protected, nullptr, "Pages that are locked.", nullptr},
    {"page_size", get_page_size, nullptr, "Units per page.", nullptr},
    {"pool", get_pool, nullptr, "Where its pages are from.", nullptr},
    {"host", get_host, nullptr, "Where its host pages are from; None where there is no host.", nullptr},
    {"write_back", get_write_back, nullptr, "Whether pages are written to the host when they are evicted.", nullptr},
    {"restored_counts", get_restored_counts, nullptr, "Whether the insert that brings a page back is a hit.", nullptr},
    {"tell", get_hook, set_hook, "tell(what, tier, run): hears which pages come to a tier or leave it.", nullptr},
    {"spill", get_hook, set_hook, "spill(run): gives pages host copies that are to leave the device.", &spill_hook},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, const_cast<char*>("Tree(page_size, policy, pool, unit_bytes): prefixes to pages.")},
    {0, nullptr},
};

PyType_Spec spec = {"kvlitmus.optimized._core.Tree", sizeof(TreeObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};

}  // namespace

bool root_of(TreeObject* tree, PyObject* name, int32_t& root) {
    if (!ready(tree)) return false;
    Lookup looking(tree);
    root = NOWHERE;
    PyObject* known = PyDict_GetItemWithError(tree->roots, name);
    if (!known) return !PyErr_Occurred();
    int64_t entry = PyLong_AsLongLong(known);
    int32_t number = -static_cast<int32_t>(entry & UINT32_MAX);
    if (entry_of(*tree->tree, number) == entry) root = number;
    return true;
}

bool add_tree(PyObject* module) {
    Ref type(PyType_FromSpec(&spec));
    for (PyMethodDef* method = tier_methods; type && method->ml_name; ++method) {
        Ref made(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.get()), method));
        if (!made || PyObject_SetAttrString(type.get(), method->ml_name, made.get()) < 0) return false;
    }
    return type && PyModule_AddObjectRef(module, "Tree", type.get()) == 0;
}

}  // namespace kvlitmus
