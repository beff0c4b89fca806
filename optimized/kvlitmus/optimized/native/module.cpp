// The module kvlitmus.optimized._core: the compiled core of the control plane.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace {

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "kvlitmus.optimized._core", "The compiled core of the control plane.", -1, nullptr,
    nullptr,               nullptr,                    nullptr,                                   nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__core() { return PyModule_Create(&definition); }
