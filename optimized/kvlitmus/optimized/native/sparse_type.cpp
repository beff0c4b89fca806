// The type SparseRows (kvlitmus.optimized.sparse): each call in one step.  What it is given is read first, which may run
// Python; then it looks whether that can be, makes its answer, and last changes something, which can't fail.
#include "answers.h"
#include "sparse.h"

namespace kvlitmus {

namespace {

struct SparseObject {
    PyObject_HEAD
    SparseRows* rows;
};

SparseRows& rows_of(PyObject* self) { return *reinterpret_cast<SparseObject*>(self)->rows; }

PyObject* make(PyTypeObject* type, PyObject* args, PyObject* named) {
    SparseShape shape;
    static const char* keys[] = {"page_size", "pages", "rows", "width", "room", "device_slots", "ratio", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, named, "LLLLLLL", const_cast<char**>(keys), &shape.page_size, &shape.pages,
                                     &shape.rows, &shape.width, &shape.room, &shape.device, &shape.ratio))
        return nullptr;
    bool fits = shape.rows <= MOST_ROWS && shape.pages >= 0 && shape.device >= 0 && shape.width >= shape.page_size;
    for (int64_t number : {shape.page_size, shape.rows, shape.room, shape.ratio}) fits = fits && number > 0;
    for (int64_t number : {shape.pages, shape.width, shape.room, shape.device}) fits = fits && number < INT32_MAX;
    if (!fits) return PyErr_Format(PyExc_ValueError, "there are no sparse rows of these sizes");
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    try {
        reinterpret_cast<SparseObject*>(self)->rows = new SparseRows(shape);
    } catch (const std::bad_alloc&) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return self;
}

void drop(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete reinterpret_cast<SparseObject*>(self)->rows;
    type->tp_free(self);
    Py_DECREF(type);
}

// So many integers, of which the first is a row if `of_row` says so; false with an exception.
bool read(PyObject* self, PyObject* const* args, Py_ssize_t given, Py_ssize_t count, bool of_row, int64_t* into) {
    if (given != count) {
        PyErr_Format(PyExc_TypeError, "%zd integers were expected (got %zd)", count, given);
        return false;
    }
    for (Py_ssize_t k = 0; k < count; ++k)
        if (!whole(args[k], into[k])) return false;
    int64_t last = rows_of(self).shape.rows - 1;
    if (!of_row || (into[0] >= 0 && into[0] <= last)) return true;
    PyErr_Format(PyExc_ValueError, "there are rows 0 to %lld (got %lld)", static_cast<long long>(last),
                 static_cast<long long>(into[0]));
    return false;
}

// A call with so many integers, of which the first is a row if `of_row` says so.
template <Py_ssize_t count, bool of_row, PyObject* (*work)(SparseRows&, const int64_t*)>
PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    int64_t asked[count + 1];
    if (!read(self, args, given, count, of_row, asked)) return nullptr;
    NoCollection quiet;
    return guarded([&] { return work(rows_of(self), asked); });
}

// None where the host is short of pages, or ValueError with the reason.
PyObject* refuse(Refusal why) {
    static const char* const words[] = {
        "nothing is wrong",
        "a start or a length must not be negative",
        "this leaves a hole: the row has no slots for the tokens before",
        "the row is not wide enough",
        "too few pages of the host are free",
        "too few slots of the device are free",
        "a prompt is written to an empty row only",
        "the row waits for its prompt",
        "the row does not decode",
        "a peer's pages must have as many tokens as these",
        "a step has a newest token",
        "distinct tokens of the sequence must be wanted, no more than the buffer has room for",
        "it has ended, or never began",
    };
    if (why == Refusal::FEW_HOST) Py_RETURN_NONE;
    return PyErr_Format(PyExc_ValueError, "%s", words[static_cast<int>(why)]);
}

int64_t* slots_in(View& view) { return numbers_in<int64_t>(view); }
PyObject* done() { return Py_NewRef(Py_None); }

// -- requests ------------------------------------------------------------------------------------

