// What pages in host memory hold: page tables, and copies between pools (kvlitmus.optimized.data.copies).
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "python.h"

namespace kvlitmus {
namespace {

// Copies a chunk past the processor's caches, where it knows how to: nobody reads it soon, and the scheduler needs next
// what it would drive out.  Other threads see such chunks after `streamed`.
void copy_chunk(char* to, const char* from, size_t bytes) {
#ifdef __SSE2__
    constexpr size_t LINE = 64, AHEAD = 8 * LINE;
    if (bytes % LINE == 0 && reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0) {
        for (const char* end = from + bytes; from != end; from += LINE, to += LINE) {
            _mm_prefetch(from + AHEAD, _MM_HINT_NTA);
            auto* words = reinterpret_cast<const __m128i*>(from);
            for (int at = 0; at < 4; ++at) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + at, _mm_loadu_si128(words + at));
        }
        return;
    }
#endif
    std::memcpy(to, from, bytes);
}

void streamed() {
#ifdef __SSE2__
    _mm_sfence();
#endif
}

struct Loop {
    int64_t extent, source, target;  // how often, and how many bytes further on either side each time
};

constexpr Py_ssize_t MOST_LOOPS = 5;  // components, layers, tokens, heads, and one to spare

void copy_chunks(const Loop* loop, const Loop* last, char* to, const char* from, size_t chunk) {
    if (loop == last) {
        copy_chunk(to, from, chunk);
        return;
    }
    for (int64_t at = 0; at < loop->extent; ++at, to += loop->target, from += loop->source)
        copy_chunks(loop + 1, last, to, from, chunk);
}

bool open_loops(PyObject* given, Loop* loops, Py_ssize_t& count) {
    if (!PyTuple_Check(given) || (count = PyTuple_GET_SIZE(given)) > MOST_LOOPS) {
        PyErr_Format(PyExc_TypeError, "at most %zd loops were expected (got %R)", MOST_LOOPS, given);
        return false;
    }
    for (Py_ssize_t at = 0; at < count; ++at) {
        long long extent, source, target;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(given, at), "LLL", &extent, &source, &target)) return false;
        loops[at] = {extent, source, target};
    }
    return true;
}

}  // namespace

// within(pages, limit): whether these are an array of 32 bits, and pages of a pool of so many.
PyObject* within(PyObject*, PyObject* const* args, Py_ssize_t count) {
    View pages;
    if (count != 2) return PyErr_Format(PyExc_TypeError, "within takes 2 arguments (got %zd)", count);
    int64_t limit = PyLong_AsLongLong(args[1]);
    if (limit == -1 && PyErr_Occurred()) return nullptr;
    if (!pages.open(args[0]) || pages.width() != sizeof(int32_t)) Py_RETURN_FALSE;
    auto* numbers = reinterpret_cast<const uint32_t*>(pages.bytes());
    uint32_t most = 0;  // a page below 0 is a large one
    for (int64_t at = 0; at < pages.count(); ++at) most = numbers[at] > most ? numbers[at] : most;
    return PyBool_FromLong(!pages.count() || int64_t{most} < limit);
}

// copy_pages(source, target, source_pages, target_pages, page, chunk, loops): of each page, for each turn of the loops,
// so many bytes.  `source` and `target` are where page 0 begins, `page` is from page to page on both sides; nobody
// looks whether these pages are there.  Other threads run meanwhile.
PyObject* copy_pages(PyObject*, PyObject* given) {
    long long source, target, from_page, to_page, chunk;
    PyObject *source_pages, *target_pages, *shape;
    Loop loops[MOST_LOOPS];
    Py_ssize_t depth = 0;
    View sources, targets;
    if (!PyArg_ParseTuple(given, "LLOO(LL)LO", &source, &target, &source_pages, &target_pages, &from_page, &to_page,
                          &chunk, &shape) ||
        !open_loops(shape, loops, depth))
        return nullptr;
    if (!sources.open(source_pages) || !targets.open(target_pages) || sources.count() != targets.count()) {
        PyErr_SetString(PyExc_TypeError, "page tables are two arrays of as many integers");
        return nullptr;
    }
    Py_BEGIN_ALLOW_THREADS;
    sources.numbers([&](auto* from) {
        return targets.numbers([&](auto* to) {
            for (int64_t at = 0; at < sources.count(); ++at)
                copy_chunks(loops, loops + depth, reinterpret_cast<char*>(target + to[at] * to_page),
                            reinterpret_cast<const char*>(source + from[at] * from_page), static_cast<size_t>(chunk));
            return 0;
        });
    });
    streamed();
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

}  // namespace kvlitmus
