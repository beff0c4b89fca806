// The type Components (kvlitmus.optimized.components): each call in one step.  What it is given is read first, which may
// run Python; then it looks whether that can be, makes its answer, and last changes something, which can't fail.
#include "answers.h"
#include "fetches.h"

namespace kvlitmus {

namespace {

struct ComponentsObject {
    PyObject_HEAD
    Components* tree;
    PyObject* roots;  // namespace -> number of its root
};

ComponentsObject* owner_of(PyObject* self) { return reinterpret_cast<ComponentsObject*>(self); }
Components& tree_at(PyObject* self) { return *owner_of(self)->tree; }
PyObject* done() { return Py_NewRef(Py_None); }

// -- coming and going ------------------------------------------------------------------------------------------------

// A tuple of so many integers each.
bool read_numbers(PyObject* given, Py_ssize_t count, int64_t* into) {
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != count) {
        PyErr_Format(PyExc_TypeError, "%zd integers were expected (got %R)", count, given);
        return false;
    }
    for (Py_ssize_t at = 0; at < count; ++at)
        if (!whole(PyTuple_GET_ITEM(given, at), into[at])) return false;
    return true;
}

bool read_layout(Layout& layout, PyObject* components, PyObject* places) {
    layout.components = static_cast<int>(PyTuple_GET_SIZE(components));
    layout.pools = static_cast<int>(PyTuple_GET_SIZE(places));
    bool fits = layout.page_size > 0 && layout.page_size < INT32_MAX && layout.components > 0 && layout.pools > 0 &&
                layout.components <= MOST_COMPONENTS && layout.pools <= MOST_COMPONENTS;
    for (int at = 0; fits && at < layout.pools; ++at) {
        if (!whole(PyTuple_GET_ITEM(places, at), layout.places[at])) return false;
        fits = layout.places[at] >= 0 && layout.places[at] < INT32_MAX;
    }
    for (int at = 0; fits && at < layout.components; ++at) {
        int64_t of[5];
        if (!read_numbers(PyTuple_GET_ITEM(components, at), 5, of)) return false;
        Component& one = layout.of[at] = {static_cast<Shape>(of[0]), of[1], of[2], of[3], of[4]};
        fits = of[0] >= 0 && of[0] <= static_cast<int64_t>(Shape::derived) && (at > 0) == (one.shape != Shape::run) &&
               one.size > 0 && one.size < INT32_MAX && one.pool >= 0 && one.pool < layout.pools && one.unit > 0 &&
               one.unit < INT32_MAX && one.unit % layout.page_size == 0 && one.align > 0 && one.align < INT32_MAX &&
               one.align % one.unit == 0;
        int64_t shared = layout.step;
        for (int64_t rest = fits ? one.align : 0; rest; std::swap(shared, rest)) shared %= rest;
        layout.step *= fits ? one.align / shared : 1;
        fits = fits && layout.step < INT32_MAX;
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "there is no cache of such components");
    return fits && layout.of[BASE].unit == layout.page_size;
}

PyObject* make(PyTypeObject* type, PyObject* args, PyObject*) {
    Layout layout{};
    layout.step = 1;
    long long page_size;
    int policy, cascade, full_root, bigram, told;
    PyObject *components, *places;
    if (!PyArg_ParseTuple(args, "LiipppO!O!", &page_size, &policy, &cascade, &full_root, &bigram, &told, &PyTuple_Type,
                          &components, &PyTuple_Type, &places))
        return nullptr;
    layout.page_size = page_size;
    layout.policy = static_cast<Policy>(policy);
    layout.cascade = static_cast<Cascade>(cascade);
    layout.full_root = full_root;
    layout.bigram = bigram;
    layout.told = told;
    bool fits = policy >= 0 && policy <= static_cast<int>(Policy::slru) && cascade >= 0 &&
                cascade <= static_cast<int>(Cascade::later);
    if (!read_layout(layout, components, places) || !fits) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "there is no cache of such components");
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    owner_of(self)->roots = PyDict_New();
    try {
        owner_of(self)->tree = new Components(layout);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    if (owner_of(self)->roots && owner_of(self)->tree) return self;
    Py_DECREF(self);
    return nullptr;
}

void drop(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    if (Components* tree = owner_of(self)->tree) {
        for (int32_t at = 1; at <= tree->roots(); ++at) Ref name(static_cast<PyObject*>(tree->root(-at).name));
        delete tree;
    }
    Py_XDECREF(owner_of(self)->roots);
    type->tp_free(self);
    Py_DECREF(type);
}

// -- what is handed in -----------------------------------------------------------------------------------------------

// The root of a namespace, None or a plain string, so that looking it up runs nothing; NOWHERE where there is none.
bool known_root(PyObject* self, PyObject* name, int32_t& root) {
    root = NOWHERE;
    if (name != Py_None && !PyUnicode_CheckExact(name)) {
        PyErr_Format(PyExc_TypeError, "a namespace is a string or None (got %R)", name);
        return false;
    }
    PyObject* found = PyDict_GetItemWithError(owner_of(self)->roots, name);
    if (found) root = static_cast<int32_t>(PyLong_AsLong(found));
    return !PyErr_Occurred();
}

// The same, where something will hang; throws where memory is short.
void have_root(PyObject* self, PyObject* name, int32_t& root) {
    if (root != NOWHERE) return;
    root = tree_at(self).new_root(nullptr);
    Ref number(PyLong_FromLong(root));
    if (!allowed() || !number || PyDict_SetItem(owner_of(self)->roots, name, number.get()) < 0) {
        PyErr_Clear();
        throw std::bad_alloc();
    }
    tree_at(self).root(root).name = Py_NewRef(name);
}

// Roots that nothing hangs at are forgotten; an error stays.
void sweep(PyObject* self) {
    Components& tree = tree_at(self);
    if (tree.emptied.empty()) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    while (!tree.emptied.empty()) {
        int32_t number = tree.emptied.pop();
        tree.root(number).listed = false;
        if (tree.root(number).hung) continue;
        Ref name(static_cast<PyObject*>(tree.root(number).name));
        if (name) PyDict_DelItem(owner_of(self)->roots, name.get());
        tree.drop_root(number);
    }
    PyErr_Restore(type, value, traceback);
}

// The units of a key.
struct Units {
    View view;
    int32_t root;
    int64_t count = 0;