// The slots that are asked for: of a backup, by a step of so many tokens, or of another request.
PyObject* give(SparseRows& rows, const Ask& one, int64_t length) {
    if (one.refusal != Refusal::NONE) return refuse(one.refusal);
    View view;
    Ref slots = answer(one.tokens, names.int64, view);
    rows.grant(one);
    if (length) rows.back_up(one.row, length);
    rows.spell(one.row, one.start, one.tokens, slots_in(view));
    return slots.release();
}

PyObject* request(SparseRows& rows, const int64_t* of) { return give(rows, rows.ask(of[0], of[1], of[2]), 0); }
PyObject* back_up(SparseRows& rows, const int64_t* of) { return give(rows, rows.ask_backup(of[0], of[1]), of[1]); }

PyObject* read_row(SparseRows& rows, const int64_t* of) {
    View view;
    Ref slots = answer(rows.allocated(*of), names.int64, view);
    rows.spell(*of, 0, rows.allocated(*of), slots_in(view));
    return slots.release();
}

PyObject* free_row(SparseRows& rows, const int64_t* of) {
    rows.free(*of);
    return done();
}

PyObject* reset(SparseRows& rows, const int64_t*) {
    for (int64_t row = 0; row < rows.shape.rows; ++row) rows.free(row);
    return done();
}

PyObject* reserve(SparseRows& rows, const int64_t* of) { return PyBool_FromLong(rows.reserve(of[0], of[1])); }

// -- staging and transfers -----------------------------------------------------------------------

// The slots of a prompt, which is written there from now on, and the number of what writes it, or -1.
PyObject* write(SparseRows& rows, Works& works, int64_t row, int64_t length) {
    Ask one = rows.ask_prompt(row, length);
    if (one.refusal == Refusal::FEW_DEVICE) return done();
    if (one.refusal != Refusal::NONE) return refuse(one.refusal);
    View view;
    Ref slots = answer(one.tokens, names.int64, view);
    Ref number(PyLong_FromLongLong(one.tokens ? works.begun : -1));
    if (!number) return nullptr;
    Ref both = together(slots, number);
    rows.room_for_work(works);
    if (one.tokens) rows.write(works, one, length);
    rows.spell(row, 0, one.tokens, slots_in(view));
    return both.release();
}

PyObject* stage(SparseRows& rows, const int64_t* of) { return write(rows, rows.copies, of[0], of[1]); }
PyObject* prealloc(SparseRows& rows, const int64_t* of) {
    if (of[2] != rows.shape.page_size) return refuse(Refusal::PEER);
    return write(rows, rows.transfers, of[0], of[1]);
}

PyObject* copied(SparseRows& rows, const int64_t* of) {
    Work* work = rows.copies.find(*of);
    if (!work) return refuse(Refusal::ENDED);
    rows.end(rows.copies, work);
    return done();
}

PyObject* transferred(SparseRows& rows, const int64_t* of) {
    Work* work = rows.transfers.find(*of);
    if (!work) return refuse(Refusal::ENDED);
    int64_t row = rows.end(rows.transfers, work);
    if (row != LEFT && of[1]) rows.decode(row, rows.row(row).length, false);
    if (row != LEFT && !of[1]) rows.free(row);
    return done();
}

PyObject* going(const Works& works) {
    View view;
    Ref made = answer(works.going.size(), names.int64, view);
    int64_t* into = slots_in(view);
    for (const Work& one : works.going) *into++ = one.number;
    return made.release();
}

PyObject* copying(SparseRows& rows, const int64_t*) { return going(rows.copies); }
PyObject* transferring(SparseRows& rows, const int64_t*) { return going(rows.transfers); }

PyObject* ready(SparseRows& rows, const int64_t*) {
    size_t many = rows.ready();
    PyObject* made = listed(rows.waiting().begin(), many, names.int32);
    rows.acknowledge(many);
    return made;
}

PyObject* pages(SparseRows& rows, const int64_t* of) { return listed(rows.pages(*of), rows.row(*of).pages, names.int32); }

// -- decoding ------------------------------------------------------------------------------------

