// Runs of pages that Python hands in: what the calls of a tree with a host have in common.  They are what the tree has
// made: of a branch that is there, and no longer than it is.
#pragma once

#include "calls.h"

namespace kvlitmus {

constexpr int64_t ALWAYS = int64_t{1} << 62;  // the tick of a place that can't be gone: it is locked, or pinned

inline bool hosted(PyObject* self) {
    if (tree_of(self).host) return ready(owner(self));
    PyErr_SetString(PyExc_ValueError, "this tree has no host");
    return false;
}

inline bool open_branch(PyObject* self, PyObject* given, int32_t& number) {
    auto* shadow = reinterpret_cast<ShadowObject*>(given);
    if (!Py_IS_TYPE(given, shadow_type) || shadow->tree != owner(self) || shadow->number < 0)
        return stale("this branch is gone, or of another cache");
    number = shadow->number;
    return true;
}

inline bool open_run(PyObject* self, PyObject* given, Span& run) {
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 3) {
        PyErr_Format(PyExc_TypeError, "a run was expected (got %R)", given);
        return false;
    }
    int64_t lo, hi;
    if (!open_branch(self, PyTuple_GET_ITEM(given, 0), run.branch) || !count_of(PyTuple_GET_ITEM(given, 1), lo) ||
        !count_of(PyTuple_GET_ITEM(given, 2), hi))
        return false;
    if (lo < 0 || hi < lo || hi > tree_of(self).branches[run.branch].n) return stale("these pages are gone");
    run.lo = static_cast<int32_t>(lo);
    run.hi = static_cast<int32_t>(hi);
    return true;
}

// Some runs, a few of which take no memory: what is begun can be ended where there is none.
class Runs {
  public:
    // Whether these are runs, with an exception where they aren't; throws std::bad_alloc.
    bool open(PyObject* self, PyObject* given) {
        if (!hosted(self)) return false;
        Ref all(PySequence_Fast(given, "runs were expected"));
        if (!all) return false;
        size_ = PySequence_Fast_GET_SIZE(all.get());
        if (size_ > FEW) many_.reserve(size_);
        for (size_t at = 0; at < size_; ++at)
            if (!open_run(self, PySequence_Fast_GET_ITEM(all.get(), static_cast<Py_ssize_t>(at)), begin()[at])) return false;
        return true;
    }

    size_t size() const { return size_; }
    bool empty() const { return !size_; }
    Span* begin() { return size_ > FEW ? many_.begin() : few_; }
    const Span* begin() const { return size_ > FEW ? many_.begin() : few_; }
    const Span* end() const { return begin() + size_; }
    const Span& operator[](size_t at) const { return begin()[at]; }

  private:
    static constexpr size_t FEW = 16;
    Span few_[FEW];
    Array<Span> many_;
    size_t size_ = 0;
};

// Calls `work` with these runs; nullptr with an exception where that fails.
template <typename Work>
PyObject* with_runs(PyObject* self, PyObject* given, Work work) {
    return guarded([&]() -> PyObject* {
        Runs runs;
        return runs.open(self, given) ? work(runs) : nullptr;
    });
}

inline PyObject* done(PyObject* self) {
    note(pool_at(self));
    Py_RETURN_NONE;
}

}  // namespace kvlitmus