    bool open(PyObject* self, PyObject* name, PyObject* given) {
        if (!view.open(given) && !view.open_brought(given, names.components, "brought")) return false;
        if (view.width() != sizeof(int64_t)) {
            view.close();
            if (!view.open_brought(given, names.components, "brought")) return false;
        }
        count = view.count();
        return known_root(self, name, root);
    }
    int64_t pages(PyObject* self) const { return count / tree_at(self).layout.page_size; }
};

// A number of each component, none of them negative.
bool read_wants(PyObject* self, PyObject* given, int64_t* wants) {
    View view;
    if (!view.open(given, names.components, "brought")) return false;
    int64_t components = tree_at(self).layout.components;
    bool fits = view.count() == components;
    for (int64_t k = 0; fits && k < components; ++k) {
        wants[k] = view.numbers([=](auto* numbers) { return int64_t{numbers[k]}; });
        fits = wants[k] >= 0;
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "a number of each component was expected, none negative");
    return fits;
}

// An array of each component.
class Arrays {
  public:
    bool open(PyObject* self, PyObject* given) {
        Ref all(PySequence_Fast(given, "an array of each component was expected"));
        if (!all) return false;
        int64_t components = tree_at(self).layout.components;
        if (PySequence_Fast_GET_SIZE(all.get()) != components) {
            PyErr_Format(PyExc_ValueError, "an array of each of %lld components was expected (got %zd)",
                         static_cast<long long>(components), PySequence_Fast_GET_SIZE(all.get()));
            return false;
        }
        for (int64_t k = 0; k < components; ++k)
            if (!views_[k].open(PySequence_Fast_GET_ITEM(all.get(), k), names.components, "brought")) return false;
        return true;
    }
    int64_t count(int k) const { return views_[k].count(); }
    int64_t at(int k, int64_t index) const {
        return views_[k].numbers([=](auto* numbers) { return int64_t{numbers[index]}; });
    }

