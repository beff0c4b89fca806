// What the calls of Components have in common (components_type.cpp, component_host.cpp): each is one step.  What it is given
// is read first, which may run Python; then it looks whether that can be, makes its answer, and last changes something,
// which can't fail.
#pragma once

#include "answers.h"
#include "components.h"

namespace kvlitmus {

namespace {

struct ComponentsObject {
    PyObject_HEAD
    Components* tree;
    PyObject* roots;  // namespace -> number of its root
};

inline ComponentsObject* owner_of(PyObject* self) { return reinterpret_cast<ComponentsObject*>(self); }
inline Components& tree_at(PyObject* self) { return *owner_of(self)->tree; }
inline PyObject* done() { return Py_NewRef(Py_None); }

// -- what is handed in -----------------------------------------------------------------------------------------------

// The root of a namespace, None or a plain string, so that looking it up runs nothing; NOWHERE where there is none.
inline bool known_root(PyObject* self, PyObject* name, int32_t& root) {
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
inline void have_root(PyObject* self, PyObject* name, int32_t& root) {
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
inline void sweep(PyObject* self) {
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
inline bool read_wants(PyObject* self, PyObject* given, int64_t* wants) {
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

// A number of each component as an answer, 0 at first.
struct Counts {
    View view;
    Ref array;

    explicit Counts(Components& tree) : array(answer(tree.layout.components, names.int64, view)) {
        std::fill_n(each(), tree.layout.components, 0);
    }
    int64_t* each() { return numbers_in<int64_t>(view); }
};

// Whether there is this tier; false with an exception.
inline bool has_tier(PyObject* self, int tier) {
    if (tier < tree_at(self).layout.tiers) return true;
    PyErr_SetString(PyExc_ValueError, "this cache has no host");
    return false;
}

inline Ref number(int64_t one) {
    if (!allowed()) throw std::bad_alloc();
    Ref made(PyLong_FromLongLong(one));
    if (!made) throw Raised();
    return made;
}

inline bool given_as_many(Py_ssize_t given, Py_ssize_t count) {
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

// The namespace and the units of a prefix; throws where memory is short.
inline Ref prefix(Components& tree, Spot spot) {
    View view;
    Ref units = answer(tree.depth(spot) * tree.layout.page_size, names.int64, view);
    tree.spell(spot, view.bytes());
    Ref name(Py_NewRef(static_cast<PyObject*>(tree.root(tree.root_of(spot.branch)).name)));
    return together(name, units);
}

inline void append(const Ref& all, const Ref& one) {
    if (!allowed()) throw std::bad_alloc();
    if (PyList_Append(all.get(), one.get()) < 0) throw Raised();
}

}  // namespace

// How copies between the tiers begin and end, as methods of Components with a host (component_host.cpp).
extern PyMethodDef component_host_methods[];

}  // namespace kvlitmus
