// How puts to storage begin and end, each in one call (kvlitmus.optimized.put says what they do).
#include "runs.h"

namespace kvlitmus {
namespace {

bool waits(const Tree& tree, int32_t branch, int32_t at) {  // to be put: it is there, neither stored nor on its way
    return tree.on_host(tree.branches[branch]).flags[at] == SETTLED;
}

// Begin to put these pages, which follow one another, if they have names, and still wait then.
void put_part(PyObject* self, const Array<Span>& part, PyObject* names_of, PyObject* begun) {
    Tree& tree = tree_of(self);
    Spot last = {part.back().branch, part.back().hi};
    int64_t first = tree.branches[part[0].branch].base + int64_t{part[0].lo};
    View host;
    Ref end(new_place(owner(self), last, nullptr, ALWAYS)), runs(end ? run_list(owner(self), part) : nullptr);
    Ref pages = runs ? new_array(tree.depth(last) - first, names.int32, host) : Ref();
    Ref called(pages ? PyObject_CallFunction(names_of, "OL", end.get(), static_cast<long long>(first)) : nullptr);
    Ref put(called ? PyTuple_Pack(4, end.get(), runs.get(), pages.get(), called.get()) : nullptr);
    if (!called && pages && PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();
    if (!put) return;
    char* into = host.bytes();
    for (const Span& run : part) {
        for (int32_t at = run.lo; at < run.hi; ++at)
            if (!waits(tree, run.branch, at)) return;
        size_t bytes = (run.hi - run.lo) * sizeof(int32_t);
        std::memcpy(into, tree.on_host(tree.branches[run.branch]).copies + run.lo, bytes);
        into += bytes;
    }
    if (PyList_Append(begun, put.get()) < 0) return;
    tree.pin(part.begin(), part.size(), 1);
    tree.flag(part.begin(), part.size(), BUSY, 0);
    note(pool_at(self));
}

// Nobody hears of these puts, for an exception is set: they are over.
void undo(PyObject* self, const Ref& begun) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(begun.get()); ++at)
        if (!Ref(end_put(self, PyTuple_GET_ITEM(PyList_GET_ITEM(begun.get(), at), 1)))) PyErr_Clear();
    PyErr_Restore(type, value, traceback);
}

}  // namespace

// begin_puts(runs, names): of backed pages that follow one another, (place, runs, host pages, names) of each part whose put
// begins.  `names(place, lo)` may run anything, and raises TypeError where there are none.  Without memory no more begin;
// where anything else is raised, none has.
PyObject* begin_puts(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    if (!given_as_many(count, 2, "begin_puts")) return nullptr;
    Ref begun(PyList_New(0));
    if (!begun) return nullptr;
    Ref made(with_runs(self, args[0], [&](const Runs& runs) -> PyObject* {
        Tree& tree = tree_of(self);
        Array<Span> part;
        part.reserve(runs.size());
        tree.pin(runs.begin(), runs.size(), 1);
        for (size_t k = 0; k < runs.size(); ++k) {
            Span run = runs[k], next = k + 1 < runs.size() ? runs[k + 1] : run;
            for (int32_t lo = run.lo, hi; lo < run.hi && !PyErr_Occurred(); lo = hi) {
                bool due = waits(tree, run.branch, lo);
                for (hi = lo + 1; hi < run.hi && waits(tree, run.branch, hi) == due;) ++hi;
                if (!due) continue;
                part.push({run.branch, lo, hi});
                if (hi == run.hi && next.branch != run.branch && next.lo < next.hi && waits(tree, next.branch, next.lo)) continue;
                put_part(self, part, args[1], begun.get());
                part.clear();
            }
        }
        tree.pin(runs.begin(), runs.size(), -1);
        return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
    }));
    if (!made && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        undo(self, begun);
        return nullptr;
    }
    PyErr_Clear();
    return begun.release();
}

// end_put(runs): nobody reads these pages any more.
PyObject* end_put(PyObject* self, PyObject* given) {
    return with_runs(self, given, [&](const Runs& runs) -> PyObject* {
        if (!tree_of(self).pin(runs.begin(), runs.size(), -1))
            return PyErr_Format(PyExc_ValueError, "the host copies of this put are not pinned");
        tree_of(self).flag(runs.begin(), runs.size(), 0, BUSY);
        return done(self);
    });
}

}  // namespace kvlitmus