  private:
    View views_[MOST_COMPONENTS];
};

// An array of each component as an answer; making it may fail.
class Parts {
  public:
    template <typename Count>
    Parts(int components, PyObject* dtype, Count count) : components_(components) {
        for (int k = 0; k < components; ++k) arrays_[k] = answer(count(k), dtype, views_[k]);
    }
    template <typename Number>
    Number* of(int k) {
        return numbers_in<Number>(views_[k]);
    }

    // Of each component where its places go.
    int32_t** places() {
        for (int k = 0; k < components_; ++k) into_[k] = of<int32_t>(k);
        return into_;
    }
    Ref tuple() const {
        if (!allowed()) throw std::bad_alloc();
        Ref made(PyTuple_New(components_));
        if (!made) throw Raised();
        for (int k = 0; k < components_; ++k) PyTuple_SET_ITEM(made.get(), k, Py_NewRef(arrays_[k].get()));
        return made;
    }

  private:
    int components_;
    Ref arrays_[MOST_COMPONENTS];
    View views_[MOST_COMPONENTS];
    int32_t* into_[MOST_COMPONENTS];
};

Ref number(int64_t one) {
    if (!allowed()) throw std::bad_alloc();
    Ref made(PyLong_FromLongLong(one));
    if (!made) throw Raised();
    return made;
}

bool given_as_many(Py_ssize_t given, Py_ssize_t count) {
    if (given != count) PyErr_Format(PyExc_TypeError, "%zd arguments were expected (got %zd)", count, given);
    return given == count;
}

// Makes the step of a call, and forgets roots that are empty after it.
template <typename Work>
PyObject* step(PyObject* self, Work work) {
    NoCollection quiet;
    PyObject* answered = guarded([&] { return work(tree_at(self)); });
    sweep(self);
    return answered;
}

// -- lookup ----------------------------------------------------------------------------------------------------------

PyObject* match(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Units key;
    if (!given_as_many(given, 2) || !key.open(self, args[0], args[1])) return nullptr;
    return step(self, [&](Components& tree) {
        tree.look({key.root, 0}, key.view.bytes(), key.pages(self));
        int64_t length = tree.longest(key.count);
        Parts places(tree.layout.components, names.int32, [&](int k) { return tree.layout.needed(k, length).count(); });
        Ref both = together(number(length), places.tuple());
        tree.tick();
        for (int k = 0; k < tree.layout.components; ++k) tree.use(k, length, places.of<int32_t>(k));
        return both.release();
    });
}

PyObject* reset(PyObject* self, PyObject*) {
    return step(self, [](Components& tree) {
        tree.reset();
        return done();
    });
}

// -- places ----------------------------------------------------------------------------------------------------------

PyObject* alloc(PyObject* self, PyObject* given) {
    int64_t wants[MOST_COMPONENTS];
    if (!read_wants(self, given, wants)) return nullptr;
    return step(self, [&](Components& tree) {
        if (!tree.fits(wants)) return done();
        Parts places(tree.layout.components, names.int32, [&](int k) { return wants[k]; });
        Ref all = places.tuple();
        for (int k = 0; k < tree.layout.components; ++k) tree.pool_of(k).take(wants[k], places.of<int32_t>(k));
        return all.release();
    });
}

// What is handed over is claimed: it is given back unless it is kept.
class Claim {
  public:
    explicit Claim(Components& tree) : tree_(tree), wrong_(tree.claim()) {}
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() {
        if (wrong_ == FINE && !kept_) tree_.unclaim(tree_.brought().size());
    }
    void keep() { kept_ = true; }

    // Whether all of it was the caller's; false with an exception.
    bool fine() const {
        if (wrong_ == FINE) return true;
        const Brought& one = tree_.brought()[wrong_];
        PyErr_Format(PyExc_ValueError, "place %lld of component %d is not the caller's, or is named twice",
                     static_cast<long long>(one.place), one.component);
        return false;
    }

