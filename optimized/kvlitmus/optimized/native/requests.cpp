// The steps of a request, each in one call (kvlitmus.optimized.request says what they are).
#include "calls.h"

namespace kvlitmus {

// begin(namespace, units, length): match and lock, make room, and spell the row of so many slots out; (place, row,
// cached slots), or None where there is no room.
PyObject* begin(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t length;
    if (!given_as_many(count, 3, "begin") || !count_of(args[2], length)) return nullptr;
    Tree& tree = tree_of(self);
    Pool& pool = tree.pool;
    if (!matched(self, args[0], args[1], spot)) return nullptr;
    spot = tree.resident(spot);
    int64_t size = pool.page_size, shared = tree.depth(spot), own = (length + size - 1) / size - shared;
    bool locked = false;
    Changed changed(self);
    Array<int32_t> pages;
    PyObject* answer = guarded([&]() -> PyObject* {
        NoCollection none;  // from the lock on until the pages are taken
        pages.reserve(shared + (own > 0 ? own : 0));
        tree.lock(spot);
        locked = true;
        Ref place(place_at(self, spot, args[0]));
        if (!place) return nullptr;
        if (own > pool.free_count()) tree.evict(own - pool.free_count());
        if (own > pool.free_count()) Py_RETURN_NONE;
        View out;
        Ref row = new_array(length, names.int64, out), cached(PyLong_FromLongLong(shared * size));
        Ref begun(row && cached ? PyTuple_Pack(3, place.get(), row.get(), cached.get()) : nullptr);
        if (!begun) return nullptr;
        tree.path_pages(spot, 0, pages.begin());
        pool.take(own, pages.begin() + shared);
        auto* into = reinterpret_cast<int64_t*>(out.bytes());
        for (int64_t at = 0; at < length; ++at) {
            int64_t slot = pages[at / size] * size, stop = at + size < length ? at + size : length;
            for (into[at] = slot; ++at < stop;) into[at] = ++slot;
            --at;
        }
        note(pool_at(self));
        return begun.release();
    });
    if (!answer) changed.settle();
    if (locked && (!answer || answer == Py_None)) tree.unlock(spot);
    sweep(owner(self));
    return answer;
}

// store(place, units, row, start, counts, lock, priority): insert the pages of the row from `start` on, as many as the units fill,
// take those back that were cached already, and lock where they end, if asked to; the place of that.
PyObject* store(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    PyObject* name = nullptr;
    View units, row;
    int64_t start, priority;
    if (!given_as_many(count, 7, "store") || !count_of(args[3], start) || !whole(args[6], priority) || !kept(self, args[0], spot, &name) ||
        !open_units(self, args[1], units) || !open_row(args[2], row) || !kept(self, args[0], spot, &name))
        return nullptr;
    Tree& tree = tree_of(self);
    int64_t size = tree.page_size, pages = units.count() / size, above = tree.depth(spot);
    if (start != above * size || start + pages * size > row.count())
        return PyErr_Format(PyExc_ValueError, "the row does not go with the units");
    RowPages own = {reinterpret_cast<const int64_t*>(row.bytes()) + start, size};
    Tree::Inserted inserted{};
    bool done = insert_at(self, spot, name, units.bytes(), own, pages, priority, args[4] == Py_True, args[5] == Py_True, inserted);
    int64_t wrong = inserted.wrong;
    if (done && wrong == FINE) {
        note(pool_at(self));
        try {
            wrong = tree.pool.take_back(own, inserted.already, USED);
            if (wrong == FINE && args[5] == Py_True) tree.lock(inserted.spot);
        } catch (const std::bad_alloc&) {
            PyErr_NoMemory();
            done = false;
        }
    }
    sweep(owner(self));  // which may run anything
    if (!done) return nullptr;
    if (wrong == FINE) return place_at(self, inserted.spot, name);
    int64_t first = inserted.wrong == FINE ? 0 : inserted.already, last = inserted.wrong == FINE ? inserted.already : pages;
    Ref made(PyObject_CallMethod(owner(self)->pool, "refuse_row", "OLLLs", args[2], static_cast<long long>(start + first * size),
                                 static_cast<long long>(start + last * size), static_cast<long long>(wrong - first),
                                 inserted.wrong == FINE ? "freed" : "cached"));
    if (made) PyErr_SetString(PyExc_SystemError, "a page that is refused was not");
    return nullptr;
}

// leave(place, row, start, end): take the pages of these slots of a row back, and unlock the place.
PyObject* leave(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    View row;
    int64_t start, end;
    if (!given_as_many(count, 4, "leave") || !count_of(args[2], start) || !count_of(args[3], end) ||
        !open_row(args[1], row) || !there(self, args[0], spot))
        return nullptr;
    Tree& tree = tree_of(self);
    int64_t size = tree.page_size, wrong = FINE;
    if (start < 0 || start % size || end > row.count())
        return PyErr_Format(PyExc_ValueError, "the row has no slots %lld to %lld", static_cast<long long>(start),
                            static_cast<long long>(end));
    if (start < end) {
        RowPages own = {reinterpret_cast<const int64_t*>(row.bytes()) + start, size};
        PyObject* back = guarded([&]() -> PyObject* {
            wrong = tree.pool.take_back(own, (end - start + size - 1) / size, USED);
            Py_RETURN_NONE;
        });
        if (!back) return nullptr;
        Py_DECREF(back);
        if (wrong == FINE) note(pool_at(self));
    }
    if (wrong == FINE) return unlocked(self, spot);
    Ref made(PyObject_CallMethod(owner(self)->pool, "refuse_row", "OLLLs", args[1], static_cast<long long>(start),
                                 static_cast<long long>(end), static_cast<long long>(wrong), "freed"));
    if (made) PyErr_SetString(PyExc_SystemError, "a page that is refused was not");
    return nullptr;
}

// fill(place, lo, row): the slots of the pages lo .. depth-1 of a path, written to where they belong in a row.
PyObject* fill(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t lo;
    View row;
    if (!given_as_many(count, 3, "fill") || !along(self, args, 2, spot, lo, true) || !open_row(args[2], row, true)) return nullptr;
    Tree& tree = tree_of(self);
    int64_t size = tree.page_size;
    if (tree.depth(spot) * size > row.count()) return PyErr_Format(PyExc_ValueError, "the row is too short");
    auto* into = reinterpret_cast<int64_t*>(row.bytes());
    for (; spot.branch >= 0; spot = {tree.branches[spot.branch].parent, tree.branches[spot.branch].at}) {
        const Branch& branch = tree.branches[spot.branch];
        const int32_t* pages = kvlitmus::pages_of(branch, tree.page_bytes);
        for (int64_t at = lo > branch.base ? lo - branch.base : 0; at < spot.end; ++at)
            for (int64_t j = 0; j < size; ++j) into[(branch.base + at) * size + j] = pages[at] * size + j;
        if (lo >= branch.base) break;
    }
    Py_RETURN_NONE;
}

}  // namespace kvlitmus
