// What the types of the module share: references, arrays in and out, errors.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <new>

#include "tree.h"

namespace kvlitmus {

// An owned reference.
class Ref {
  public:
    Ref() = default;
    explicit Ref(PyObject* owned) : object_(owned) {}
    Ref(Ref&& other) noexcept : object_(other.release()) {}
    Ref& operator=(Ref&& other) noexcept {
        Ref old(object_);
        object_ = other.release();
        return *this;
    }
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    ~Ref() { Py_XDECREF(object_); }

    explicit operator bool() const { return object_ != nullptr; }
    PyObject* get() const { return object_; }
    PyObject* release() {
        PyObject* object = object_;
        object_ = nullptr;
        return object;
    }

  private:
    PyObject* object_ = nullptr;
};

// While there is one, nothing is collected: collections run whatever finalizers there are, also those that use the tree.
class NoCollection {
  public:
    NoCollection() : was_(PyGC_Disable()) {}
    NoCollection(const NoCollection&) = delete;
    NoCollection& operator=(const NoCollection&) = delete;
    ~NoCollection() {
        if (was_) PyGC_Enable();
    }

  private:
    int was_;
};

// What of Python the module needs: taken once, when it is imported.
struct Names {
    PyObject* ndarray;       // numpy.ndarray
    PyObject* empty;         // numpy.empty
    PyObject* int32;         // numpy.dtype("int32")
    PyObject* int64;         // numpy.dtype("int64")
    PyObject* uint8;         // numpy.dtype("uint8")
    PyObject* stale_handle;  // kvlitmus.optimized.inputs.StaleHandle
    PyObject* found;         // branch.Found, Inserted, Match, Run: named tuples
    PyObject* inserted;
    PyObject* match;
    PyObject* run;
    PyObject* sparse;        // the modules kvlitmus.optimized.sparse and components
    PyObject* components;
};
extern Names names;

// Runs what may lack memory, or call Python; nullptr, with the exception set, where that fails.
template <typename Work>
PyObject* guarded(Work work) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    } catch (const Raised&) {
        return nullptr;
    }
}

// A named tuple of these, which it takes over; nullptr where one is nullptr, or memory is short.
template <typename... Items>
PyObject* named_tuple(PyObject* type, Items... items) {
    PyObject* all[] = {items...};
    auto* made_of = reinterpret_cast<PyTypeObject*>(type);
    Ref made(made_of->tp_alloc(made_of, sizeof...(items)));
    bool whole = static_cast<bool>(made);
    Py_ssize_t at = 0;
    for (PyObject* item : all) {
        whole = whole && item;
        if (made)
            PyTuple_SET_ITEM(made.get(), at++, item);
        else
            Py_XDECREF(item);
    }
    return whole ? made.release() : nullptr;
}

// The memory of a numpy array in one dimension without gaps, of signed integers with 32 or 64 bits.
class View {
  public:
    View() = default;
    View(const View&) = delete;
    View& operator=(const View&) = delete;
    ~View() { close(); }

    // Whether this is such an array; no exception is set where it isn't.
    bool open(PyObject* given, bool writable = false) {
        if (reinterpret_cast<PyObject*>(Py_TYPE(given)) != names.ndarray) return false;
        int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
        if (PyObject_GetBuffer(given, &buffer_, flags) < 0) {
            PyErr_Clear();
            return false;
        }
        open_ = true;
        const char* format = buffer_.format;
        bool signed_integers = format && (*format == 'i' || *format == 'l' || *format == 'q') && !format[1];
        if (signed_integers && buffer_.ndim == 1 && (width() == 4 || width() == 8)) return true;
        close();
        return false;
    }

    // The same, after `bring(*given)` has made such an array of what was given; false with its exception.
    bool open(PyObject* given, PyObject* owner, const char* bring) { return open(given) || open_brought(given, owner, bring); }

    bool open_brought(PyObject* given, PyObject* owner, const char* bring) {
        Ref name(PyUnicode_InternFromString(bring));
        if (!name) return false;
        brought_ = Ref(PyObject_CallMethodOneArg(owner, name.get(), given));
        if (!brought_) return false;
        if (open(brought_.get())) return true;
        PyErr_Format(PyExc_TypeError, "%s() gave no array of the tree's type", bring);
        return false;
    }

    // The memory of a new array, of a type that needs no look; no exception is set where there is none.
    bool open_own(PyObject* made) {
        open_ = PyObject_GetBuffer(made, &buffer_, PyBUF_WRITABLE) == 0;
        if (!open_) PyErr_Clear();
        return open_;
    }

    int64_t count() const { return buffer_.shape ? buffer_.shape[0] : buffer_.len / buffer_.itemsize; }
    int64_t width() const { return buffer_.itemsize; }
    char* bytes() const { return static_cast<char*>(buffer_.buf); }

    // Calls `work` with a pointer to its numbers.
    template <typename Work>
    auto numbers(Work work) const {
        if (width() == 4) return work(reinterpret_cast<const int32_t*>(bytes()));
        return work(reinterpret_cast<const int64_t*>(bytes()));
    }

    void close() {
        if (open_) PyBuffer_Release(&buffer_);
        open_ = false;
    }