  private:
    Components& tree_;
    int64_t wrong_;
    bool kept_ = false;
};

PyObject* free_places(PyObject* self, PyObject* given) {
    Arrays places;
    if (!places.open(self, given)) return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        int64_t all = 0;
        for (int k = 0; k < tree.layout.components; ++k) all += places.count(k);
        tree.room_for_brought(all);
        for (int k = 0; k < tree.layout.components; ++k)
            for (int64_t at = 0; at < places.count(k); ++at) tree.bring(k, 0, places.at(k, at));
        Claim claim(tree);
        if (!claim.fine()) return nullptr;
        claim.keep();
        tree.free_brought();
        return done();
    });
}

// Take note of what is brought for a key, and how far that goes; false with an exception where it can't be cached.
bool bring(Components& tree, const Units& key, const Arrays& ends, const Arrays& places, int64_t& length) {
    int64_t all = 0;
    for (int k = 0; k < tree.layout.components; ++k) all += places.count(k);
    tree.room_for_brought(all);
    int64_t bits = 0;
    const int64_t* units = reinterpret_cast<const int64_t*>(key.view.bytes());
    for (int64_t at = 0; at < key.count; ++at) bits |= units[at];
    bool fits = tree.layout.bigram || !(bits >> 32);
    for (int k = 0; fits && k < tree.layout.components; ++k) {
        fits = ends.count(k) == places.count(k);
        for (int64_t at = 0, last = 0; fits && at < ends.count(k); ++at) {
            int64_t end = ends.at(k, at);
            fits = end > last && end <= key.count && end % tree.layout.of[k].unit == 0;
            tree.bring(k, last = end, places.at(k, at));
            if (end > length) length = end;
        }
    }
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "entries end at ascending multiples of their unit, each with a place, within a "
                                          "key of tokens of 32 bits");
    return fits;
}

PyObject* insert(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Units key;
    Arrays ends, places;
    if (!given_as_many(given, 4) || !ends.open(self, args[2]) || !places.open(self, args[3]) ||
        !key.open(self, args[0], args[1]))
        return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        int64_t length = 0;
        if (!bring(tree, key, ends, places, length)) return nullptr;
        Claim claim(tree);
        if (!claim.fine()) return nullptr;
        int64_t pages = length / tree.layout.page_size, left[MOST_COMPONENTS] = {};
        if (pages) have_root(self, args[0], key.root);
        Spot spot = tree.look({key.root, 0}, key.view.bytes(), pages);
        tree.room_to_fill(spot, pages, left);
        Parts parts(tree.layout.components, names.int32, [&](int k) { return left[k]; });
        Ref all = parts.tuple();
        claim.keep();
        tree.tick();
        spot = tree.extend(spot, key.view.bytes(), pages);
        tree.fill(spot, parts.places());
        return all.release();
    });
}

// -- locks and evictions ---------------------------------------------------------------------------------------------

PyObject* lock(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Units key;
    if (!given_as_many(given, 2) || !key.open(self, args[0], args[1])) return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        Spot spot = tree.look({key.root, 0}, key.view.bytes(), key.pages(self));
        if (!tree.valid(key.count)) {
            PyErr_SetString(names.stale_handle, "what is to be locked is not all cached");
            return nullptr;
        }
        Parts parts(tree.layout.components, names.int64, [&](int k) { return tree.layout.needed(k, key.count).count(); });
        Ref both = together(number(tree.next_receipt()), parts.tuple());
        tree.room_to_lock();
        for (int k = 0; k < tree.layout.components; ++k) {
            Ends of = tree.layout.needed(k, key.count);
            int64_t* next = parts.of<int64_t>(k);
            for (int64_t end = of.first; end <= of.last; end += of.unit) *next++ = end;
        }
        tree.lock(spot, key.count);
        return both.release();
    });
}

