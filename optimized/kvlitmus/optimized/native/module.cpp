// The module kvlitmus.optimized._core: the compiled core of the control plane.
//
// Tree and Pool are what the classes of kvlitmus.optimized.compiled are made of; see there, and the Python tree, which
// does the same, for what they mean.  SparseRows and Components are used as they are
// (kvlitmus.optimized.sparse, kvlitmus.optimized.components).
#include "python.h"

namespace kvlitmus {

Names names;

namespace {

PyObject* attribute(const char* module, const char* name) {
    Ref from(PyImport_ImportModule(module));
    return from ? PyObject_GetAttrString(from.get(), name) : nullptr;
}

bool take_names() {
    Ref dtype(attribute("numpy", "dtype"));
    if (!dtype) return false;
    names.int32 = PyObject_CallFunction(dtype.get(), "s", "int32");
    names.int64 = PyObject_CallFunction(dtype.get(), "s", "int64");
    names.uint8 = PyObject_CallFunction(dtype.get(), "s", "uint8");
    names.ndarray = attribute("numpy", "ndarray");
    names.empty = attribute("numpy", "empty");
    names.stale_handle = attribute("kvlitmus.optimized.inputs", "StaleHandle");
    names.found = attribute("kvlitmus.optimized.branch", "Found");
    names.inserted = attribute("kvlitmus.optimized.branch", "Inserted");
    names.match = attribute("kvlitmus.optimized.branch", "Match");
    names.run = attribute("kvlitmus.optimized.branch", "Run");
    names.sparse = PyImport_ImportModule("kvlitmus.optimized.sparse");
    names.components = PyImport_ImportModule("kvlitmus.optimized.components");
    return !PyErr_Occurred();
}

// For tests: so many more allocations succeed, and all of them if it is negative; returns how many would still have.
PyObject* set_fail_after(PyObject*, PyObject* given) {
    long long count = PyLong_AsLongLong(given);
    if (count == -1 && PyErr_Occurred()) return nullptr;
    long long left = fail_after;
    fail_after = count;
    return PyLong_FromLongLong(left);
}

PyMethodDef functions[] = {
    {"within", fast(within), METH_FASTCALL, "within(pages, limit): whether these are pages of a pool of so many."},
    {"copy_pages", copy_pages, METH_VARARGS, "copy_pages(source, target, source_pages, target_pages, page, chunk, loops)."},
    {"fail_after", set_fail_after, METH_O, "For tests: so many more allocations succeed; negative: all."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "kvlitmus.optimized._core", "The compiled core of the control plane.", -1, functions,
    nullptr,               nullptr,                    nullptr,                                       nullptr,
};

}  // namespace
}  // namespace kvlitmus

PyMODINIT_FUNC PyInit__core() {
    using namespace kvlitmus;
    Ref module(PyModule_Create(&definition));
    if (!module || !take_names()) return nullptr;
    for (auto* add : {add_pool, add_places, add_tree, add_sparse, add_components})
        if (!add(module.get())) return nullptr;
    return module.release();
}
