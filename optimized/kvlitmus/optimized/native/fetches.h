// Prefetches of a cache of components (kvlitmus.spec.prefix.components.fetch says what they owe).
//
// A prefetch has places of each component, and I/O reads into the first ones of them.  While its I/O runs, what that may
// still write is nobody else's; what a prefetch has otherwise is free when it is over.
#pragma once

#include "components.h"

namespace kvlitmus {

// How many entries hold a window.
inline int64_t entries_of_window(const Component& one) { return one.size / one.unit + (one.size % one.unit > 0); }

// Where the entries end that a prefetch from `start` on reads for a boundary: of a window all or none.
inline Ends Components::read_for(int component, int64_t start, int64_t boundary) const {
    const Component& one = layout.of[component];
    bool short_of = one.shape == Shape::window && boundary - start < entries_of_window(one) * one.unit;
    if (boundary <= start || short_of) return {1, 0, 1};
    Ends ends = layout.shortest(component, boundary);
    if (one.shape != Shape::point && ends.first < start + one.unit) ends.first = start + one.unit;
    return ends;
}

inline int64_t Components::asked(int component, int64_t length) const {
    const Component& one = layout.of[component];
    int64_t entries = length / one.unit;
    if (one.shape == Shape::window) return entries >= entries_of_window(one) ? entries_of_window(one) : 0;
    if (one.shape == Shape::point) return length ? 1 : 0;
    if (one.shape == Shape::chunk) return std::min(entries, (one.size - 1) / one.unit);
    return entries;
}

// Whether all of the KV is there up to a boundary, on the path at hand.
inline bool Components::has_base(int64_t boundary) const {
    for (int64_t end = layout.page_size; end <= boundary; end += layout.page_size)
        if (at(BASE, end) == NO_ENTRY) return false;
    return true;
}

// How many entries are to be evicted for a prefetch of so many units: what it needs of pools that have too little.
inline void Components::short_of(int64_t length, int64_t* evicted) const {
    int64_t wants[MOST_COMPONENTS];
    for (int k = 0; k < layout.components; ++k) wants[k] = asked(k, length);
    short_pools(DEVICE, wants, evicted);
}

// Memory for a prefetch of so many units; throws std::bad_alloc.
inline void Components::room_to_fetch(int64_t length) {
    int64_t places = 0;
    for (int k = 0; k < layout.components; ++k) places += asked(k, length);
    fetches_.reserve(fetches_.size() + 1);
    marks_.reserve(length / layout.page_size * layout.components);
    std::free(spare_);
    spare_ = nullptr;
    spare_ = static_cast<char*>(allocate(length * sizeof(int64_t) + places * sizeof(int32_t)));
}

// How many units a prefetch has room for, the KV cut short where its pool has too little; 0: it is refused.
inline int64_t Components::granted(int64_t length, int64_t least) const {
    int64_t wants[MOST_COMPONENTS], pool = layout.of[BASE].pool;
    for (; length > 0; length -= layout.step) {
        int64_t total = 0;
        for (int k = 0; k < layout.components; ++k) {
            wants[k] = asked(k, length);
            if (layout.of[k].pool == pool) total += wants[k];
        }
        if (total <= pools_[DEVICE][pool]->free_count()) break;
    }
    return length > 0 && length >= least && fits(wants) ? length : 0;
}

// Evict what a prefetch needs of pools that are short, and reserve its places; whether there was room.  The path at hand
// is that of its anchor, and there is memory.
inline bool Components::fetch(Spot anchor, int64_t start, const char* units, int64_t length, int64_t threshold,
                              const int64_t* evicted, int64_t* freed) {
    pin_base(start, 1);
    evict(DEVICE, evicted, freed);
    int64_t granted_length = granted(length, least(threshold));
    if (!granted_length) {
        trace(anchor);
        pin_base(start, -1);
        return false;
    }
    Fetch one{};
    one.number = fetch_++;
    one.anchor = anchor;
    if (!start) ++root(anchor.branch).hung;  // something will
    one.start = one.boundary = start;
    one.length = granted_length;
    one.threshold = threshold;
    one.data = spare_;
    spare_ = nullptr;
    std::memcpy(one.data, units, granted_length * sizeof(int64_t));
    auto* next = reinterpret_cast<int32_t*>(one.data + granted_length * sizeof(int64_t));
    for (int k = 0; k < layout.components; ++k) {
        one.count[k] = asked(k, granted_length);
        one.taken[k] = one.count[k] > 0;
        one.places[k] = next;
        pool_of(k).take(one.count[k], next);
        pool_of(k).hand_over(next, one.count[k], USED, RESERVED);
        next += one.count[k];
    }
    fetches_.push(one);
    return true;
}

// Of each component so many ends are marked, as far as the prefetch is for them.
template <typename At>
void Components::mark(const Fetch& one, const int64_t* counts, At at) {
    int64_t pages = one.length / layout.page_size;
    marks_.resize(pages * layout.components);
    if (pages) std::memset(marks_.begin(), 0, pages * layout.components);
    for (int k = 0; k < layout.components; ++k)
        for (int64_t index = 0; index < counts[k]; ++index) {
            int64_t end = at(k, index);
            if (end > one.start && end <= one.start + one.length && end % layout.page_size == 0)
                marks_[k * pages + (end - one.start) / layout.page_size - 1] = 1;
        }
}

inline bool Components::marked(const Fetch& one, int component, int64_t end) const {
    return marks_[component * (one.length / layout.page_size) + (end - one.start) / layout.page_size - 1];
}

inline bool Components::all_marked(const Fetch& one, int component, Ends ends) const {
    for (int64_t end = ends.last; end >= ends.first; end -= ends.unit)
        if (!marked(one, component, end)) return false;
    return true;
}

// The largest boundary that all components can restore from what is marked; the start where that isn't worth it.
inline int64_t Components::restored(const Fetch& one) const {
    int64_t most = one.start + one.length;
    for (int k = 0; k < layout.components; ++k) {
        if (!layout.of[k].is_run() || !one.taken[k]) continue;
        int64_t unit = layout.of[k].unit, end = one.start;
        while (end + unit <= most && marked(one, k, end + unit)) end += unit;
        most = end;
    }
    for (int64_t boundary = most - most % layout.step; boundary > one.start; boundary -= layout.step) {
        bool all = true;
        for (int k = 0; all && k < layout.components; ++k) {
            Ends ends = read_for(k, one.start, boundary);
            bool whole = layout.of[k].shape != Shape::window || ends.count();
            all = !one.taken[k] || layout.of[k].is_run() || (whole && all_marked(one, k, ends));
        }
        if (all) return boundary - one.start >= least(one.threshold) ? boundary : one.start;
    }
    return one.start;
}

// Storage has said what it has: up to which boundary is read.
inline void Components::read_up_to(Fetch& one, int64_t boundary) {
    one.boundary = boundary;
    one.answered = true;
    for (int k = 0; k < layout.components; ++k)
        if (one.taken[k] && read_for(k, one.start, boundary).count()) one.running = true;
}

// Where the KV ends that can be cached of what is marked, which came.
inline int64_t Components::committed(const Fetch& one) const {
    int64_t unit = layout.page_size, end = one.start;
    for (bool all = true; all && end < one.boundary; end += all ? unit : 0)
        for (int k = 0; all && k < layout.components; ++k)
            all = !layout.of[k].is_run() || !one.taken[k] || marked(one, k, end + unit);
    return end;
}

// Take note of what a commit has for the cache, and have the path at hand that it is for; throws std::bad_alloc.
inline Spot Components::bring_fetched(Fetch& one, int64_t end, int64_t* left) {
    int64_t all = 0;
    for (int k = 0; k < layout.components; ++k) all += one.count[k];
    room_for_brought(all);
    int64_t last = one.start;
    for (int k = 0; k < layout.components; ++k) {
        Ends ends = reads(one, k, one.boundary);
        if (layout.of[k].is_run())
            ends.last = std::min(ends.last, end);
        else if (end != one.boundary || !all_marked(one, k, ends))
            continue;
        for (int64_t at = ends.first; at <= ends.last; at += ends.unit) {
            bring(k, at, one.places[k][(at - ends.first) / ends.unit]);
            last = std::max(last, at);
        }
    }
    Spot spot = look(one.anchor, one.data, (last - one.start) / layout.page_size);
    room_to_fill(spot, last / layout.page_size, left);
    return spot;
}

// Cache that, of which there is what is missing.
inline void Components::fill_fetched(Fetch& one, Spot spot) {
    int64_t last = one.start;
    for (const Brought& each : brought_) last = std::max(last, each.end);
    spot = extend(spot, one.data, last / layout.page_size, one.start / layout.page_size);
    for (const Brought& each : brought_) {
        if (each.missing) {
            pool_of(each.component).hand_over(&each.place, 1, RESERVED, CACHED);
            store(spot, each, 1);
        } else {
            ++entries_[at(each.component, each.end)].hits;
        }
    }
}

// How many places of a component a prefetch keeps that is over, for its I/O may still write there: those that are read
// and not marked.
inline int64_t Components::written(const Fetch& one, int component) const {
    int64_t many = 0;
    Ends ends = reads(one, component, one.boundary);
    for (int64_t end = ends.first; one.running && end <= ends.last; end += ends.unit) many += !marked(one, component, end);
    return many;
}

// A prefetch is over: what it neither keeps nor has cached is free, and told.
inline void Components::end_fetch(Fetch& one, int32_t* const* returned) {
    trace(one.anchor);
    pin_base(one.start, -1);
    if (!one.start && !--root(one.anchor.branch).hung) list(one.anchor.branch);
    for (int k = 0; k < layout.components; ++k) {
        Ends ends = reads(one, k, one.boundary);
        int64_t kept = 0, back = 0;
        for (int64_t index = 0; index < one.count[k]; ++index) {
            int32_t place = one.places[k][index];
            int64_t end = ends.first + index * ends.unit;
            if (pool_of(k).state(place) == CACHED) continue;
            bool goes_on = one.running && end <= ends.last && !marked(one, k, end);
            (goes_on ? one.places[k][kept++] : returned[k][back++]) = place;
        }
        pool_of(k).take_back(returned[k], back, RESERVED);
        one.count[k] = kept;
    }
    one.over = true;
    if (!one.running) forget(one);
}

// The I/O of a prefetch has ended; what one that is over had is free.
inline void Components::settle(Fetch& one, int32_t* const* returned) {
    one.running = false;
    if (!one.over) return;
    for (int k = 0; k < layout.components; ++k) {
        std::copy_n(one.places[k], one.count[k], returned[k]);
        pool_of(k).take_back(one.places[k], one.count[k], RESERVED);
    }
    forget(one);
}

inline Fetch* Components::fetch_of(int64_t number) {
    for (Fetch& one : fetches_)
        if (one.number == number) return &one;
    return nullptr;
}

inline void Components::forget(Fetch& one) {
    std::free(one.data);
    fetches_.erase(&one - fetches_.begin());
}

}  // namespace kvlitmus