PyObject* unlock(PyObject* self, PyObject* given) {
    int64_t receipt;
    if (!whole(given, receipt)) return nullptr;
    return step(self, [&](Components& tree) {
        if (tree.unlock(receipt)) return done();
        return PyErr_Format(PyExc_ValueError, "receipt %lld is not out", static_cast<long long>(receipt));
    });
}

PyObject* evict(PyObject* self, PyObject* given) {
    int64_t wants[MOST_COMPONENTS];
    if (!read_wants(self, given, wants)) return nullptr;
    return step(self, [&](Components& tree) {
        View view;
        Ref freed = answer(tree.layout.components, names.int64, view);
        tree.room_to_evict(wants);
        std::fill_n(numbers_in<int64_t>(view), tree.layout.components, 0);
        tree.evict(wants, numbers_in<int64_t>(view));
        return freed.release();
    });
}

// -- prefetches ------------------------------------------------------------------------------------------------------

PyObject* prefetch(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Units key;
    int64_t start, threshold;
    if (!given_as_many(given, 4) || !whole(args[2], start) || !whole(args[3], threshold) ||
        !key.open(self, args[0], args[1]))
        return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        int64_t page_size = tree.layout.page_size, pages = start / page_size;
        bool fits = start >= 0 && start <= key.count && start % tree.layout.step == 0;
        if (fits && !start) have_root(self, args[0], key.root);
        Spot anchor = fits ? tree.look({key.root, 0}, key.view.bytes(), pages) : Spot{NOWHERE, 0};
        if (!fits || !tree.has_base(start)) {
            PyErr_SetString(names.stale_handle, "a prefetch goes on from a boundary that is cached");
            return nullptr;
        }
        int64_t length = (key.count - start) / tree.layout.step * tree.layout.step;
        View view;
        Ref freed = answer(tree.layout.components, names.int64, view);
        std::fill_n(numbers_in<int64_t>(view), tree.layout.components, 0);
        Ref granted = together(number(tree.next_fetch()), freed), refused = together(number(-1), freed);
        if (length < tree.least(threshold)) return refused.release();
        int64_t evicted[MOST_COMPONENTS];
        tree.short_of(length, evicted);
        tree.room_to_evict(evicted);
        tree.room_to_fetch(length);
        const char* units = key.view.bytes() + start * sizeof(int64_t);
        bool room = tree.fetch(anchor, start, units, length, threshold, evicted, numbers_in<int64_t>(view));
        return (room ? granted : refused).release();
    });
}

// Makes a step with a prefetch that isn't over, or may be.
template <typename Work>
PyObject* with_fetch(PyObject* self, PyObject* given, bool may_be_over, Work work) {
    int64_t wanted;
    if (!whole(given, wanted)) return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        Fetch* one = tree.fetch_of(wanted);
        if (one && (may_be_over || !one->over)) return work(tree, *one);
        return PyErr_Format(PyExc_ValueError, "prefetch %lld is over, or never began", static_cast<long long>(wanted));
    });
}

PyObject* reserved(PyObject* self, PyObject* given) {
    return with_fetch(self, given, true, [](Components& tree, Fetch& one) {
        Parts places(tree.layout.components, names.int32, [&](int k) { return one.count[k]; });
        for (int k = 0; k < tree.layout.components; ++k) std::copy_n(one.places[k], one.count[k], places.of<int32_t>(k));
        return places.tuple().release();
    });
}

// Mark where these ends are.
void mark(Components& tree, const Fetch& one, const Arrays& ends) {
    int64_t counts[MOST_COMPONENTS];
    for (int k = 0; k < tree.layout.components; ++k) counts[k] = ends.count(k);
    tree.mark(one, counts, [&](int k, int64_t index) { return ends.at(k, index); });
}

