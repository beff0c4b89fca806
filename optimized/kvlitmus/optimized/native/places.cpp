// The types Place and Branch: what Python holds of a tree.  Both take part in collections, for a namespace may know the
// cache that it is in; what is cleared then is the tree (`clear` in tree_type.cpp), which is in each such cycle.
//
// A Place is looked at anew with every call that gets one (`checked` in tree_type.cpp).  A Branch is the shadow of one:
// it is made when somebody asks for it, is the same for as long as the branch lives, and is empty afterwards.
#include "python.h"

namespace kvlitmus {

PyTypeObject* place_type;
PyTypeObject* shadow_type;

PyObject* new_place(TreeObject* tree, Spot spot, PyObject* name, int64_t tick) {
    int64_t born = spot.branch >= 0 ? tree->tree->branches[spot.branch].created.at_root() : 0;
    Ref kept(spot.branch >= 0 ? nullptr : Py_NewRef(name ? name : Py_None));
    auto* place = reinterpret_cast<PlaceObject*>(place_type->tp_alloc(place_type, 0));  // it may collect
    if (!place) return nullptr;
    Py_INCREF(tree);
    place->tree = tree;
    place->tick = tick;
    place->end = spot.end;
    if (spot.branch >= 0) {
        place->branch = spot.branch;
        place->born = born;
    } else {
        place->branch = NOWHERE;
        place->name = kept.release();
    }
    return reinterpret_cast<PyObject*>(place);
}

bool alive(const PlaceObject* place) {
    if (place->branch < 0) return true;
    const Branch& branch = place->tree->tree->branches[place->branch];
    return branch.n && branch.created.at_root() == place->born;
}

PyObject* shadow_of(TreeObject* owner, int32_t number, PyObject* name) {
    NoCollection none;
    void** kept = number >= 0         ? &owner->tree->branches[number].shadow
                  : number != NOWHERE ? &owner->tree->root(number).shadow
                                      : nullptr;
    if (kept && *kept) return Py_NewRef(static_cast<PyObject*>(*kept));
    auto* shadow = reinterpret_cast<ShadowObject*>(shadow_type->tp_alloc(shadow_type, 0));
    if (!shadow) return nullptr;
    shadow->tree = owner;
    shadow->number = number;
    shadow->is_root = number < 0;
    shadow->name = Py_NewRef(name ? name : Py_None);
    if (kept) {
        *kept = Py_NewRef(reinterpret_cast<PyObject*>(shadow));
        ++owner->shadows;
    } else {
        shadow->tree = nullptr;
    }
    return reinterpret_cast<PyObject*>(shadow);
}

PyObject* branch_shadow(TreeObject* owner, int32_t number) {
    Tree& tree = *owner->tree;
    if (tree.branches[number].shadow) return shadow_of(owner, number, nullptr);
    int32_t root = number;
    while (root >= 0) root = tree.branches[root].parent;
    return shadow_of(owner, number, static_cast<PyObject*>(tree.root(root).name));
}

PyObject* new_run(TreeObject* owner, Span run) {
    PyObject* shadow = branch_shadow(owner, run.branch);
    return named_tuple(names.run, shadow, PyLong_FromLong(run.lo), PyLong_FromLong(run.hi));
}

PyObject* run_list(TreeObject* owner, const Array<Span>& runs) {
    NoCollection none;  // the tree must not change meanwhile
    Ref list(PyList_New(static_cast<Py_ssize_t>(runs.size())));
    for (size_t at = 0; list && at < runs.size(); ++at) {
        PyObject* run = new_run(owner, runs[at]);
        if (!run) return nullptr;
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(at), run);
    }
    return list.release();
}