PyObject* admit(SparseRows& rows, const int64_t* of) {
    Ask one = rows.ask_admit(of[0], of[1]);
    if (one.refusal == Refusal::FEW_DEVICE) return PyBool_FromLong(false);
    if (one.refusal != Refusal::NONE) return refuse(one.refusal);
    rows.widen(one.row, one.slots);
    rows.decode(one.row, of[1], false);
    return PyBool_FromLong(true);
}

PyObject* grow(SparseRows& rows, const int64_t* of) {
    Ask one = rows.ask_growth(of[0], of[1]);
    if (one.refusal == Refusal::FEW_DEVICE) return done();
    if (one.refusal != Refusal::NONE) return refuse(one.refusal);
    if (!allowed()) throw std::bad_alloc();
    rows.widen(one.row, one.slots);
    PyObject* slot = PyLong_FromLong(rows.slots(one.row)[rows.newest(of[1])]);
    if (!slot) rows.narrow(one.row, one.slots);
    return slot;
}

template <typename Number>
PyObject* swap_in(SparseRows& rows, int64_t row, int64_t length, const Number* wanted, int64_t count) {
    Refusal why = rows.ask_swap(row, length, wanted, count);
    if (why != Refusal::NONE) return refuse(why);
    int64_t hosted = rows.hosted(length), missing = rows.buffers().missing(row, hosted, wanted, count);
    View places, slots, filled;
    Ref first = answer(count, names.int64, places);
    Ref second = answer(missing, names.int64, slots);
    Ref third = answer(missing, names.int64, filled);
    Ref all = together(first, second, third);
    rows.buffers().swap(row, hosted, wanted, count, slots_in(places), slots_in(slots), slots_in(filled));
    for (int64_t k = 0; k < missing; ++k) slots_in(slots)[k] = rows.slot(row, slots_in(slots)[k]);
    return all.release();
}

PyObject* swap(PyObject* self, PyObject* const* args, Py_ssize_t given) {
    int64_t asked[2];
    if (given != 3) return PyErr_Format(PyExc_TypeError, "a row, a length and tokens were expected");
    if (!read(self, args, 2, 2, true, asked)) return nullptr;
    View wanted;
    if (!wanted.open(args[2], names.sparse, "brought")) return nullptr;
    NoCollection quiet;
    return guarded([&] {
        return wanted.numbers([&](auto* tokens) { return swap_in(rows_of(self), asked[0], asked[1], tokens, wanted.count()); });
    });
}

PyObject* device_slots(SparseRows& rows, const int64_t* of) {
    return listed(rows.slots(*of), rows.row(*of).slots, names.int32);
}

// -- what there is -------------------------------------------------------------------------------

PyObject* has_room(SparseRows& rows, const int64_t* of) { return PyBool_FromLong(rows.has_room(*of)); }

PyObject* available(SparseRows& rows, const int64_t*) {
    return PyLong_FromLongLong(rows.host().free_count() * rows.shape.page_size);
}

PyObject* device_available(SparseRows& rows, const int64_t*) { return PyLong_FromLongLong(rows.device().free_count()); }

PyObject* free_pages(SparseRows& rows, const int64_t*) { return free_of(rows.host()); }
PyObject* free_slots(SparseRows& rows, const int64_t*) { return free_of(rows.device()); }

PyObject* does(SparseRows& rows, const int64_t* of) {
    static const char* const words[] = {"nothing", "staged", "receives", "decodes"};
    return PyUnicode_InternFromString(words[static_cast<int>(rows.row(*of).does)]);
}

PyObject* buffer(SparseRows& rows, const int64_t* of) {
    Buffers& buffers = rows.buffers();
    View tokens, order;
    Ref first = answer(buffers.room, names.int64, tokens), second = answer(buffers.room, names.int64, order);
    for (int64_t place = 0; place < buffers.room; ++place) {
        slots_in(tokens)[place] = buffers.token(*of, place);
        slots_in(order)[place] = buffers.order(*of, place);
    }
    return together(first, second).release();
}

