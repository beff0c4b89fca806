// Everything that a tree is, in plain tuples: kvlitmus.optimized.opened makes a Python tree of it, to be audited, looked
// at and compared.  It costs what is cached.
#include "calls.h"

namespace kvlitmus {
namespace {

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
                                            return Py_BuildValue("iLii", all[at].start, static_cast<long long>(all[at].count),
                                                                 all[at].kids, all[at].live);
                                        });
    PyObject* locks = list_of(b.locks, b.locks.size(), [](auto& all, size_t at) { return PyLong_FromLong(all[at]); });
    PyObject* digests = Py_NewRef(b.shadow && static_cast<ShadowObject*>(b.shadow)->digests
                                      ? static_cast<ShadowObject*>(b.shadow)->digests
                                      : Py_None);
    OnHost on(b, tree.page_bytes);
    auto length = static_cast<Py_ssize_t>(b.n);
    PyObject* host = !tree.host ? Py_NewRef(Py_None)
                                : Py_BuildValue("iiy#y#y#", *on.live_end, tree.host_victims.where(number),
                                                reinterpret_cast<const char*>(on.copies), length * 4,
                                                reinterpret_cast<const char*>(on.pins), length * 4,
                                                reinterpret_cast<const char*>(on.flags), length);
    return Py_BuildValue(
        "niiiiNNNNNNiy#y#NN", number, b.parent, b.at, b.base, b.room, level_list(b.touched), level_list(b.created),
        level_list(b.priority), nodes, locks, PyLong_FromLong(tree.victims.where(number)), b.kids_end, b.data,
        static_cast<Py_ssize_t>(b.n * tree.page_bytes), reinterpret_cast<const char*>(kvlitmus::pages_of(b, tree.page_bytes)),
        static_cast<Py_ssize_t>(b.dev * sizeof(int32_t)), digests, host);
}

}  // namespace

// export(): all that there is, in plain tuples; kvlitmus.optimized.opened makes a Python tree of it.
PyObject* export_all(PyObject* self, PyObject*) {
    Tree& tree = *owner(self)->tree;
    if (owner(self)->busy) return PyErr_Format(PyExc_RuntimeError, "the tree is in use");
    NoCollection none;
    Ref branches(PyList_New(0)), roots(PyList_New(0));
    for (size_t at = 0; at < tree.branches.made(); ++at) {
        if (!tree.branches[at].n) continue;
        Ref one(branch_list(tree, at));
        if (!one || PyList_Append(branches.get(), one.get()) < 0) return nullptr;
    }
    for (int32_t at = 1; at <= tree.roots(); ++at) {  // all of them, also one that was entered under the name of another
        int32_t root = -at;
        auto* name = static_cast<PyObject*>(tree.root(root).name);
        if (!name) continue;
        auto* shadow = static_cast<ShadowObject*>(tree.root(root).shadow);
        Ref one(Py_BuildValue("IOiiO", tree.root(root).serial, name, root, tree.root(root).kids,
                              shadow && shadow->digests ? shadow->digests : Py_None));
        if (!one || PyList_Append(roots.get(), one.get()) < 0) return nullptr;
    }
    const Array<int32_t>& free = tree.branches.free_numbers();
    PyObject* numbers = list_of(free, free.size(), [](auto& all, size_t at) { return PyLong_FromLong(all[at]); });
    auto entries = [](const Victims& victims) {
        return list_of(victims.entries(), victims.size(), [](auto& all, size_t at) {
            return Py_BuildValue("LLi", static_cast<long long>(all[at].first), static_cast<long long>(all[at].second),
                                 all[at].number);
        });
    };
    return Py_BuildValue("NNNNNLLL", branches.release(), roots.release(), numbers, entries(tree.victims),
                         entries(tree.host_victims),
                         static_cast<long long>(tree.clock), static_cast<long long>(tree.evictable),
                         static_cast<long long>(tree.guarded));
}

}  // namespace kvlitmus