  private:
    Py_buffer buffer_{};
    bool open_ = false;
    Ref brought_;
};

// An integer argument, those of more than 63 bits as the nearest one; false with an exception where it is none.
inline bool whole(PyObject* given, int64_t& into) {
    Ref number(PyNumber_Index(given));
    if (!number) return false;
    int over = 0;
    into = PyLong_AsLongLongAndOverflow(number.get(), &over);
    if (over) into = over < 0 ? INT64_MIN : INT64_MAX;
    return !PyErr_Occurred();
}

// A new numpy array; its memory is in `view`.  Empty, with an exception, where memory is short.
inline Ref new_array(int64_t count, PyObject* dtype, View& view) {
    Ref length(PyLong_FromLongLong(count));
    if (!length) return Ref();
    PyObject* given[] = {length.get(), dtype};
    Ref made(PyObject_Vectorcall(names.empty, given, 2, nullptr));
    if (made && !view.open_own(made.get())) PyErr_NoMemory();
    return PyErr_Occurred() ? Ref() : Ref(made.release());
}

template <typename Function>
constexpr PyCFunction fast(Function function) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

bool add_pool(PyObject* module);
bool add_places(PyObject* module);
bool add_tree(PyObject* module);
bool add_sparse(PyObject* module);
bool add_components(PyObject* module);

extern PyTypeObject* pool_type;
extern PyTypeObject* place_type;
extern PyTypeObject* shadow_type;

struct PoolObject {
    PyObject_HEAD
    Pool* pool;
    PyObject* calls;  // kvlitmus.optimized.calls.Calls, or none
    PyObject** changed;  // where these say whether they have changed anything
};

// A step has been made: a larger call that is made of it has begun.
inline void note(PoolObject* pool) {
    if (!pool->changed || *pool->changed == Py_True) return;
    Ref old(*pool->changed);
    *pool->changed = Py_NewRef(Py_True);
}

// A call has ended halfway, also one that is no step of a larger one; the error stays.
inline void tear(PoolObject* pool) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (pool->calls && PyObject_SetAttrString(pool->calls, "torn", Py_True) < 0) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

struct TreeObject {
    PyObject_HEAD
    Tree* tree;
    PyObject* pool;   // the PoolObject
    PyObject* host;   // the host's, or nullptr
    PyObject* tell;   // the hooks: callables, or nullptr
    PyObject* spill;
    PyObject* roots;  // namespace -> serial and number of its root
    int64_t shadows;  // how many branches and roots Python has asked for
    int unit_bytes;
    bool busy;        // a namespace is being looked up, which may run anything
};

// The prefix that ends after the first `end` pages of a branch, as of the tick `tick`; `born` is when that branch was
// hung, for its number is used again.  Of a root `branch` is NOWHERE.
struct PlaceObject {
    PyObject_HEAD
    TreeObject* tree;
    PyObject* name;  // of a root, its namespace; else nullptr
    int64_t tick, born;
    int32_t branch, end;
};

// What Python sees of a branch or a root.
struct ShadowObject {
    PyObject_HEAD
    TreeObject* tree;  // borrowed; nullptr when it is no more
    PyObject* name;    // the namespace
    PyObject* digests;
    int32_t number;    // NOWHERE when the branch is gone, or of a root that the tree doesn't know
    bool is_root;
};

// A place of this spot; a root's has the namespace.
PyObject* new_place(TreeObject* tree, Spot spot, PyObject* name, int64_t tick);
// The shadow of this branch or root, a new reference.
PyObject* shadow_of(TreeObject* tree, int32_t number, PyObject* name);
// The same of a branch that is there, whose namespace need not be known.
PyObject* branch_shadow(TreeObject* tree, int32_t number);
// These pages as a Run, and all of these as a list of Runs.
PyObject* new_run(TreeObject* tree, Span run);
PyObject* run_list(TreeObject* tree, const Array<Span>& runs);
// The root of a namespace, NOWHERE where nothing is cached of it; false with an exception.
bool root_of(TreeObject* tree, PyObject* name, int32_t& root);
// The steps of requests, as methods of Tree.
PyObject* begin(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* store(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* leave(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* fill(PyObject* self, PyObject* const* args, Py_ssize_t count);
// How copies begin and end, as methods of a Tree with a host.
PyObject* back_up(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* end_backup(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* load_back(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* end_load(PyObject* self, PyObject* const* args, Py_ssize_t count);
// How puts begin and end, as such methods.
PyObject* begin_puts(PyObject* self, PyObject* const* args, Py_ssize_t count);
PyObject* end_put(PyObject* self, PyObject* runs);
// Page tables and contents of pages, as functions (contents.cpp).
PyObject* within(PyObject* module, PyObject* const* args, Py_ssize_t count);
PyObject* copy_pages(PyObject* module, PyObject* given);
// What a tree with a host does besides, as methods of Tree (tiers.cpp).
extern PyMethodDef tier_methods[];
// Have the tree call its hooks, as far as they are set.
void set_hooks(TreeObject* tree);
// All that a tree is, in plain tuples.
PyObject* export_all(PyObject* tree, PyObject* nothing);
// Whether the branch that this place is in is still the same one.
bool alive(const PlaceObject* place);

}  // namespace kvlitmus
