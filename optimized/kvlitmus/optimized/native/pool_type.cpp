// The type Pool: kvlitmus.optimized.pool.PagePool's core.  What it can't take it leaves to the methods of its Python
// class: `brought` makes an array of other sequences, `refuse` says why a page is refused.
#include "python.h"

#include <structmember.h>

namespace kvlitmus {

PyTypeObject* pool_type;

namespace {

Pool& pool_of(PyObject* self) { return *reinterpret_cast<PoolObject*>(self)->pool; }

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* named) {
    long long pages, page_size, reserved;
    static const char* keys[] = {"pages", "page_size", "reserved", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, named, "LLL", const_cast<char**>(keys), &pages, &page_size, &reserved))
        return nullptr;
    if (pages < 0 || page_size < 1 || reserved < 0 || pages + reserved > INT32_MAX || page_size > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "no pool has %lld pages of %lld, %lld reserved", pages, page_size, reserved);
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    try {
        reinterpret_cast<PoolObject*>(self)->pool = new Pool(pages, page_size, reserved);
    } catch (const std::bad_alloc&) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return self;
}

void drop(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete reinterpret_cast<PoolObject*>(self)->pool;
    Py_XDECREF(reinterpret_cast<PoolObject*>(self)->calls);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* take(PyObject* self, PyObject* given) {
    int64_t count;
    if (!whole(given, count)) return nullptr;
    if (count > pool_of(self).free_count()) Py_RETURN_NONE;
    if (count < 0) return PyErr_Format(PyExc_ValueError, "no pool hands out %lld pages", static_cast<long long>(count));
    View view;
    Ref pages = new_array(count, names.int32, view);
    if (!pages) return nullptr;
    pool_of(self).take(count, reinterpret_cast<int32_t*>(view.bytes()));
    note(reinterpret_cast<PoolObject*>(self));
    return pages.release();
}

// self.refuse(pages, at, what), which raises.
PyObject* refuse(PyObject* self, PyObject* pages, int64_t at, const char* what) {
    Ref made(PyObject_CallMethod(self, "refuse", "OLs", pages, static_cast<long long>(at), what));
    if (made) PyErr_SetString(PyExc_SystemError, "a page that is refused was not");
    return nullptr;
}

PyObject* give_back_as(PyObject* self, PyObject* given, State was) {
    View view;
    if (!view.open(given, self, "brought")) return nullptr;
    return guarded([&]() -> PyObject* {
        int64_t wrong = view.numbers([&](auto* pages) { return pool_of(self).take_back(pages, view.count(), was); });
        if (wrong != FINE) return refuse(self, given, wrong, "freed");
        Py_RETURN_NONE;
    });
}

PyObject* give_back(PyObject* self, PyObject* given) { return give_back_as(self, given, USED); }
PyObject* release(PyObject* self, PyObject* given) { return give_back_as(self, given, CACHED); }

PyObject* adopt(PyObject* self, PyObject* given) {
    View view;
    if (!view.open(given, self, "brought")) return nullptr;
    int64_t wrong = view.numbers([&](auto* pages) { return pool_of(self).hand_over(pages, view.count(), USED, CACHED); });
    if (wrong != FINE) return refuse(self, given, wrong, "cached");
    Py_RETURN_NONE;
}

PyObject* slots(PyObject* self, PyObject* given) {
    View view, out;
    if (!view.open(given, self, "brought")) return nullptr;
    int64_t size = pool_of(self).page_size;
    Ref made = new_array(view.count() * size, names.int64, out);
    if (!made) return nullptr;
    auto* into = reinterpret_cast<int64_t*>(out.bytes());
    view.numbers([&](auto* pages) {
        for (int64_t k = 0; k < view.count(); ++k)
            for (int64_t j = 0; j < size; ++j)  // a wrong page makes wrong slots, as in numpy's arithmetic
                *into++ = static_cast<int64_t>(static_cast<uint64_t>(int64_t{pages[k]}) * size + j);
        return 0;
    });
    return made.release();
}

// (pages, FINE), or (nothing, the index of the slot that doesn't follow).
PyObject* whole_pages(PyObject* self, PyObject* given) {
    View view, out;
    if (!view.open(given, self, "brought")) return nullptr;
    int64_t size = pool_of(self).page_size, count = view.count(), wrong = FINE;
    Ref made = new_array((count + size - 1) / size, names.int32, out);
    if (!made) return nullptr;
    auto* into = reinterpret_cast<int32_t*>(out.bytes());
    view.numbers([&](auto* all) {
        for (int64_t k = 0; k < count && wrong == FINE; k += size) {
            int64_t first = all[k], page = first / size - (first % size < 0);
            if (k + size > count) wrong = count;
            for (int64_t j = 0; j < size && wrong == FINE; ++j)
                if (static_cast<uint64_t>(int64_t{all[k + j]}) != static_cast<uint64_t>(page) * size + j) wrong = k + j;
            *into++ = page >= 0 && page <= INT32_MAX ? static_cast<int32_t>(page) : -1;
        }
        return 0;
    });
    return Py_BuildValue("NL", made.release(), static_cast<long long>(wrong));
}

PyObject* free_pages(PyObject* self, PyObject*) {
    View out;
    Ref made = new_array(pool_of(self).free_count(), names.int32, out);
    if (made) pool_of(self).copy_free(reinterpret_cast<int32_t*>(out.bytes()));
    return made.release();
}

PyObject* keep_free(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    View left, more;
    if (count != 2 || !left.open(args[0]) || !more.open(args[1]) || left.width() != 4 || more.width() != 4 ||
        left.count() + more.count() > pool_of(self).free_count())
        return PyErr_Format(PyExc_ValueError, "keep_free takes two arrays of free pages");
    pool_of(self).keep_free(reinterpret_cast<int32_t*>(left.bytes()), left.count(),
                            reinterpret_cast<int32_t*>(more.bytes()), more.count());
    Py_RETURN_NONE;
}

PyObject* state(PyObject* self, PyObject* given) {
    int64_t page;
    if (!whole(given, page)) return nullptr;
    if (page < 0) page += pool_of(self).end();  // as in an array
    if (page < 0 || page >= pool_of(self).end())
        return PyErr_Format(PyExc_IndexError, "the pool has %lld pages", static_cast<long long>(pool_of(self).end()));
    return PyLong_FromLong(pool_of(self).state(page));
}

PyObject* states(PyObject* self, PyObject*) {
    Pool& pool = pool_of(self);
    PyObject* made = PyBytes_FromStringAndSize(nullptr, pool.end());
    if (made)
        for (int64_t page = 0; page < pool.end(); ++page) PyBytes_AS_STRING(made)[page] = pool.state(page);
    return made;
}

PyObject* group_begin(PyObject* self, PyObject*) {
    pool_of(self).group_begin();
    Py_RETURN_NONE;
}

PyObject* group_end(PyObject* self, PyObject*) {
    pool_of(self).group_end();
    Py_RETURN_NONE;
}

PyObject* watch(PyObject* self, PyObject* calls) {
    auto* pool = reinterpret_cast<PoolObject*>(self);
    Ref slot(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(calls)), "changed"));
    if (!slot) return nullptr;
    auto* member = reinterpret_cast<PyMemberDescrObject*>(slot.get());
    if (!Py_IS_TYPE(slot.get(), &PyMemberDescr_Type) || member->d_member->type != T_OBJECT_EX)
        return PyErr_Format(PyExc_TypeError, "these calls have no slot for what they have changed");
    Ref old(pool->calls);
    pool->calls = Py_NewRef(calls);
    pool->changed = reinterpret_cast<PyObject**>(reinterpret_cast<char*>(calls) + member->d_member->offset);
    Py_RETURN_NONE;
}