PyObject* counts(SparseRows& rows, const int64_t* of) {
    const SparseRow& one = rows.row(*of);
    return Py_BuildValue("LLL", static_cast<long long>(one.backed), static_cast<long long>(one.reserved),
                         static_cast<long long>(rows.free_for(*of)));
}

template <int64_t SparseShape::*field>
PyObject* of_shape(PyObject* self, void*) {
    return PyLong_FromLongLong(rows_of(self).shape.*field);
}

template <Py_ssize_t count, PyObject* (*work)(SparseRows&, const int64_t*), bool of_row = true>
PyMethodDef method(const char* name, const char* about) {
    return {name, fast(call<count, of_row, work>), METH_FASTCALL, about};
}

PyMethodDef methods[] = {
    method<3, request>("request", "request(row, start, tokens): their slots, or None for too few pages."),
    method<1, read_row>("read", "All slots of a row."),
    method<1, free_row>("free", "A row has nothing any more: its request has ended, was aborted or retracted."),
    method<0, reset, false>("reset", "No row has anything any more; what is written to is free when that ends."),
    method<2, reserve>("reserve", "reserve(row, tokens): whether a request of so many is admitted."),
    method<2, back_up>("back_up", "back_up(row, length): the slot of the token before the newest, if any."),
    method<2, stage>("stage", "stage(row, tokens): slots of a prompt, and the number of its copy, or -1."),
    method<1, copied, false>("copied", "A copy has ended."),
    method<0, copying, false>("copying", "The copies that have not ended."),
    method<0, ready, false>("ready", "The rows that are acknowledged, and decode."),
    method<3, prealloc>("prealloc", "prealloc(row, tokens, page_size): the same for a peer's transfer."),
    method<2, transferred, false>("transferred", "transferred(transfer, arrived): a transfer has ended."),
    method<0, transferring, false>("transferring", "The transfers that have not ended."),
    method<1, pages>("pages", "The pages of a row, which a peer writes to."),
    method<2, admit>("admit", "admit(row, length): a request begins to decode, where the device has room; whether it has."),
    method<2, grow>("grow", "grow(row, length): the newest token's device slot, or None for too few."),
    {"swap", fast(swap), METH_FASTCALL, "swap(row, length, tokens): places; host slots to copy, and to which places."},
    method<1, device_slots>("device_slots", "The device slots of a row's buffer."),
    method<1, has_room, false>("has_room", "Whether the device has room for the buffer of so many tokens."),
    method<0, available, false>("available", "How many slots of the host are free."),
    method<0, device_available, false>("device_available", "How many slots of the device are free."),
    method<0, free_pages, false>("free_pages", "The free pages of the host; the last one is handed out first."),
    method<0, free_slots, false>("free_slots", "The free slots of the device; the last one is handed out first."),
    method<1, does>("does", "What a row does: nothing, or it is staged, receives, or decodes."),
    method<1, buffer>("buffer", "The token in each place of a row's buffer, or -1, and the places as they are used anew."),
    method<1, counts>("counts", "Tokens of a row on the host, pages promised to it, free pages that it may have."),
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"page_size", of_shape<&SparseShape::page_size>, nullptr, "Slots per page.", nullptr},
    {"rows", of_shape<&SparseShape::rows>, nullptr, "How many rows there are.", nullptr},
    {"width", of_shape<&SparseShape::width>, nullptr, "How many slots a row has room for.", nullptr},
    {"room", of_shape<&SparseShape::room>, nullptr, "How many tokens a buffer has room for.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots_of_type[] = {
    {Py_tp_new, reinterpret_cast<void*>(make)},
    {Py_tp_dealloc, reinterpret_cast<void*>(drop)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_doc, const_cast<char*>("Sparse rows over host pages, and the buffers that they decode from.")},
    {0, nullptr},
};

PyType_Spec spec = {"kvlitmus.optimized._core.SparseRows", sizeof(SparseObject), 0, Py_TPFLAGS_DEFAULT, slots_of_type};

}  // namespace

bool add_sparse(PyObject* module) {
    Ref type(PyType_FromSpec(&spec));
    return type && PyModule_AddObjectRef(module, "SparseRows", type.get()) == 0;
}

}  // namespace kvlitmus