namespace {

PlaceObject* place_of(PyObject* self) { return reinterpret_cast<PlaceObject*>(self); }
ShadowObject* shadow(PyObject* self) { return reinterpret_cast<ShadowObject*>(self); }

// -- Place --------------------------------------------------------------------------------------------------------

int traverse_place(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(place_of(self)->tree);
    Py_VISIT(place_of(self)->name);
    return 0;
}

void drop_place(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(place_of(self)->tree);
    Py_XDECREF(place_of(self)->name);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* place_branch(PyObject* self, void*) {
    PlaceObject* place = place_of(self);
    if (place->branch < 0) {
        int32_t root;
        if (!root_of(place->tree, place->name, root)) return nullptr;
        return shadow_of(place->tree, root, place->name);
    }
    if (!alive(place)) {
        PyObject* empty = shadow_of(place->tree, NOWHERE, nullptr);
        if (empty) shadow(empty)->is_root = false;
        return empty;
    }
    return branch_shadow(place->tree, place->branch);
}

PyObject* place_end(PyObject* self, void*) { return PyLong_FromLong(place_of(self)->end); }
PyObject* place_tick(PyObject* self, void*) { return PyLong_FromLongLong(place_of(self)->tick); }

Py_ssize_t place_length(PyObject*) { return 3; }

PyObject* place_item(PyObject* self, Py_ssize_t at) {
    if (at == 0) return place_branch(self, nullptr);
    if (at == 1) return place_end(self, nullptr);
    if (at == 2) return place_tick(self, nullptr);
    return PyErr_Format(PyExc_IndexError, "a place has three parts");
}

PyObject* place_compare(PyObject* self, PyObject* given, int how) {
    if (!PyObject_TypeCheck(given, place_type) || (how != Py_EQ && how != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    PlaceObject *one = place_of(self), *other = place_of(given);
    int same = one->tree == other->tree && one->branch == other->branch && one->end == other->end &&
               one->tick == other->tick && one->born == other->born;
    if (same && one->name != other->name) {
        same = one->name && other->name ? PyObject_RichCompareBool(one->name, other->name, Py_EQ) : 0;
        if (same < 0) return nullptr;
    }
    return PyBool_FromLong(same == (how == Py_EQ));
}

Py_hash_t place_hash(PyObject* self) {
    PlaceObject* place = place_of(self);
    auto hash = static_cast<Py_hash_t>(place->branch * 1000003ll + place->end * 31ll + place->tick);
    return hash == -1 ? -2 : hash;
}

PyObject* place_text(PyObject* self) {
    PlaceObject* place = place_of(self);
    if (place->branch < 0) return PyUnicode_FromFormat("Place(root of %R)", place->name);
    return PyUnicode_FromFormat("Place(branch %d, end=%d, tick=%lld)", place->branch, place->end,
                                static_cast<long long>(place->tick));
}

PyGetSetDef place_attributes[] = {
    {"branch", place_branch, nullptr, "The branch, or root.", nullptr},
    {"end", place_end, nullptr, "How many of its pages.", nullptr},
    {"tick", place_tick, nullptr, "The tree's clock when it was named.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot place_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(drop_place)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_place)},
    {Py_tp_getset, place_attributes},
    {Py_tp_richcompare, reinterpret_cast<void*>(place_compare)},
    {Py_tp_hash, reinterpret_cast<void*>(place_hash)},
    {Py_tp_repr, reinterpret_cast<void*>(place_text)},
    {Py_sq_length, reinterpret_cast<void*>(place_length)},
    {Py_sq_item, reinterpret_cast<void*>(place_item)},
    {Py_tp_doc, const_cast<char*>("A prefix that is cached: (branch, end, tick).")},
    {0, nullptr},
};

PyType_Spec place_spec = {"kvlitmus.optimized._core.Place", sizeof(PlaceObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, place_slots};

// -- Branch -------------------------------------------------------------------------------------------------------

int traverse_shadow(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(shadow(self)->name);
    return 0;
}

void drop_shadow(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(shadow(self)->name);
    Py_XDECREF(shadow(self)->digests);
    type->tp_free(self);
    Py_DECREF(type);
}

const Branch* branch_of(PyObject* self) {
    ShadowObject* one = shadow(self);
    return one->tree && one->number >= 0 ? &one->tree->tree->branches[one->number] : nullptr;
}

PyObject* number(PyObject* self, int64_t (*what)(const Branch&), int64_t otherwise) {
    const Branch* branch = branch_of(self);
    return PyLong_FromLongLong(branch ? what(*branch) : otherwise);
}

PyObject* get_uid(PyObject* self, void*) { return PyLong_FromLong(branch_of(self) ? shadow(self)->number : -1); }
PyObject* get_n(PyObject* self, void*) {
    return number(self, [](const Branch& b) -> int64_t { return b.n; }, 0);
}
PyObject* get_dev(PyObject* self, void*) {
    return number(self, [](const Branch& b) -> int64_t { return b.dev; }, 0);
}
PyObject* get_at(PyObject* self, void*) {
    return number(self, [](const Branch& b) -> int64_t { return b.at; }, 0);
}
PyObject* get_base(PyObject* self, void*) {
    return number(self, [](const Branch& b) -> int64_t { return b.base; }, 0);
}
PyObject* get_created(PyObject* self, void*) {
    return number(self, [](const Branch& b) -> int64_t { return b.created.at_root(); }, 0);
}
PyObject* get_namespace(PyObject* self, void*) { return Py_NewRef(shadow(self)->name); }

PyObject* get_parent(PyObject* self, void*) {
    const Branch* branch = branch_of(self);
    if (!branch) Py_RETURN_NONE;
    return shadow_of(shadow(self)->tree, branch->parent, shadow(self)->name);
}

PyObject* get_units(PyObject* self, void*) {
    const Branch* branch = branch_of(self);
    TreeObject* tree = shadow(self)->tree;
    View out;
    PyObject* dtype = !tree || tree->unit_bytes == 4 ? names.int32 : names.int64;
    Ref made = new_array(branch ? branch->n * tree->tree->page_size : 0, dtype, out);
    if (made && branch) std::memcpy(out.bytes(), branch->data, branch->n * tree->tree->page_bytes);
    return made.release();
}

PyObject* get_pages(PyObject* self, void*) {
    const Branch* branch = branch_of(self);
    View out;
    Ref made = new_array(branch ? branch->dev : 0, names.int32, out);
    if (made && branch)
        std::memcpy(out.bytes(), pages_of(*branch, shadow(self)->tree->tree->page_bytes), branch->dev * sizeof(int32_t));
    return made.release();
}

PyObject* get_digests(PyObject* self, void*) {
    PyObject* digests = shadow(self)->digests;
    return Py_NewRef(digests ? digests : Py_None);
}

int set_digests(PyObject* self, PyObject* given, void*) {
    if (!given || (given != Py_None && !PyByteArray_CheckExact(given))) {
        PyErr_SetString(PyExc_TypeError, "digests are a bytearray or None");
        return -1;
    }
    Py_INCREF(given);
    Py_XSETREF(shadow(self)->digests, given);
    return 0;
}

PyGetSetDef shadow_attributes[] = {
    {"uid", get_uid, nullptr, "Its number; -1 for a root.", nullptr},
    {"n", get_n, nullptr, "How many pages it has.", nullptr},
    {"dev", get_dev, nullptr, "How many of them are resident.", nullptr},
    {"at", get_at, nullptr, "Where it hangs.", nullptr},
    {"base", get_base, nullptr, "Its depth.", nullptr},
    {"created", get_created, nullptr, "The tree's clock when it was hung.", nullptr},
    {"namespace", get_namespace, nullptr, "Whose prompts these are.", nullptr},
    {"parent", get_parent, nullptr, "What it hangs off; None for a root.", nullptr},
    {"units", get_units, nullptr, "A copy of its units.", nullptr},
    {"dev_pages", get_pages, nullptr, "A copy of its resident pages.", nullptr},
    {"digests", get_digests, set_digests, "The digests of its first pages, as far as somebody asked.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot shadow_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(drop_shadow)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse_shadow)},
    {Py_tp_getset, shadow_attributes},
    {Py_tp_doc, const_cast<char*>("A branch of a tree, or a root.")},
    {0, nullptr},
};

PyType_Spec shadow_spec = {"kvlitmus.optimized._core.Branch", sizeof(ShadowObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, shadow_slots};

}  // namespace

bool add_places(PyObject* module) {
    place_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&place_spec));
    shadow_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&shadow_spec));
    return place_type && shadow_type &&
           PyModule_AddObjectRef(module, "Place", reinterpret_cast<PyObject*>(place_type)) == 0 &&
           PyModule_AddObjectRef(module, "Branch", reinterpret_cast<PyObject*>(shadow_type)) == 0;
}

}  // namespace kvlitmus