PyObject* available(PyObject* self, PyObject*) {
    return PyLong_FromLongLong(pool_of(self).free_count() * pool_of(self).page_size);
}

PyObject* get_free_count(PyObject* self, void*) { return PyLong_FromLongLong(pool_of(self).free_count()); }
PyObject* get_pages(PyObject* self, void*) { return PyLong_FromLongLong(pool_of(self).pages); }
PyObject* get_page_size(PyObject* self, void*) { return PyLong_FromLongLong(pool_of(self).page_size); }
PyObject* get_reserved(PyObject* self, void*) { return PyLong_FromLongLong(pool_of(self).reserved); }

PyMethodDef methods[] = {
    {"take", take, METH_O, "So many free pages, or None where there are too few."},
    {"give_back", give_back, METH_O, "Take pages back from a caller."},
    {"release", release, METH_O, "Take pages back from a tree."},
    {"adopt", adopt, METH_O, "Callers' pages become a tree's."},
    {"slots", slots, METH_O, "The slots of these pages, in order."},
    {"whole_pages", whole_pages, METH_O, "The pages that slots fill and -1, or the index of the first that doesn't follow."},
    {"stacked", free_pages, METH_NOARGS, "The free pages; the last one is handed out first."},
    {"keep_free", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(keep_free)), METH_FASTCALL,
     "Of the free pages the first of these stay so, and the second are in use."},
    {"states", states, METH_NOARGS, "The states of all pages, a byte each."},
    {"state_of", state, METH_O, "The state of a page."},
    {"group_begin", group_begin, METH_NOARGS, "What is given back from now on waits."},
    {"group_end", group_end, METH_NOARGS, "What was given back in the group becomes free together."},
    {"watch", watch, METH_O, "Note in these Calls when a step of a request has been made."},
    {"available", available, METH_NOARGS, "How many slots could be handed out now."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"free_count", get_free_count, nullptr, "How many pages are free.", nullptr},
    {"pages", get_pages, nullptr, "How many pages there are.", nullptr},
    {"page_size", get_page_size, nullptr, "Slots per page.", nullptr},
    {"reserved", get_reserved, nullptr, "Pages at the start that are never handed out.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots_of_type[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, const_cast<char*>("Pool(pages, page_size, reserved): which pages are free.")},
    {0, nullptr},
};

PyType_Spec spec = {"kvlitmus.optimized._core.Pool", sizeof(PoolObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                    slots_of_type};

}  // namespace

bool add_pool(PyObject* module) {
    pool_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return pool_type && PyModule_AddObjectRef(module, "Pool", reinterpret_cast<PyObject*>(pool_type)) == 0;
}

}  // namespace kvlitmus
