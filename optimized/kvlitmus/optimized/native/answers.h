// Answers of a type whose calls are one step each: made before the step, so that what may fail has changed nothing.
#pragma once

#include "python.h"

namespace kvlitmus {

template <typename Number>
Number* numbers_in(View& view) {
    return reinterpret_cast<Number*>(view.bytes());
}

// A new array; throws where memory is short.  Tests let it be so.
inline Ref answer(int64_t count, PyObject* dtype, View& view) {
    if (!allowed()) throw std::bad_alloc();
    Ref made = new_array(count, dtype, view);
    if (!made) throw Raised();
    return made;
}

// These as a tuple; throws where memory is short.
template <typename... Items>
Ref together(const Items&... items) {
    if (!allowed()) throw std::bad_alloc();
    Ref made(PyTuple_Pack(sizeof...(items), items.get()...));
    if (!made) throw Raised();
    return made;
}

template <typename Number>
PyObject* listed(const Number* items, int64_t count, PyObject* dtype) {
    View view;
    Ref made = answer(count, dtype, view);
    if (count) std::memcpy(view.bytes(), items, count * sizeof(Number));
    return made.release();
}

inline PyObject* free_of(const Pool& pool) {
    View view;
    Ref made = answer(pool.free_count(), names.int32, view);
    pool.copy_free(numbers_in<int32_t>(view));
    return made.release();
}

}  // namespace kvlitmus