PyObject* prefetch_found(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Arrays stored;
    if (!given_as_many(given, 2) || !stored.open(self, args[1])) return nullptr;
    return with_fetch(self, args[0], false, [&](Components& tree, Fetch& one) -> PyObject* {
        if (one.answered) return PyErr_Format(PyExc_ValueError, "storage has said what it has already");
        mark(tree, one, stored);
        int64_t boundary = tree.restored(one);
        auto count = [&](int k) { return tree.reads(one, k, boundary).count(); };
        Parts ends(tree.layout.components, names.int64, count), places(tree.layout.components, names.int32, count);
        Ref all = together(number(boundary), ends.tuple(), places.tuple());
        for (int k = 0; k < tree.layout.components; ++k) {
            Ends of = tree.reads(one, k, boundary);
            for (int64_t at = 0; at < of.count(); ++at) ends.of<int64_t>(k)[at] = of.first + at * of.unit;
            std::copy_n(one.places[k], of.count(), places.of<int32_t>(k));
        }
        tree.read_up_to(one, boundary);
        return all.release();
    });
}

PyObject* prefetch_settled(PyObject* self, PyObject* given) {
    return with_fetch(self, given, true, [](Components& tree, Fetch& one) {
        Parts returned(tree.layout.components, names.int32, [&](int k) { return one.over ? one.count[k] : 0; });
        Ref all = returned.tuple();
        tree.settle(one, returned.places());
        return all.release();
    });
}

PyObject* prefetch_commit(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    Arrays came;
    if (!given_as_many(given, 2) || !came.open(self, args[1])) return nullptr;
    return with_fetch(self, args[0], false, [&](Components& tree, Fetch& one) {
        mark(tree, one, came);
        int64_t end = tree.committed(one), left[MOST_COMPONENTS] = {}, kept[MOST_COMPONENTS] = {};
        Spot spot = tree.bring_fetched(one, end, left);
        for (const Brought& each : tree.brought()) kept[each.component] += each.missing;
        Parts returned(tree.layout.components, names.int32,
                       [&](int k) { return one.count[k] - kept[k] - tree.written(one, k); });
        Ref both = together(number(end), returned.tuple());
        tree.tick();
        tree.fill_fetched(one, spot);
        tree.end_fetch(one, returned.places());
        return both.release();
    });
}

PyObject* prefetch_abort(PyObject* self, PyObject* given) {
    return with_fetch(self, given, false, [](Components& tree, Fetch& one) {
        const int64_t none[MOST_COMPONENTS] = {};
        tree.mark(one, none, [](int, int64_t) { return int64_t{0}; });
        Parts returned(tree.layout.components, names.int32, [&](int k) { return one.count[k] - tree.written(one, k); });
        Ref all = returned.tuple();
        tree.end_fetch(one, returned.places());
        return all.release();
    });
}

// -- what there is ---------------------------------------------------------------------------------------------------

PyObject* available(PyObject* self, PyObject*) {
    return step(self, [](Components& tree) {
        View view;
        Ref made = answer(tree.layout.pools, names.int64, view);
        for (int at = 0; at < tree.layout.pools; ++at) numbers_in<int64_t>(view)[at] = tree.pool(at).free_count();
        return made.release();
    });
}

PyObject* sizes(PyObject* self, PyObject*) {
    return step(self, [](Components& tree) {
        View loose, guarded;
        int many = tree.layout.components;
        Ref first = answer(many, names.int64, loose), second = answer(many, names.int64, guarded);
        for (int k = 0; k < many; ++k) {
            numbers_in<int64_t>(guarded)[k] = tree.guarded[k];
            numbers_in<int64_t>(loose)[k] = tree.held[k] - tree.guarded[k];
        }
        return together(first, second).release();
    });
}

PyObject* free_in(PyObject* self, PyObject* given) {
    int64_t pool;
    if (!whole(given, pool)) return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        if (pool >= 0 && pool < tree.layout.pools) return free_of(tree.pool(static_cast<int>(pool)));
        return PyErr_Format(PyExc_ValueError, "there are pools 0 to %d", tree.layout.pools - 1);
    });
}

// The namespace and the units of a prefix; throws where memory is short.
Ref prefix(Components& tree, Spot spot) {
    View view;
    Ref units = answer(tree.depth(spot) * tree.layout.page_size, names.int64, view);
    tree.spell(spot, view.bytes());
    Ref name(Py_NewRef(static_cast<PyObject*>(tree.root(tree.root_of(spot.branch)).name)));
    return together(name, units);
}

