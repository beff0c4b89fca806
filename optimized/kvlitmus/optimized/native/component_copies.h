// Copies of a cache of components between its tiers (kvlitmus.spec.prefix.components.host says what they owe).
//
// A copy is for one boundary.  It brings what that needs and its tier lacks.  Until it has ended, the entries that the
// boundary needs stay on both tiers, as far as they were there; they keep the pages of the path, too.  Its places are
// nobody else's, as those of a prefetch.
#pragma once

#include "components.h"

namespace kvlitmus {

// Where the entries of a component end that a boundary needs and a tier lacks, on the path at hand; how many there are.
inline int64_t Components::lacking(int tier, int component, int64_t boundary, int64_t* into) const {
    int64_t many = 0;
    Ends ends = layout.needed(component, boundary);
    for (int64_t end = ends.first; end <= ends.last; end += ends.unit) {
        if (at(layout.track(tier, component), end) != NO_ENTRY) continue;
        if (into) into[many] = end;
        ++many;
    }
    return many;
}

// Memory for a copy for a boundary that brings so many entries; throws std::bad_alloc.
inline void Components::room_to_copy(int64_t boundary, const int64_t* wants) {
    int64_t numbers = 0;
    for (int k = 0; k < layout.components; ++k) numbers += 2 * wants[k] + TIERS * layout.needed(k, boundary).count();
    copies_.reserve(copies_.size() + 1);
    std::free(spare_);
    spare_ = nullptr;
    spare_ = static_cast<char*>(allocate(numbers * sizeof(int32_t)));
}

// Protect what a boundary needs, evict, and take places for what its tier lacks; whether there was room.  The boundary is
// valid on the path at hand by both tiers together, and there is memory.
inline bool Components::begin_copy(int tier, int64_t boundary, const int64_t* wants, const int64_t* evicted,
                                   int64_t* freed) {
    ComponentCopy one{copy_, tier, 0, 0, reinterpret_cast<int32_t*>(spare_), nullptr, nullptr};
    for (int k = 0; k < layout.components; ++k) one.count += static_cast<int32_t>(wants[k]);
    one.sources = one.places + one.count;
    one.pins = one.sources + one.count;
    int32_t* source = one.sources;
    for (int k = 0; k < layout.components; ++k) {
        Ends ends = layout.needed(k, boundary);
        for (int64_t end = ends.first; end <= ends.last; end += ends.unit) {
            int32_t here = at(layout.track(tier, k), end), there = at(layout.track(!tier, k), end);
            if (here == NO_ENTRY) *source++ = there;
            for (int32_t number : {here, there})
                if (number != NO_ENTRY) one.pins[one.pinned++] = number;
        }
    }
    for (int32_t at = 0; at < one.pinned; ++at) pin_entry(one.pins[at], 1);
    evict(tier, evicted, freed);
    if (!fits(wants, tier)) {
        for (int32_t at = 0; at < one.pinned; ++at) pin_entry(one.pins[at], -1);
        return false;
    }
    int32_t* next = one.places;
    for (int k = 0; k < layout.components; next += wants[k++]) {
        Pool& pool = pool_of(layout.track(tier, k));
        pool.take(wants[k], next);
        pool.hand_over(next, wants[k], USED, RESERVED);
    }
    spare_ = nullptr;
    ++copy_;
    copies_.push(one);
    return true;
}

// Memory for the end of a copy; throws std::bad_alloc.  How many of its places of each component are left: those for what
// is there by now, or all of one that isn't fine.
inline void Components::room_to_land(const ComponentCopy& one, bool fine, int64_t* left) {
    int64_t more[MOST_TRACKS] = {}, all = 0;
    for (int32_t at = 0; at < one.count; ++at) {
        const Entry& source = entries_[one.sources[at]];
        if (fine && beside(source) == NO_ENTRY) {
            ++more[layout.other(source.track)];
            ++all;
        } else {
            ++left[layout.component_of(source.track)];
        }
    }
    room_for_entries(more, all);
}

// A copy has ended: if it is fine, what it brought is cached where it is missing, used now and as old as where it came
// from.  The rest is free, and told.
inline void Components::end_copy(ComponentCopy& one, bool fine, int32_t* const* returned) {
    int32_t* next[MOST_COMPONENTS];
    std::copy(returned, returned + layout.components, next);
    for (int32_t at = 0; at < one.pinned; ++at) pin_entry(one.pins[at], -1);
    for (int32_t at = 0; at < one.count; ++at) {
        Entry entry = entries_[one.sources[at]];
        bool lands = fine && beside(entry) == NO_ENTRY;
        entry.track = layout.other(entry.track);
        entry.place = one.places[at];
        entry.touched = clock;
        entry.pins = 0;
        if (lands) {
            pool_of(entry.track).hand_over(&entry.place, 1, RESERVED, CACHED);
            add(entry);
        } else {
            *next[layout.component_of(entry.track)]++ = entry.place;
            pool_of(entry.track).take_back(&entry.place, 1, RESERVED);
        }
    }
    std::free(one.places);
    copies_.erase(&one - copies_.begin());
}

inline ComponentCopy* Components::copy_of(int64_t number) {
    for (ComponentCopy& one : copies_)
        if (one.number == number) return &one;
    return nullptr;
}

}  // namespace kvlitmus
