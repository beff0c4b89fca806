// The type Components (kvlitmus.optimized.components): its calls on one tier.
#include "component_calls.h"
#include "fetches.h"

namespace kvlitmus {

namespace {

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

bool read_layout(Layout& layout, PyObject* components, PyObject* places, PyObject* host) {
    layout.components = static_cast<int>(PyTuple_GET_SIZE(components));
    layout.pools = static_cast<int>(PyTuple_GET_SIZE(places));
    bool fits = layout.page_size > 0 && layout.page_size < INT32_MAX && layout.components > 0 && layout.pools > 0 &&
                layout.components <= MOST_COMPONENTS && layout.pools <= MOST_COMPONENTS;
    layout.tiers = PyTuple_GET_SIZE(host) ? TIERS : 1;
    fits = fits && (layout.tiers == 1 || PyTuple_GET_SIZE(host) == layout.pools);
    for (int at = 0; fits && at < layout.tiers * layout.pools; ++at) {
        int tier = at >= layout.pools, number = at - tier * layout.pools;
        int64_t& many = layout.places[tier][number];
        if (!whole(PyTuple_GET_ITEM(tier ? host : places, number), many)) return false;
        fits = many >= 0 && many < INT32_MAX;
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
    PyObject *components, *places, *host;
    if (!PyArg_ParseTuple(args, "LiipppO!O!O!", &page_size, &policy, &cascade, &full_root, &bigram, &told, &PyTuple_Type,
                          &components, &PyTuple_Type, &places, &PyTuple_Type, &host))
        return nullptr;
    layout.page_size = page_size;
    layout.policy = static_cast<Policy>(policy);
    layout.cascade = static_cast<Cascade>(cascade);
    layout.full_root = full_root;
    layout.bigram = bigram;
    layout.told = told;
    bool fits = policy >= 0 && policy <= static_cast<int>(Policy::slru) && cascade >= 0 &&
                cascade <= static_cast<int>(Cascade::later);
    if (!read_layout(layout, components, places, host) || !fits) {
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

template <int tier>
PyObject* evict(PyObject* self, PyObject* given) {
    int64_t wants[MOST_COMPONENTS];
    if (!has_tier(self, tier) || !read_wants(self, given, wants)) return nullptr;
    return step(self, [&](Components& tree) {
        Counts freed(tree);
        tree.room_to_evict(tier, wants);
        tree.evict(tier, wants, freed.each());
        return freed.array.release();
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
        Counts freed(tree);
        Ref granted = together(number(tree.next_fetch()), freed.array), refused = together(number(-1), freed.array);
        if (length < tree.least(threshold)) return refused.release();
        int64_t evicted[MOST_COMPONENTS];
        tree.short_of(length, evicted);
        tree.room_to_evict(DEVICE, evicted);
        tree.room_to_fetch(length);
        const char* units = key.view.bytes() + start * sizeof(int64_t);
        bool room = tree.fetch(anchor, start, units, length, threshold, evicted, freed.each());
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

template <int tier>
PyObject* available(PyObject* self, PyObject*) {
    if (!has_tier(self, tier)) return nullptr;
    return step(self, [](Components& tree) {
        View view;
        Ref made = answer(tree.layout.pools, names.int64, view);
        for (int at = 0; at < tree.layout.pools; ++at) numbers_in<int64_t>(view)[at] = tree.pool(tier, at).free_count();
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

template <int tier>
PyObject* free_in(PyObject* self, PyObject* given) {
    int64_t pool;
    if (!has_tier(self, tier) || !whole(given, pool)) return nullptr;
    return step(self, [&](Components& tree) -> PyObject* {
        if (pool >= 0 && pool < tree.layout.pools) return free_of(tree.pool(tier, static_cast<int>(pool)));
        return PyErr_Format(PyExc_ValueError, "there are pools 0 to %d", tree.layout.pools - 1);
    });
}

template <int tier>
PyObject* entries(PyObject* self, PyObject*) {
    if (!has_tier(self, tier)) return nullptr;
    return step(self, [](Components& tree) {
        Ref all(PyList_New(0));
        if (!all) throw Raised();
        for (const Entry& one : tree.entries()) {
            if (one.branch == NOWHERE || tree.layout.tier_of(one.track) != tier) continue;
            int component = tree.layout.component_of(one.track);
            View view;
            Ref used = answer(4, names.int64, view);
            int64_t* into = numbers_in<int64_t>(view);
            for (int64_t number : {one.touched, one.created, one.hits, int64_t{one.pins}}) *into++ = number;
            append(all, together(number(component), prefix(tree, {one.branch, one.at + 1}), number(one.place), used));
        }
        return all.release();
    });
}

PyObject* events(PyObject* self, PyObject*) {
    return step(self, [](Components& tree) {
        Ref all(PyList_New(0));
        if (!all) throw Raised();
        for (const Told& one : tree.told()) {
            bool everything = one.track == EVERYTHING, host = !everything && tree.layout.tier_of(one.track);
            int component = everything ? EVERYTHING : tree.layout.component_of(one.track);
            Ref where = everything ? Ref(Py_NewRef(Py_None)) : prefix(tree, {one.branch, one.end});
            Ref stored(PyBool_FromLong(one.stored)), on_host(PyBool_FromLong(host));
            append(all, together(stored, on_host, number(component), where));
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
    {"evict", evict<DEVICE>, METH_O, "Free so many entries of each component; how many were freed of each."},
    {"evict_host", evict<HOST>, METH_O, "The same on the host."},
    {"reset", reset, METH_NOARGS, "Forget everything: what is cached, owned and locked."},
    {"prefetch", fast(prefetch), METH_FASTCALL, "prefetch(namespace, units, start, threshold): its number or -1; evicted."},
    {"reserved", reserved, METH_O, "The places of a prefetch."},
    {"prefetch_found", fast(prefetch_found), METH_FASTCALL,
     "prefetch_found(prefetch, stored): up to where it reads, the ends, and into which places."},
    {"prefetch_settled", prefetch_settled, METH_O, "The I/O of a prefetch has ended; the places given back."},
    {"prefetch_commit", fast(prefetch_commit), METH_FASTCALL,
     "prefetch_commit(prefetch, came): where the KV ends that was cached, and the places given back."},
    {"prefetch_abort", prefetch_abort, METH_O, "Give a prefetch up; the places given back."},
    {"available", available<DEVICE>, METH_NOARGS, "How many places of each pool are free."},
    {"available_host", available<HOST>, METH_NOARGS, "The same of the host's."},
    {"sizes", sizes, METH_NOARGS, "How many entries of each component nobody needs, and how many are needed."},
    {"free_places", free_in<DEVICE>, METH_O, "The free places of a pool; the last one is handed out first."},
    {"free_host_places", free_in<HOST>, METH_O, "The same of one of the host's."},
    {"entries", entries<DEVICE>, METH_NOARGS, "All entries: component, namespace and units, place, and how it was used."},
    {"host_entries", entries<HOST>, METH_NOARGS, "The same on the host."},
    {"events", events, METH_NOARGS, "What was stored and removed since the last call, and whether on the host."},
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
    for (PyMethodDef* method = component_host_methods; type && method->ml_name; ++method) {
        Ref made(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.get()), method));
        if (!made || PyObject_SetAttrString(type.get(), method->ml_name, made.get()) < 0) return false;
    }
    return type && PyModule_AddObjectRef(module, "Components", type.get()) == 0;
}

}  // namespace kvlitmus
