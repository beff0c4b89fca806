// The type Tree: kvlitmus.optimized.tree.Tree's core, for Python.
//
// Each call looks at what it is handed, then makes one call of the tree, and only then anything that may run Python
// again.  What it can't take it leaves to the methods of its Python class: `units_of` and `pages_of` make arrays,
// `priority_of` an integer, and the pool's `refuse` says why a page is refused.
#include "python.h"

namespace kvlitmus {
namespace {

constexpr long long MOST_PRIORITY = 1ll << 62;
constexpr Py_ssize_t DIGEST_BYTES = 32;

TreeObject* owner(PyObject* self) { return reinterpret_cast<TreeObject*>(self); }
Tree& tree_of(PyObject* self) { return *owner(self)->tree; }

// -- coming and going ---------------------------------------------------------------------------------------------

// The branch of this shadow is gone.
void shadow_gone(void* given) {
    auto* shadow = static_cast<ShadowObject*>(given);
    shadow->tree = nullptr;
    shadow->number = NOWHERE;
    Py_DECREF(shadow);
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
    int policy, unit_bytes;
    PyObject* pool;
    if (!PyArg_ParseTuple(args, "LiO!i", &page_size, &policy, pool_type, &pool, &unit_bytes)) return nullptr;
    if (page_size < 1 || page_size > INT32_MAX || policy < 0 || policy > static_cast<int>(Policy::slru) ||
        (unit_bytes != 4 && unit_bytes != 8))
        return PyErr_Format(PyExc_ValueError, "no tree has pages of %lld units of %d bytes", page_size, unit_bytes);
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    TreeObject* made = owner(self);
    made->unit_bytes = unit_bytes;
    made->pool = Py_NewRef(pool);
    made->roots = PyDict_New();
    made->tree = new (std::nothrow) Tree(page_size, unit_bytes, static_cast<Policy>(policy),
                                         *reinterpret_cast<PoolObject*>(pool)->pool);
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
    return 0;
}

int clear(PyObject* self) {
    if (owner(self)->roots) PyDict_Clear(owner(self)->roots);  // the pool stays: the tree works on it
    return 0;
}

void drop(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (Tree* tree = owner(self)->tree) {
        for (size_t at = 0; at < tree->branches.made(); ++at)
            if (void* shadow = tree->branches[at].shadow) shadow_gone(shadow);
        for (int32_t at = 1; at <= tree->roots(); ++at)
            if (void* shadow = tree->root(-at).shadow) shadow_gone(shadow);
        delete tree;
    }
    Py_XDECREF(owner(self)->roots);
    Py_XDECREF(owner(self)->pool);
    type->tp_free(self);
    Py_DECREF(type);
}

// -- namespaces ---------------------------------------------------------------------------------------------------

// While a namespace is compared with others, which may run anything, nothing is to be done with the tree.
class Lookup {
  public:
    explicit Lookup(TreeObject* tree) : tree_(tree) { tree_->busy = true; }
    ~Lookup() { tree_->busy = false; }