void append(const Ref& all, const Ref& one) {
    if (!allowed()) throw std::bad_alloc();
    if (PyList_Append(all.get(), one.get()) < 0) throw Raised();
}

PyObject* entries(PyObject* self, PyObject*) {
    return step(self, [](Components& tree) {
        Ref all(PyList_New(0));
        if (!all) throw Raised();
        for (const Entry& one : tree.entries()) {
            if (one.branch == NOWHERE) continue;
            View view;
            Ref used = answer(4, names.int64, view);
            int64_t* into = numbers_in<int64_t>(view);
            for (int64_t number : {one.touched, one.created, one.hits, int64_t{one.pins}}) *into++ = number;
            append(all, together(number(one.component), prefix(tree, {one.branch, one.at + 1}), number(one.place), used));
        }
        return all.release();
    });
}

PyObject* events(PyObject* self, PyObject*) {
    return step(self, [](Components& tree) {
        Ref all(PyList_New(0));
        if (!all) throw Raised();
        for (const Told& one : tree.told()) {
            bool everything = one.component == EVERYTHING;
            Ref where = everything ? Ref(Py_NewRef(Py_None)) : prefix(tree, {one.branch, one.end});
            Ref stored(PyBool_FromLong(one.stored));
            append(all, together(stored, number(one.component), where));
        }
        tree.forget_told();
        return all.release();
    });
}

PyMethodDef methods[] = {
    {"match", fast(match), METH_FASTCALL, "match(namespace, units): the largest valid boundary, and its places."},
    {"alloc", alloc, METH_O, "So many places of each component, or None."},
    {"free", free_places, METH_O, "Give places of each component back that the caller owns."},
    {"insert", fast(insert), METH_FASTCALL, "insert(namespace, units, ends, places): cache them; those that are left."},
    {"lock", fast(lock), METH_FASTCALL, "lock(namespace, units): a receipt, and where the entries end that it covers."},
    {"unlock", unlock, METH_O, "Give a receipt back."},
    {"evict", evict, METH_O, "Free so many entries of each component; how many were freed of each."},
    {"reset", reset, METH_NOARGS, "Forget everything: what is cached, owned and locked."},
    {"prefetch", fast(prefetch), METH_FASTCALL, "prefetch(namespace, units, start, threshold): its number or -1; evicted."},
    {"reserved", reserved, METH_O, "The places of a prefetch."},
    {"prefetch_found", fast(prefetch_found), METH_FASTCALL,
     "prefetch_found(prefetch, stored): up to where it reads, the ends, and into which places."},
    {"prefetch_settled", prefetch_settled, METH_O, "The I/O of a prefetch has ended; the places given back."},
    {"prefetch_commit", fast(prefetch_commit), METH_FASTCALL,
     "prefetch_commit(prefetch, came): where the KV ends that was cached, and the places given back."},
    {"prefetch_abort", prefetch_abort, METH_O, "Give a prefetch up; the places given back."},
    {"available", available, METH_NOARGS, "How many places of each pool are free."},
    {"sizes", sizes, METH_NOARGS, "How many entries of each component nobody needs, and how many are needed."},
    {"free_places", free_in, METH_O, "The free places of a pool; the last one is handed out first."},
    {"entries", entries, METH_NOARGS, "All entries: component, namespace and units, place, and how it was used."},
    {"events", events, METH_NOARGS, "What was stored and removed since the last call."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots_of_type[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop)},
    {Py_tp_methods, methods},
    {Py_tp_doc, const_cast<char*>("A cache of components: several kinds of state for one prefix.")},
    {0, nullptr},
};

PyType_Spec spec = {"kvlitmus.optimized._core.Components", sizeof(ComponentsObject), 0, Py_TPFLAGS_DEFAULT, slots_of_type};

}  // namespace

bool add_components(PyObject* module) {
    Ref type(PyType_FromSpec(&spec));
    return type && PyModule_AddObjectRef(module, "Components", type.get()) == 0;
}

}  // namespace kvlitmus
