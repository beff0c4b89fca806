// What the calls of a tree have in common: looking at what is handed in, namespaces, answers.
//
// A call looks at everything, then makes one call of the tree, and only then anything that may run Python again.
#pragma once

#include "python.h"

namespace kvlitmus {

inline TreeObject* owner(PyObject* self) { return reinterpret_cast<TreeObject*>(self); }
inline Tree& tree_of(PyObject* self) { return *owner(self)->tree; }
inline PoolObject* pool_at(PyObject* self) { return reinterpret_cast<PoolObject*>(owner(self)->pool); }

// -- namespaces ---------------------------------------------------------------------------------------------------

// While a namespace is compared with others, which may run anything, nothing is to be done with the tree.
class Lookup {
  public:
    explicit Lookup(TreeObject* tree) : tree_(tree) { tree_->busy = true; }
    ~Lookup() { tree_->busy = false; }

  private:
    TreeObject* tree_;
};


inline bool ready(TreeObject* tree) {
    if (!tree->busy) return true;
    PyErr_SetString(PyExc_RuntimeError, "a namespace must not use the tree that looks it up");
    return false;
}

// What a root is known by: its serial says whether an entry is still of this one.
inline int64_t entry_of(Tree& tree, int32_t root) {
    return static_cast<int64_t>((static_cast<uint64_t>(tree.root(root).serial & INT32_MAX) << 32) |
                                static_cast<uint32_t>(-root));
}

// The root of a namespace, which may be a new one; false with an exception.
inline bool have_root(TreeObject* tree, PyObject* name, int32_t& root) {
    if (!root_of(tree, name, root)) return false;
    if (root != NOWHERE) return true;
    try {
        root = tree->tree->new_root(Py_NewRef(name));
    } catch (const std::bad_alloc&) {
        Py_DECREF(name);
        PyErr_NoMemory();
        return false;
    }
    tree->tree->emptied.push(root);  // until something hangs there
    Ref entry(PyLong_FromLongLong(entry_of(*tree->tree, root)));
    Lookup looking(tree);
    return entry && PyDict_SetItem(tree->roots, name, entry.get()) == 0;
}

// Roots that nothing hangs at are forgotten.
inline void sweep(TreeObject* owner) {
    Tree& tree = *owner->tree;
    if (tree.emptied.empty()) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (!tree.emptied.empty()) {
        int32_t root = tree.emptied.pop();
        if (tree.root(root).kids || !tree.root(root).name) continue;
        Ref name(static_cast<PyObject*>(tree.root(root).name));
        {
            Lookup looking(owner);
            if (PyDict_DelItem(owner->roots, name.get()) < 0) PyErr_Clear();  // its serial will be nobody's
        }
        tree.drop_root(root);  // which may run anything, as may letting its name go
    }
    PyErr_Restore(type, value, traceback);
}

// -- what is handed in --------------------------------------------------------------------------------------------

inline bool stale(const char* text) {
    PyErr_SetString(names.stale_handle, text);
    return false;
}

// The spot that this place names; false with an exception where it is gone, or of another tree.
inline bool checked(PyObject* self, PyObject* given, Spot& spot, PyObject** name = nullptr) {
    const char* const another = "this place is of another cache, or from before a reset";
    if (!PyObject_TypeCheck(given, place_type)) {
        if (PyTuple_Check(given)) return stale(another);
        PyErr_Format(PyExc_TypeError, "a place was expected (got %R)", given);
        return false;
    }
    auto* place = reinterpret_cast<PlaceObject*>(given);
    bool lives = alive(place);
    if (place->tree != owner(self) && lives) return stale(another);
    if (place->branch < 0) {
        if (name) *name = place->name;
        spot.end = 0;
        return root_of(owner(self), place->name, spot.branch);
    }
    int32_t n = lives ? tree_of(self).branches[place->branch].n : 0;
    if (place->end < 1 || place->end > n) {
        PyErr_Format(names.stale_handle, "this place is gone: its branch has %d pages, not %d", n, place->end);
        return false;
    }
    if (tree_of(self).branches[place->branch].created.at(place->end - 1) > place->tick)
        return stale("this place is gone: other pages have been cached where it was");
    spot = {place->branch, place->end};
    return ready(owner(self));
}

// The same for one that somebody keeps locked.
inline bool kept(PyObject* self, PyObject* given, Spot& spot, PyObject** name) {
    if (!checked(self, given, spot, name)) return false;
    if (spot.branch < 0 || spot.end <= tree_of(self).branches[spot.branch].protected_pages()) return true;
    PyErr_Format(PyExc_ValueError, "the prefix of %lld pages is not locked: it may be gone any time",
                 static_cast<long long>(tree_of(self).depth(spot)));
    return false;
}

// The same for one that was looked at when it was handed in: it need only be there.
inline bool there(PyObject* self, PyObject* given, Spot& spot) {
    auto* place = reinterpret_cast<PlaceObject*>(given);
    if (!PyObject_TypeCheck(given, place_type) || place->tree != owner(self) || place->branch < 0 || !alive(place))
        return checked(self, given, spot);
    spot = {place->branch, place->end};
    return ready(owner(self));
}

inline bool open_units(PyObject* self, PyObject* given, View& view) {
    int width = owner(self)->unit_bytes;
    if (view.open(given) && view.width() == width) return true;
    view.close();
    if (!view.open_brought(given, self, "units_of")) return false;
    if (view.width() == width) return true;
    PyErr_SetString(PyExc_TypeError, "units_of() gave no array of the tree's type");
    return false;
}

inline bool open_row(PyObject* given, View& view, bool writable = false) {
    if (view.open(given, writable) && view.width() == 8) return true;
    PyErr_SetString(PyExc_TypeError, "a row is an array of 64 bits");
    return false;
}

inline bool count_of(PyObject* given, int64_t& into) {
    into = PyLong_AsLongLong(given);
    return into != -1 || !PyErr_Occurred();
}

inline bool given_as_many(Py_ssize_t count, Py_ssize_t wanted, const char* what) {
    if (count == wanted) return true;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments (got %zd)", what, wanted, count);
    return false;
}

// -- answers ------------------------------------------------------------------------------------------------------

inline PyObject* place_at(PyObject* self, Spot spot, PyObject* name) {
    return new_place(owner(self), spot, name, tree_of(self).clock);
}

inline PyObject* found(PyObject* self, Spot spot, PyObject* name) {
    Tree& tree = tree_of(self);
    int64_t known = tree.depth(spot), resident = tree.depth(tree.resident(spot));
    return named_tuple(names.found, place_at(self, spot, name), PyLong_FromLongLong(resident), PyLong_FromLongLong(known));
}

inline Ref pages_on(PyObject* self, Spot spot, int64_t lo) {
    View out;
    int64_t depth = tree_of(self).depth(spot);
    Ref made = new_array(depth > lo ? depth - lo : 0, names.int32, out);
    if (made && depth > lo) tree_of(self).path_pages(spot, lo, reinterpret_cast<int32_t*>(out.bytes()));
    return made;
}

// Whether the pool's calls have changed anything, as it was: an eviction ends between two of its steps where memory is
// short, each of which is whole, so it has torn nothing, though hooks have been told of something.
class Changed {
  public:
    explicit Changed(PyObject* tree) : changed_(pool_at(tree)->changed), before_(changed_ ? Py_NewRef(*changed_) : nullptr) {}