  private:
    TreeObject* tree_;
};


bool ready(TreeObject* tree) {
    if (!tree->busy) return true;
    PyErr_SetString(PyExc_RuntimeError, "a namespace must not use the tree that looks it up");
    return false;
}

// What a root is known by: its serial says whether an entry is still of this one.
int64_t entry_of(Tree& tree, int32_t root) {
    return static_cast<int64_t>((static_cast<uint64_t>(tree.root(root).serial & INT32_MAX) << 32) |
                                static_cast<uint32_t>(-root));
}

// The root of a namespace, which may be a new one; false with an exception.
bool have_root(TreeObject* tree, PyObject* name, int32_t& root) {
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
void sweep(TreeObject* owner) {
    Tree& tree = *owner->tree;
    if (tree.emptied.empty()) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (!tree.emptied.empty()) {
        int32_t root = tree.emptied.pop();
        if (tree.root(root).kids || !tree.root(root).name) continue;
        Ref name(static_cast<PyObject*>(tree.root(root).name));
        tree.drop_root(root);
        Lookup looking(owner);
        if (PyDict_DelItem(owner->roots, name.get()) < 0) PyErr_Clear();  // its serial is nobody's any more
    }
    PyErr_Restore(type, value, traceback);
}

// -- what is handed in --------------------------------------------------------------------------------------------

bool stale(const char* text) {
    PyErr_SetString(names.stale_handle, text);
    return false;
}

// The spot that this place names; false with an exception where it is gone, or of another tree.
bool checked(PyObject* self, PyObject* given, Spot& spot, PyObject** name = nullptr) {
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
bool kept(PyObject* self, PyObject* given, Spot& spot, PyObject** name) {
    if (!checked(self, given, spot, name)) return false;
    if (spot.branch < 0 || spot.end <= tree_of(self).branches[spot.branch].protected_pages()) return true;
    PyErr_Format(PyExc_ValueError, "the prefix of %lld pages is not locked: it may be gone any time",
                 static_cast<long long>(tree_of(self).depth(spot)));
    return false;
}

// The same for one that was looked at when it was handed in: it need only be there.
bool there(PyObject* self, PyObject* given, Spot& spot) {
    auto* place = reinterpret_cast<PlaceObject*>(given);
    if (!PyObject_TypeCheck(given, place_type) || place->tree != owner(self) || place->branch < 0 || !alive(place))
        return checked(self, given, spot);
    spot = {place->branch, place->end};
    return ready(owner(self));
}

bool open_units(PyObject* self, PyObject* given, View& view) {
    int width = owner(self)->unit_bytes;
    if (view.open(given) && view.width() == width) return true;
    view.close();
    if (!view.open_brought(given, self, "units_of")) return false;
    if (view.width() == width) return true;
    PyErr_SetString(PyExc_TypeError, "units_of() gave no array of the tree's type");
    return false;
}

bool open_row(PyObject* given, View& view) {
    if (view.open(given) && view.width() == 8) return true;
    PyErr_SetString(PyExc_TypeError, "a row is an array of 64 bits");
    return false;
}

bool count_of(PyObject* given, int64_t& into) {
    into = PyLong_AsLongLong(given);
    return into != -1 || !PyErr_Occurred();
}

bool given_as_many(Py_ssize_t count, Py_ssize_t wanted, const char* what) {
    if (count == wanted) return true;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments (got %zd)", what, wanted, count);
    return false;
}

// -- answers ------------------------------------------------------------------------------------------------------

PyObject* place_at(PyObject* self, Spot spot, PyObject* name) {
    return new_place(owner(self), spot, name, tree_of(self).clock);
}

PyObject* found(PyObject* self, Spot spot, PyObject* name) {
    int64_t depth = tree_of(self).depth(spot);
    return named_tuple(names.found, place_at(self, spot, name), PyLong_FromLongLong(depth), PyLong_FromLongLong(depth));
}

Ref pages_on(PyObject* self, Spot spot, int64_t lo) {
    View out;
    int64_t depth = tree_of(self).depth(spot);
    Ref made = new_array(depth > lo ? depth - lo : 0, names.int32, out);
    if (made && depth > lo) tree_of(self).path_pages(spot, lo, reinterpret_cast<int32_t*>(out.bytes()));
    return made;
}

// -- match --------------------------------------------------------------------------------------------------------

// match(namespace, units), as far as Python has nothing to do with it.
bool matched(PyObject* self, PyObject* name, PyObject* units, Spot& spot, bool use = true) {
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

PyObject* match(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    if (!given_as_many(count, 2, "match") || !matched(self, args[0], args[1], spot)) return nullptr;
    return found(self, spot, args[0]);
}

PyObject* find(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    if (!given_as_many(count, 2, "find") || !matched(self, args[0], args[1], spot, false)) return nullptr;
    return found(self, spot, args[0]);
}

PyObject* match_pages(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    if (!given_as_many(count, 2, "match_pages") || !matched(self, args[0], args[1], spot)) return nullptr;
    Ref pages = pages_on(self, spot, 0), place(pages ? place_at(self, spot, args[0]) : nullptr);
    if (!place) return nullptr;
    PyObject* same = Py_NewRef(place.get());
    return named_tuple(names.match, pages.release(), place.release(), PyLong_FromLong(0), same);
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
        return found(self, spot, name);
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

// The pool says why this page of the offered ones, from `known` on, can't be cached.
PyObject* refused(PyObject* self, PyObject* pages, int64_t known, int64_t wrong) {
    Ref rest(PySequence_GetSlice(pages, known, PY_SSIZE_T_MAX));
    if (!rest) return nullptr;
    Ref made(PyObject_CallMethod(owner(self)->pool, "refuse", "OLs", rest.get(),
                                 static_cast<long long>(wrong - known), "cached"));
    if (made) PyErr_SetString(PyExc_SystemError, "a page that is refused was not");
    return nullptr;
}

// Insert behind this spot; `inserted` is what came of it, unless the answer is false, with an exception.
template <typename Pages>
bool insert_at(PyObject* self, Spot spot, PyObject* name, const char* units, Pages pages, int64_t count,
               int64_t priority, bool counts, Tree::Inserted& inserted) {
    if (spot.branch == NOWHERE && count && !have_root(owner(self), name, spot.branch)) return false;
    try {
        inserted = tree_of(self).insert(spot, units, pages, count, priority, counts);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    return true;
}

PyObject* insert_offer(PyObject* self, Spot spot, PyObject* name, PyObject* pages, const Offer& offer) {
    Tree& tree = tree_of(self);
    int64_t above = tree.depth(spot);
    Tree::Inserted inserted{};
    bool done = offer.pages.numbers([&](auto* numbers) {
        return insert_at(self, spot, name, offer.units.bytes(), numbers, offer.pages.count(), offer.priority,
                         offer.counts, inserted);
    });
    sweep(owner(self));
    if (!done) return nullptr;
    if (inserted.wrong != FINE) return refused(self, pages, inserted.known, inserted.wrong);
    return named_tuple(names.inserted, PyLong_FromLongLong(above + inserted.known),
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
    return guarded([&]() -> PyObject* {
        tree_of(self).lock(spot);
        Py_RETURN_NONE;
    });
}

PyObject* unlocked(PyObject* self, Spot spot) {
    if (tree_of(self).unlock(spot)) Py_RETURN_NONE;
    return PyErr_Format(PyExc_ValueError, "the prefix of %lld pages is not locked",
                        static_cast<long long>(tree_of(self).depth(spot)));
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
    if (!count_of(given, pages) || !ready(owner(self))) return nullptr;
    PyObject* answer = guarded([&] { return PyLong_FromLongLong(tree_of(self).evict(pages)); });
    sweep(owner(self));
    return answer;
}

// -- requests -----------------------------------------------------------------------------------------------------

// begin(namespace, units, length): match and lock, make room, and spell the row of so many slots out; (place, row,
// cached slots), or None where there is no room.
PyObject* begin(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t length;
    if (!given_as_many(count, 3, "begin") || !count_of(args[2], length)) return nullptr;
    Tree& tree = tree_of(self);
    Pool& pool = tree.pool;
    if (!matched(self, args[0], args[1], spot)) return nullptr;
    int64_t size = pool.page_size, shared = tree.depth(spot), own = (length + size - 1) / size - shared;
    Ref place(place_at(self, spot, args[0]));
    bool locked = false;
    Array<int32_t> pages;
    Ref row;
    PyObject* answer = guarded([&]() -> PyObject* {
        if (!place) return nullptr;
        pages.reserve(shared + (own > 0 ? own : 0));
        tree.lock(spot);
        locked = true;
        if (own > pool.free_count()) tree.evict(own - pool.free_count());
        if (own > pool.free_count()) Py_RETURN_NONE;
        View out;
        row = new_array(length, names.int64, out);
        if (!row) return nullptr;
        tree.path_pages(spot, 0, pages.begin());
        pool.take(own, pages.begin() + shared);
        auto* into = reinterpret_cast<int64_t*>(out.bytes());
        for (int64_t at = 0; at < length; ++at) {
            int64_t slot = pages[at / size] * size, stop = at + size < length ? at + size : length;
            for (into[at] = slot; ++at < stop;) into[at] = ++slot;
            --at;
        }
        return Py_BuildValue("OOL", place.get(), row.get(), static_cast<long long>(shared * size));
    });
    if (locked && (!answer || answer == Py_None)) tree.unlock(spot);
    sweep(owner(self));
    return answer;
}

// store(place, units, row, start, counts): insert the pages of the row from `start` on, as many as the units fill, and
// take those back that were cached already; as insert_behind answers.
PyObject* store(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    PyObject* name = nullptr;
    View units, row;
    int64_t start;
    if (!given_as_many(count, 5, "store") || !count_of(args[3], start) || !kept(self, args[0], spot, &name) ||
        !open_units(self, args[1], units) || !open_row(args[2], row) || !kept(self, args[0], spot, &name))
        return nullptr;
    Tree& tree = tree_of(self);
    int64_t size = tree.page_size, pages = units.count() / size, above = tree.depth(spot);
    if (start != above * size || start + pages * size > row.count())
        return PyErr_Format(PyExc_ValueError, "the row does not go with the units");
    RowPages own = {reinterpret_cast<const int64_t*>(row.bytes()) + start, size};
    Tree::Inserted inserted{};
    bool done = insert_at(self, spot, name, units.bytes(), own, pages, 0, args[4] == Py_True, inserted);
    sweep(owner(self));
    if (!done) return nullptr;
    int64_t wrong = inserted.wrong;
    if (wrong == FINE) {
        PyObject* vain = guarded([&]() -> PyObject* {
            wrong = tree.pool.take_back(own, inserted.known, USED);
            Py_RETURN_NONE;
        });
        if (!vain) return nullptr;
        Py_DECREF(vain);
        if (wrong == FINE)
            return named_tuple(names.inserted, PyLong_FromLongLong(above + inserted.known),
                               place_at(self, inserted.spot, name));
    }
    int64_t first = inserted.wrong == FINE ? 0 : inserted.known, last = inserted.wrong == FINE ? inserted.known : pages;
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
    }
    if (wrong == FINE) return unlocked(self, spot);
    Ref made(PyObject_CallMethod(owner(self)->pool, "refuse_row", "OLLLs", args[1], static_cast<long long>(start),
                                 static_cast<long long>(end), static_cast<long long>(wrong), "freed"));
    if (made) PyErr_SetString(PyExc_SystemError, "a page that is refused was not");
    return nullptr;
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

// A place and, if it is given, the page where what is asked for begins.
bool along(PyObject* self, PyObject* const* args, Py_ssize_t count, Spot& spot, int64_t& lo) {
    lo = 0;
    if (count != 1 && count != 2) return given_as_many(count, 1, "this");
    if ((count == 2 && !count_of(args[1], lo)) || !there(self, args[0], spot)) return false;
    if (lo < 0) lo = 0;
    if (spot.branch < 0 || spot.end <= tree_of(self).branches[spot.branch].n) return true;
    const Branch& branch = tree_of(self).branches[spot.branch];
    PyErr_Format(PyExc_ValueError, "of this path only %d pages are resident", branch.base + branch.n);
    return false;
}

PyObject* path_pages(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t lo;
    return along(self, args, count, spot, lo) ? pages_on(self, spot, lo).release() : nullptr;
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
    Tree& tree = tree_of(self);
    Ref made(PyList_New(0));
    int32_t root = spot.branch;
    while (root >= 0) root = tree.branches[root].parent;
    for (; made && spot.branch >= 0; spot = {tree.branches[spot.branch].parent, tree.branches[spot.branch].at}) {
        const Branch& branch = tree.branches[spot.branch];
        int64_t start = lo > branch.base ? lo - branch.base : 0;
        if (start >= spot.end) break;
        PyObject* shadow = shadow_of(owner(self), spot.branch, static_cast<PyObject*>(tree.root(root).name));
        Ref run(named_tuple(names.run, shadow, PyLong_FromLongLong(start), PyLong_FromLong(spot.end)));
        if (!run || PyList_Append(made.get(), run.get()) < 0) return nullptr;
    }
    if (made && PyList_Reverse(made.get()) < 0) return nullptr;
    return made.release();
}

// fill(place, lo, row): the slots of the pages lo .. depth-1 of a path, written to where they belong in a row.
PyObject* fill(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    Spot spot;
    int64_t lo;
    View row;
    if (!given_as_many(count, 3, "fill") || !along(self, args, 2, spot, lo) || !open_row(args[2], row)) return nullptr;
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

PyObject* hits(PyObject* self, PyObject* place) {
    Spot spot;
    if (!there(self, place, spot)) return nullptr;
    return PyLong_FromLongLong(spot.branch < 0 ? 0 : tree_of(self).branches[spot.branch].nodes.hits_at(spot.end - 1));
}

// -- everything, for whoever looks --------------------------------------------------------------------------------

PyObject* level_list(const Level& level) {
    if (!level.pieced()) return PyLong_FromLongLong(level.one);
    Ref list(PyList_New(0));
    for (const Piece& piece : level.pieces()) {
        for (int64_t number : {int64_t{piece.end}, piece.value}) {
            Ref item(PyLong_FromLongLong(number));
            if (!list || !item || PyList_Append(list.get(), item.get()) < 0) return nullptr;
        }
    }
    return list.release();
}

// One item for each of these; `item` makes it.
template <typename Items, typename Item>
PyObject* list_of(const Items& items, size_t count, Item item) {
    Ref list(PyList_New(0));
    for (size_t at = 0; list && at < count; ++at) {
        Ref one(item(items, at));
        if (!one || PyList_Append(list.get(), one.get()) < 0) return nullptr;
    }
    return list.release();
}

PyObject* branch_list(Tree& tree, size_t number) {
    const Branch& b = tree.branches[number];
    PyObject* nodes = !b.nodes.many() ? PyLong_FromLongLong(b.nodes.hits)
                                      : list_of(b.nodes.all(), b.nodes.all().size(), [](auto& all, size_t at) {
                                            return Py_BuildValue("iLi", all[at].start, static_cast<long long>(all[at].count),
                                                                 all[at].kids);
                                        });
    PyObject* locks = list_of(b.locks, b.locks.size(), [](auto& all, size_t at) { return PyLong_FromLong(all[at]); });
    PyObject* digests = Py_NewRef(b.shadow && static_cast<ShadowObject*>(b.shadow)->digests
                                      ? static_cast<ShadowObject*>(b.shadow)->digests
                                      : Py_None);
    return Py_BuildValue(
        "niiiiNNNNNNiy#y#N", number, b.parent, b.at, b.base, b.room, level_list(b.touched), level_list(b.created),
        level_list(b.priority), nodes, locks, PyLong_FromLong(b.heap), b.kids_end, b.data,
        static_cast<Py_ssize_t>(b.n * tree.page_bytes), reinterpret_cast<const char*>(kvlitmus::pages_of(b, tree.page_bytes)),
        static_cast<Py_ssize_t>(b.n * sizeof(int32_t)), digests);
}

// export(): all that there is, in plain tuples; kvlitmus.optimized.compiled makes a Python tree of it.
PyObject* export_all(PyObject* self, PyObject*) {
    Tree& tree = tree_of(self);
    if (!ready(owner(self))) return nullptr;
    Ref branches(PyList_New(0)), roots(PyList_New(0));
    for (size_t at = 0; at < tree.branches.made(); ++at) {
        if (!tree.branches[at].n) continue;
        Ref one(branch_list(tree, at));
        if (!one || PyList_Append(branches.get(), one.get()) < 0) return nullptr;
    }
    PyObject *name, *entry;
    for (Py_ssize_t at = 0; PyDict_Next(owner(self)->roots, &at, &name, &entry);) {
        auto root = -static_cast<int32_t>(PyLong_AsLongLong(entry) & UINT32_MAX);
        auto* shadow = static_cast<ShadowObject*>(tree.root(root).shadow);
        Ref one(Py_BuildValue("OiiO", name, root, tree.root(root).kids,
                              shadow && shadow->digests ? shadow->digests : Py_None));
        if (!one || PyList_Append(roots.get(), one.get()) < 0) return nullptr;
    }
    const Array<int32_t>& free = tree.branches.free_numbers();
    PyObject* numbers = list_of(free, free.size(), [](auto& all, size_t at) { return PyLong_FromLong(all[at]); });
    const Array<Victims::Entry>& heap = tree.victims.entries();
    PyObject* entries = list_of(heap, heap.size(), [](auto& all, size_t at) {
        return Py_BuildValue("LLi", static_cast<long long>(all[at].first), static_cast<long long>(all[at].second),
                             all[at].branch);
    });
    return Py_BuildValue("NNNNLLL", branches.release(), roots.release(), numbers, entries,
                         static_cast<long long>(tree.clock), static_cast<long long>(tree.evictable),
                         static_cast<long long>(tree.guarded));
}

PyObject* get_clock(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).clock); }
PyObject* get_evictable(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).evictable); }
PyObject* get_protected(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).guarded); }
PyObject* get_page_size(PyObject* self, void*) { return PyLong_FromLongLong(tree_of(self).page_size); }
PyObject* get_pool(PyObject* self, void*) { return Py_NewRef(owner(self)->pool); }

template <typename Function>
constexpr PyCFunction fast(Function function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"match", fast(match), METH_FASTCALL, "match(namespace, units): the longest known prefix; all of it is used now."},
    {"match_pages", fast(match_pages), METH_FASTCALL, "The same, with the pages of the prefix."},
    {"find", fast(find), METH_FASTCALL, "The same without a use."},
    {"resume", fast(resume), METH_FASTCALL, "resume(place, units): match from a place on that is locked."},
    {"insert", fast(insert), METH_FASTCALL | METH_KEYWORDS, "insert(namespace, units, pages, *, priority, counts)."},
    {"insert_behind", fast(insert_behind), METH_FASTCALL | METH_KEYWORDS, "insert_behind(place, units, pages, ...)."},
    {"lock", lock, METH_O, "Protect the path to a place once more."},
    {"unlock", unlock, METH_O, "Give one protection back."},
    {"release", release, METH_O, "The same for whoever holds the lock, so that the place can't be gone."},
    {"evict", evict, METH_O, "Free so many pages, or as many as are not locked; returns how many."},
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
    {"protected", get_protected, nullptr, "Pages that are locked.", nullptr},
    {"page_size", get_page_size, nullptr, "Units per page.", nullptr},
    {"pool", get_pool, nullptr, "Where its pages are from.", nullptr},
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
    return type && PyModule_AddObjectRef(module, "Tree", type.get()) == 0;
}

}  // namespace kvlitmus
