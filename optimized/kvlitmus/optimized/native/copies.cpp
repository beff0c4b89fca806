// How copies between device and host begin and end, each in one call (kvlitmus.optimized.backup and load say what they do).
//
// A mover is asked in the midst of a call: nothing may say that there is a copy before one was submitted, and what takes
// memory to say so is there before.  It is Python, and may run anything: the pages that it is given are locked or pinned
// meanwhile.
#include "runs.h"

namespace kvlitmus {
namespace {

// What is told of a copy that is under way, and the numbers of its pages.
struct Copy {
    Ref told;  // (place, runs, device pages, host pages, ticket)
    View device, host;
    bool refused = false;  // by the mover

    // Have all but the ticket, with no numbers in it yet; false with an exception.
    bool make(Ref place, Ref runs, int64_t pages) {
        Ref on_device = new_array(pages, names.int32, device);
        Ref on_host = on_device ? new_array(pages, names.int32, host) : Ref();
        told = Ref(place && runs && on_host ? PyTuple_New(5) : nullptr);
        if (!told) return false;
        PyTuple_SET_ITEM(told.get(), 0, place.release());
        PyTuple_SET_ITEM(told.get(), 1, runs.release());
        PyTuple_SET_ITEM(told.get(), 2, on_device.release());
        PyTuple_SET_ITEM(told.get(), 3, on_host.release());
        return true;
    }

    // Ask the mover to copy from one to the other, which are told at these places; false with its exception.
    bool submit(PyObject* mover, Py_ssize_t from, Py_ssize_t to) {
        PyObject* given[] = {PyTuple_GET_ITEM(told.get(), from), PyTuple_GET_ITEM(told.get(), to)};
        PyObject* ticket = PyObject_Vectorcall(mover, given, 2, nullptr);
        if (ticket) PyTuple_SET_ITEM(told.get(), 4, ticket);
        refused = !ticket;
        return !refused;
    }

    int32_t* device_pages() const { return reinterpret_cast<int32_t*>(device.bytes()); }
    int32_t* host_pages() const { return reinterpret_cast<int32_t*>(host.bytes()); }
};

// The exception that is set, as an object; empty, and it stays set, where it is one that ends the program.
Ref contained() {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) return Ref();
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return Ref(value);
}

void set_item(const Ref& tuple, Py_ssize_t at, Ref item) {
    Ref old(PyTuple_GET_ITEM(tuple.get(), at));
    PyTuple_SET_ITEM(tuple.get(), at, item.release());
}

// Begin the backup of a node; false where the host has no room, or, with an exception, where it failed.
bool begin_backup(PyObject* self, Span node, PyObject* mover, Copy& copy) {
    Tree& tree = tree_of(self);
    int64_t pages = node.hi - node.lo;
    if (pages > tree.host->free_count()) tree.evict_host(pages - tree.host->free_count());  // which may tell it
    const Branch& branch = tree.branches[node.branch];
    if (pages > tree.host->free_count() || node.hi > branch.dev) return false;
    Spot end = {node.branch, node.hi};
    {
        NoCollection none;  // until the path is locked
        Ref run(new_run(owner(self), node)), runs(run ? PyTuple_Pack(1, run.get()) : nullptr);
        if (!copy.make(Ref(new_place(owner(self), end, nullptr, ALWAYS)), std::move(runs), pages)) return false;
        tree.room_to_lock(node.branch);
        tree.lock(end);
    }
    std::memcpy(copy.device_pages(), pages_of(branch, tree.page_bytes) + node.lo, pages * sizeof(int32_t));
    tree.host->take(pages, copy.host_pages());
    note(pool_at(self));
    if (copy.submit(mover, 2, 3)) {
        tree.give_host(node, copy.host_pages(), BUSY);
        return true;
    }
    tree.host->take_back(copy.host_pages(), pages, USED);
    tree.unlock(end);
    return false;
}

// Have so many device pages free, with the path to a spot locked meanwhile; whether they are.
bool room_on_device(Tree& tree, Spot spot, int64_t pages) {
    int64_t lacking = pages - tree.pool.free_count();
    if (lacking <= 0) return true;
    tree.lock(spot);
    try {
        tree.evict(lacking);
    } catch (...) {
        tree.unlock(spot);
        throw;
    }
    tree.unlock(spot);
    return pages <= tree.pool.free_count();
}

// Load these runs, which are pinned: the pages of a path behind its resident part.  False where the device has no room,
// or, with an exception, where it failed.
bool begin_load(PyObject* self, Spot spot, PyObject* name, const Array<Span>& runs, PyObject* mover, Copy& copy) {
    Tree& tree = tree_of(self);
    Spot end = tree.resident(spot);
    int64_t before = tree.depth(end), pages = tree.depth(spot) - before;
    if (!room_on_device(tree, end, pages)) return false;
    {
        NoCollection none;  // until the pages are taken
        if (!copy.make(Ref(place_at(self, spot, name)), Ref(run_list(owner(self), runs)), pages)) return false;
        tree.room_to_lock(spot.branch);
        tree.along(spot, before, [&](const Branch& branch, Span run) {
            std::memcpy(copy.host_pages() + (branch.base + run.lo - before), tree.on_host(branch).copies + run.lo,
                        (run.hi - run.lo) * sizeof(int32_t));
        });
        tree.pool.take(pages, copy.device_pages());
    }
    if (!copy.submit(mover, 3, 2)) {
        tree.pool.take_back(copy.device_pages(), pages, USED);
        return false;
    }
    bool same = std::all_of(runs.begin(), runs.end(), [&](const Span& run) { return tree.branches[run.branch].dev == run.lo; });
    if (!same || tree.make_resident(runs.begin(), runs.size(), copy.device_pages(), pages) != FINE) {
        PyErr_SetString(PyExc_SystemError, "a mover must not change the cache that asks it");
        return false;
    }
    tree.lock(spot);
    return true;
}

}  // namespace

