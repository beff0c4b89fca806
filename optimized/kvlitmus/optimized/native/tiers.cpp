// What a tree with a host does besides, for Python (tiers.h says what that is).
#include "runs.h"

namespace kvlitmus {
namespace {

// -- hooks --------------------------------------------------------------------------------------------------------

void told_hook(void* context, bool stored, Tier tier, Span pages) {
    auto* tree = static_cast<TreeObject*>(context);
    note(reinterpret_cast<PoolObject*>(tree->pool));
    Ref hook(Py_NewRef(tree->tell)), run(new_run(tree, pages));
    Ref heard(run ? PyObject_CallFunction(hook.get(), "ssO", stored ? "stored" : "removed",
                                          tier == Tier::host ? "host" : "device", run.get())
                  : nullptr);
    if (heard) return;
    // What it was to hear has happened, or is about to; only for want of memory it may be as if nobody had begun.
    if (stored || !PyErr_ExceptionMatches(PyExc_MemoryError)) tear(reinterpret_cast<PoolObject*>(tree->pool));
    throw Raised();
}

int64_t spill_hook(void* context, Span pages) {
    auto* tree = static_cast<TreeObject*>(context);
    note(reinterpret_cast<PoolObject*>(tree->pool));
    Ref hook(Py_NewRef(tree->spill)), run(new_run(tree, pages));
    Ref written(run ? PyObject_CallOneArg(hook.get(), run.get()) : nullptr);
    int64_t count = written ? PyLong_AsLongLong(written.get()) : -1;
    if (PyErr_Occurred()) throw Raised();
    return count;
}

// Calls `work` with the run of the last page of a prefix, unless it is a root's.
template <typename Work>
PyObject* with_last(PyObject* self, PyObject* place, Work work) {
    Spot spot;
    if (!hosted(self) || !there(self, place, spot)) return nullptr;
    if (spot.branch < 0) Py_RETURN_NONE;
    return work(Span{spot.branch, spot.end - 1, spot.end});
}

// -- pages --------------------------------------------------------------------------------------------------------

PyObject* evict_host(PyObject* self, PyObject* given) {
    int64_t pages;
    if (!whole(given, pages) || !hosted(self)) return nullptr;
    return evicted(self, [&] { return PyLong_FromLongLong(tree_of(self).evict_host(pages)); });
}

// insert_host(anchor, units, pages): how many were known, and how many were cached.
PyObject* insert_host(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    PyObject* name = nullptr;
    View units, pages;
    if (!given_as_many(count, 3, "insert_host") || !hosted(self) || !open_units(self, args[1], units) ||
        !pages.open(args[2], owner(self)->host, "brought") || !checked(self, args[0], spot, &name))
        return nullptr;
    Tree& tree = tree_of(self);
    int64_t most = std::min(pages.count(), units.count() / tree.page_size);
    if (!most) return Py_BuildValue("ii", 0, 0);
    if (spot.branch == NOWHERE && !have_root(owner(self), name, spot.branch)) return nullptr;
    PyObject* answer = guarded([&] {
        Tree::Restored made =
            pages.numbers([&](auto* numbers) { return tree.insert_host(spot, units.bytes(), numbers, most); });
        note(pool_at(self));
        return Py_BuildValue("LL", static_cast<long long>(made.known), static_cast<long long>(made.added));
    });
    sweep(owner(self));
    return answer;
}

// give_host(run, pages, settled, stored): host copies in these host pages.
PyObject* give_host(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Span run;
    View pages;
    if (!given_as_many(count, 4, "give_host") || !hosted(self) || !open_run(self, args[0], run) ||
        !pages.open(args[1], owner(self)->host, "brought") || !open_run(self, args[0], run))
        return nullptr;
    if (pages.count() != run.hi - run.lo)
        return PyErr_Format(PyExc_ValueError, "%d pages have as many host pages", run.hi - run.lo);
    uint8_t flags = (args[2] == Py_True ? SETTLED : 0) | (args[3] == Py_True ? STORED : 0);
    pages.numbers([&](auto* numbers) {
        tree_of(self).give_host(run, numbers, flags);
        return 0;
    });
    return done(self);
}

// Memory for what a copy of pages of this branch takes: there is room for host copies, so it is that of a lock.
PyObject* room_for_copies(PyObject* self, PyObject* given) {
    int32_t number;
    if (!hosted(self) || !open_branch(self, given, number)) return nullptr;
    return guarded([&]() -> PyObject* {
        tree_of(self).room_to_lock(number);
        Py_RETURN_NONE;
    });
}

PyObject* take_host(PyObject* self, PyObject* given) {
    return with_runs(self, given, [&](const Runs& runs) {
        for (const Span& run : runs) tree_of(self).take_host(run);
        return done(self);
    });
}

// make_resident(runs, pages): what is on the host alone is on the device, too.
PyObject* make_resident(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    View pages;
    if (!given_as_many(count, 2, "make_resident") || !pages.open(args[1], owner(self)->pool, "brought")) return nullptr;
    return with_runs(self, args[0], [&](const Runs& runs) -> PyObject* {
        int64_t total = 0;
        for (const Span& run : runs) {
            int32_t dev = tree_of(self).branches[run.branch].dev;
            if (run.lo != dev)
                return PyErr_Format(PyExc_ValueError, "what comes back follows the resident part (which ends at %d, not %d)",
                                    dev, run.lo);
            total += run.hi - run.lo;
        }
        if (total != pages.count())
            return PyErr_Format(PyExc_ValueError, "%lld pages come back in as many", static_cast<long long>(total));
        int64_t wrong = pages.numbers(
            [&](auto* numbers) { return tree_of(self).make_resident(runs.begin(), runs.size(), numbers, total); });
        if (wrong == FINE) return done(self);
        Ref made(PyObject_CallMethod(owner(self)->pool, "refuse", "OLs", args[1], static_cast<long long>(wrong), "cached"));
        if (made) PyErr_SetString(PyExc_SystemError, "a page that is refused was not");
        return nullptr;
    });
}

// leave_from(runs): these, which are the last resident pages of their branches, leave the device; the last run first.
PyObject* leave_from(PyObject* self, PyObject* given) {
    PyObject* answer = with_runs(self, given, [&](const Runs& runs) {
        for (size_t at = runs.size(); at-- > 0;) tree_of(self).leave_from(runs[at].branch, runs[at].lo);
        return done(self);
    });
    sweep(owner(self));
    return answer;
}

// -- who keeps host copies, and what is known of them -------------------------------------------------------------

PyObject* pin(PyObject* self, PyObject* given) {
    return with_runs(self, given, [&](const Runs& runs) {
        tree_of(self).pin(runs.begin(), runs.size(), 1);
        return done(self);
    });
}

PyObject* not_pinned(Span run) {
    return PyErr_Format(PyExc_ValueError, "pages %d to %d of this branch are not all pinned", run.lo, run.hi);
}

PyObject* unpin(PyObject* self, PyObject* given) {
    return with_runs(self, given, [&](const Runs& runs) {
        if (!runs.empty() && !tree_of(self).pin(runs.begin(), runs.size(), -1)) return not_pinned(runs[0]);
        return done(self);
    });
}

PyObject* pin_place(PyObject* self, PyObject* place) {
    return with_last(self, place, [&](Span last) {
        tree_of(self).pin(&last, 1, 1);
        return done(self);
    });
}

PyObject* unpin_place(PyObject* self, PyObject* place) {
    return with_last(self, place, [&](Span last) { return tree_of(self).pin(&last, 1, -1) ? done(self) : not_pinned(last); });
}

template <bool ADD>
PyObject* change_flags(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    int64_t flags;
    if (!given_as_many(count, 2, "this") || !count_of(args[1], flags)) return nullptr;
    return with_runs(self, args[0], [&](const Runs& runs) {
        auto bits = static_cast<uint8_t>(flags);
        tree_of(self).flag(runs.begin(), runs.size(), ADD ? bits : 0, ADD ? 0 : bits);
        return done(self);
    });
}

PyObject* clear_all_flags(PyObject* self, PyObject* given) {
    int64_t flags;
    if (!count_of(given, flags) || !hosted(self)) return nullptr;
    Tree& tree = tree_of(self);
    for (size_t number = 0; number < tree.branches.made(); ++number) {
        Span all = {static_cast<int32_t>(number), 0, tree.branches[number].n};
        if (all.hi) tree.flag(&all, 1, 0, static_cast<uint8_t>(flags));
    }
    return done(self);
}

// -- what is along a path -----------------------------------------------------------------------------------------

PyObject* has_host_copy(PyObject* self, PyObject* place) {
    Spot spot;
    return hosted(self) && there(self, place, spot) ? PyBool_FromLong(tree_of(self).has_copy(spot)) : nullptr;
}

PyObject* locked_pages(PyObject* self, PyObject* place) {
    Spot spot;
    return there(self, place, spot) ? PyLong_FromLongLong(tree_of(self).locked_pages(spot)) : nullptr;
}

// backed(place, closed): how many pages of a path have host copies, from its first one on.
PyObject* backed(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    if (!given_as_many(count, 2, "backed") || !hosted(self) || !there(self, args[0], spot)) return nullptr;
    return PyLong_FromLongLong(tree_of(self).backed(spot, args[1] == Py_True));
}

// due(place, lo, uses): the pages lo .. depth-1 of a path, node by node, up to the first node without so many hits.
PyObject* due(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t lo, uses;
    if (!given_as_many(count, 3, "due") || !count_of(args[2], uses) || !along(self, args, 2, spot, lo)) return nullptr;
    return guarded([&] {
        Array<Span> nodes;
        tree_of(self).due(spot, lo, uses, nodes);
        return run_list(owner(self), nodes);
    });
}

// The numbers of these pages on a tier, or their flags.
template <typename Copy>
PyObject* array_of(int64_t count, PyObject* dtype, Copy copy) {
    View out;
    Ref made = new_array(count, dtype, out);
    if (made) copy(out.bytes());
    return made.release();
}

PyObject* device_run(PyObject* self, PyObject* given) {
    Span run;
    if (!open_run(self, given, run)) return nullptr;
    const Branch& branch = tree_of(self).branches[run.branch];
    run.hi = std::max(run.lo, std::min(run.hi, branch.dev));
    return array_of(run.hi - run.lo, names.int32, [&](char* into) {
        std::memcpy(into, pages_of(branch, tree_of(self).page_bytes) + run.lo, (run.hi - run.lo) * sizeof(int32_t));
    });
}

PyObject* host_run(PyObject* self, PyObject* given) {
    Span run;
    if (!hosted(self) || !open_run(self, given, run)) return nullptr;
    return array_of(run.hi - run.lo, names.int32, [&](char* into) {
        OnHost on = tree_of(self).on_host(tree_of(self).branches[run.branch]);
        std::memcpy(into, on.copies + run.lo, (run.hi - run.lo) * sizeof(int32_t));
    });
}

PyObject* flags(PyObject* self, PyObject* given) {
    Span run;
    if (!hosted(self) || !open_run(self, given, run)) return nullptr;
    return array_of(run.hi - run.lo, names.uint8, [&](char* into) {
        OnHost on = tree_of(self).on_host(tree_of(self).branches[run.branch]);
        std::memcpy(into, on.flags + run.lo, run.hi - run.lo);
    });
}

PyObject* path_host_pages(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t lo;
    if (!hosted(self) || !along(self, args, count, spot, lo)) return nullptr;
    Tree& tree = tree_of(self);
    int64_t depth = tree.depth(spot);
    return array_of(depth > lo ? depth - lo : 0, names.int32, [&](char* into) {
        tree.along(spot, lo, [&](const Branch& branch, Span run) {
            std::memcpy(into + (branch.base + run.lo - lo) * sizeof(int32_t), tree.on_host(branch).copies + run.lo,
                        (run.hi - run.lo) * sizeof(int32_t));
        });
    });
}

// place(branch, end): the place in a branch that is there; whoever asks knows that it is not another one's by now.
PyObject* place(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    int32_t number;
    int64_t end;
    if (!given_as_many(count, 2, "place") || !count_of(args[1], end) || !open_branch(self, args[0], number)) return nullptr;
    if (end < 1 || end > tree_of(self).branches[number].n) {
        stale("these pages are gone");
        return nullptr;
    }
    return new_place(owner(self), {number, static_cast<int32_t>(end)}, nullptr, ALWAYS);
}

// All branches, each after its parent.
PyObject* branches(PyObject* self, PyObject*) {
    return guarded([&] {
        Tree& tree = tree_of(self);
        Array<Span> all;
        all.reserve(tree.branches.in_use());
        for (size_t number = 0; number < tree.branches.made(); ++number)
            if (int32_t n = tree.branches[number].n) all.push({static_cast<int32_t>(number), 0, n});
        std::sort(all.begin(), all.end(), [&](const Span& one, const Span& other) {
            return tree.branches[one.branch].base < tree.branches[other.branch].base;
        });
        NoCollection none;
        Ref list(PyList_New(0));
        for (const Span& one : all) {
            Ref shadow(branch_shadow(owner(self), one.branch));
            if (!list || !shadow || PyList_Append(list.get(), shadow.get()) < 0) return static_cast<PyObject*>(nullptr);
        }
        return list.release();
    });
}

// -- what depends on copies that have failed ----------------------------------------------------------------------

PyObject* relied_on(PyObject* self, PyObject* given) {
    return with_runs(self, given, [&](const Runs& runs) {
        return PyBool_FromLong(tree_of(self).relied_on(runs.begin(), runs.size()));
    });
}

PyObject* depended_on(PyObject* self, PyObject* given) {
    return with_runs(self, given, [&](const Runs& runs) {
        bool found = std::any_of(runs.begin(), runs.end(), [&](const Span& run) { return tree_of(self).depended_on(run); });
        return PyBool_FromLong(found);
    });
}

}  // namespace

void set_hooks(TreeObject* owner) {
    owner->tree->context = owner;
    owner->tree->told = owner->tell ? told_hook : nullptr;
    owner->tree->spill = owner->spill && owner->host ? spill_hook : nullptr;
}

PyMethodDef tier_methods[] = {
    {"evict_host", evict_host, METH_O, "Free so many host pages of what is there alone; returns how many."},
    {"insert_host", fast(insert_host), METH_FASTCALL, "insert_host(anchor, units, pages): cache what was read."},
    {"give_host", fast(give_host), METH_FASTCALL, "give_host(run, pages, settled, stored): host copies of a run."},
    {"room_for_copies", room_for_copies, METH_O, "Memory for what a copy of pages of this branch takes."},
    {"take_host", take_host, METH_O, "These runs have no host copies any more."},
    {"make_resident", fast(make_resident), METH_FASTCALL, "make_resident(runs, pages): they are on the device, too."},
    {"leave_from", leave_from, METH_O, "These runs leave the device."},
    {"pin", pin, METH_O, "Keep the host copies of some runs once more."},
    {"unpin", unpin, METH_O, "Give one pin of each back."},
    {"pin_place", pin_place, METH_O, "Keep the host copy of the last page of a prefix."},
    {"unpin_place", unpin_place, METH_O, "Give that back."},
    {"set_flags", fast(change_flags<true>), METH_FASTCALL, "set_flags(runs, flags): add flags."},
    {"clear_flags", fast(change_flags<false>), METH_FASTCALL, "clear_flags(runs, flags): take flags."},
    {"clear_all_flags", clear_all_flags, METH_O, "Take flags from all host copies."},
    {"has_host_copy", has_host_copy, METH_O, "Whether the last page of a prefix has a host copy; a root needs none."},
    {"locked_pages", locked_pages, METH_O, "How many of the resident pages of a path are protected."},
    {"backed", fast(backed), METH_FASTCALL, "backed(place, closed): how many pages have host copies, from the root on."},
    {"due", fast(due), METH_FASTCALL, "due(place, lo, uses): the nodes of a path that were used so often."},
    {"device_run", device_run, METH_O, "The device pages of a run."},
    {"host_run", host_run, METH_O, "The host pages of a run."},
    {"flags", flags, METH_O, "The flags of a run's host copies."},
    {"path_host_pages", fast(path_host_pages), METH_FASTCALL, "path_host_pages(place, lo=0): the host pages of a path."},
    {"place", fast(place), METH_FASTCALL, "place(branch, end): the prefix that ends there."},
    {"branches", branches, METH_NOARGS, "All branches, each after its parent."},
    {"back_up", fast(back_up), METH_FASTCALL, "back_up(place, closed, uses, submit): begin the backups that are due."},
    {"end_backup", fast(end_backup), METH_FASTCALL, "end_backup(place, runs): they are acknowledged."},
    {"load_back", fast(load_back), METH_FASTCALL, "load_back(namespace, units, threshold, quota, submit): begin a load."},
    {"end_load", fast(end_load), METH_FASTCALL, "end_load(place, runs): it is acknowledged."},
    {"begin_puts", fast(begin_puts), METH_FASTCALL, "begin_puts(runs, names): begin to put what waits for it."},
    {"end_put", end_put, METH_O, "A put of these runs is over."},
    {"relied_on", relied_on, METH_O, "Whether somebody else needs the pages of these runs on the device."},
    {"depended_on", depended_on, METH_O, "Whether somebody needs the host copies of these runs."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace kvlitmus