    // After an error: where it was want of memory, nothing is torn.
    void settle() {
        if (!changed_ || !PyErr_ExceptionMatches(PyExc_MemoryError)) return;
        Ref now(*changed_);
        *changed_ = before_.release();
    }

  private:
    PyObject** changed_;
    Ref before_;
};

template <typename Work>
PyObject* evicted(PyObject* self, Work work) {
    Changed changed(self);
    PyObject* answer = guarded(work);
    if (answer)
        note(pool_at(self));
    else
        changed.settle();
    sweep(owner(self));
    return answer;
}

// -- what several calls do ----------------------------------------------------------------------------------------

// match(namespace, units), as far as Python has nothing to do with it.
inline bool matched(PyObject* self, PyObject* name, PyObject* units, Spot& spot, bool use = true) {
    View view;
    if (!open_units(self, units, view) || !root_of(owner(self), name, spot.branch)) return false;
    spot.end = 0;
    Tree& tree = tree_of(self);
    int64_t pages = view.count() / tree.page_size;
    try {
        spot = use ? tree.match(spot, view.bytes(), pages) : tree.walk(spot, view.bytes(), pages);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

// Insert behind this spot; `inserted` is what came of it, unless the answer is false, with an exception.
template <typename Pages>
inline bool insert_at(PyObject* self, Spot spot, PyObject* name, const char* units, Pages pages, int64_t count,
               int64_t priority, bool counts, bool locked, Tree::Inserted& inserted) {
    if (spot.branch == NOWHERE && count && !have_root(owner(self), name, spot.branch)) return false;
    try {
        inserted = tree_of(self).insert(spot, units, pages, count, priority, counts, locked);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    } catch (const Raised&) {
        return false;
    }
    if (inserted.wrong == FINE) note(pool_at(self));
    return true;
}

inline PyObject* unlocked(PyObject* self, Spot spot) {
    if (tree_of(self).unlock(spot)) {
        note(pool_at(self));
        Py_RETURN_NONE;
    }
    return PyErr_Format(PyExc_ValueError, "the prefix of %lld pages is not locked",
                        static_cast<long long>(tree_of(self).depth(spot)));
}

// A place and, if it is given, the page where what is asked for begins; all of it is there, or even `resident`.
inline bool along(PyObject* self, PyObject* const* args, Py_ssize_t count, Spot& spot, int64_t& lo, bool resident = false) {
    lo = 0;
    if (count != 1 && count != 2) return given_as_many(count, 1, "this");
    if ((count == 2 && !count_of(args[1], lo)) || !there(self, args[0], spot)) return false;
    if (lo < 0) lo = 0;
    if (spot.branch < 0) return true;
    const Branch& branch = tree_of(self).branches[spot.branch];
    if (spot.end <= (resident ? branch.dev : branch.n)) return true;
    PyErr_Format(PyExc_ValueError, "of this path only %lld pages are resident",
                 static_cast<long long>(tree_of(self).depth(tree_of(self).resident(spot))));
    return false;
}

}  // namespace kvlitmus