// back_up(place, closed, uses, submit): begin the backups that are due where an insert has used a path.  How many of its
// pages had host copies before, the copies, and the error that no further one began for, or None.
PyObject* back_up(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t uses;
    if (!given_as_many(count, 4, "back_up") || !count_of(args[2], uses) || !hosted(self) || !there(self, args[0], spot))
        return nullptr;
    PyObject* made = guarded([&]() -> PyObject* {
        Tree& tree = tree_of(self);
        int64_t backed = tree.backed(spot, args[1] == Py_True);
        Array<Span> nodes;
        if (uses) tree.due(spot, backed, uses, nodes);
        auto most = static_cast<Py_ssize_t>(nodes.size());
        PyObject* copies = PyList_New(most);
        Ref answer(Py_BuildValue("LNO", static_cast<long long>(backed), copies, Py_None));
        Py_ssize_t begun = 0;
        for (bool more = static_cast<bool>(answer); more && begun < most;) {
            Copy copy;
            try {
                more = begin_backup(self, nodes[begun], args[3], copy);
            } catch (const std::bad_alloc&) {
                PyErr_NoMemory();
                more = false;
            } catch (const Raised&) {
                more = false;
            }
            if (more) {
                PyList_SET_ITEM(copies, begun++, copy.told.release());
            } else if (PyErr_Occurred()) {
                Ref error = contained();
                if (!error) return nullptr;
                set_item(answer, 2, std::move(error));
            }
        }
        if (answer) Py_SET_SIZE(reinterpret_cast<PyVarObject*>(copies), begun);
        return answer.release();
    });
    sweep(owner(self));  // of what was evicted to make room
    return made;
}

// end_backup(place, runs): a backup is acknowledged: the path to its end is unlocked, and its host copies are free to use.
PyObject* end_backup(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!given_as_many(count, 2, "end_backup")) return nullptr;
    return with_runs(self, args[1], [&](const Runs& runs) -> PyObject* {
        Spot spot;
        if (!there(self, args[0], spot)) return nullptr;
        tree_of(self).flag(runs.begin(), runs.size(), 0, BUSY);
        return unlocked(self, spot);
    });
}

// load_back(namespace, units, threshold, quota, submit): bring what a key has on the host alone to the device.  How many
// of its pages were resident; the copy, or () where nothing follows them, or None where it is declined or memory is
// short; and the error that it was not submitted for, or None.
PyObject* load_back(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t threshold, quota = INT64_MAX;
    if (!given_as_many(count, 5, "load_back") || !count_of(args[2], threshold) ||
        (args[3] != Py_None && !whole(args[3], quota)) || !hosted(self) || !matched(self, args[0], args[1], spot))
        return nullptr;
    Tree& tree = tree_of(self);
    Spot end = tree.resident(spot);
    int64_t before = tree.depth(end), behind = tree.depth(spot) - before, size = tree.page_size;
    auto shown = static_cast<long long>(before);
    bool worth = behind * size >= threshold && (tree.depth(spot) - tree.locked_pages(end)) * size <= quota;
    if (!worth || !behind) {
        PyObject* answer = worth ? Py_BuildValue("L()O", shown, Py_None) : Py_BuildValue("LOO", shown, Py_None, Py_None);
        if (answer) note(pool_at(self));
        return answer;
    }
    Changed changed(self);
    Array<Span> runs;
    bool pinned = false;
    PyObject* answer = guarded([&]() -> PyObject* {
        tree.path(spot, before, runs);
        Ref made(Py_BuildValue("LOO", shown, Py_None, Py_None));
        if (!made) return nullptr;
        tree.pin(runs.begin(), runs.size(), 1);
        pinned = true;
        note(pool_at(self));
        Copy copy;
        if (begin_load(self, spot, args[0], runs, args[4], copy)) {
            set_item(made, 1, std::move(copy.told));
            pinned = false;  // until it ends
        } else if (PyErr_Occurred()) {
            Ref error = copy.refused ? contained() : Ref();
            if (!error) return nullptr;
            set_item(made, 2, std::move(error));
        }
        return made.release();
    });
    if (pinned) tree.pin(runs.begin(), runs.size(), -1);
    if (!answer) changed.settle();
    sweep(owner(self));
    return answer;
}

// end_load(place, runs): a load is acknowledged: the path to its end is unlocked, and its host copies are unpinned.
PyObject* end_load(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!given_as_many(count, 2, "end_load")) return nullptr;
    return with_runs(self, args[1], [&](const Runs& runs) -> PyObject* {
        Spot spot;
        if (!there(self, args[0], spot)) return nullptr;
        if (!tree_of(self).pin(runs.begin(), runs.size(), -1))
            return PyErr_Format(PyExc_ValueError, "the host copies of this load are not pinned");
        return unlocked(self, spot);
    });
}

}  // namespace kvlitmus
