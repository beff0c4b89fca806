// What a cache of components is made of (kvlitmus.optimized.components): kinds of state, entries, and branches with tracks.
//
// A branch is a run of pages that grows and shrinks at its tip and is never split, as in branch.h.  Each of its pages has
// a cell: which entry each track has for the prefix that ends there, how many branches hang there, and how many entries
// of KV come right behind on each tier.  A track is a component on a tier: those of the device come first, by the
// components' numbers, and those of the host behind them, where there is one.  On a tier a cell without KV, but with
// others, is a prefix whose KV was taken from them; one with KV alone is a tombstone of the others.
#pragma once

#include "heap.h"
#include "pages.h"
#include "pool.h"

namespace kvlitmus {

constexpr int MOST_COMPONENTS = 8;
constexpr int DEVICE = 0, HOST = 1, TIERS = 2;
constexpr int MOST_TRACKS = TIERS * MOST_COMPONENTS;
constexpr int32_t NO_ENTRY = -1;
constexpr int BASE = 0;  // the component that all others go with: the KV of the whole prefix

enum class Shape { run, window, chunk, point, derived };

// What goes with an entry: nothing; with KV all else there; that, and with an entry at the end of a path all there; or that,
// and with any entry those of the components after its own.
enum class Cascade { none, base, leaf, later };

// `size`: the reach of a window, or of a chunk; `unit`: how many units an entry stands for; boundaries are multiples of `align`.
struct Component {
    Shape shape;
    int64_t size, pool, unit, align;

    bool is_run() const { return shape == Shape::run || shape == Shape::derived; }
};

// Where entries end: at `first`, and every `unit` up to `last`; nowhere where that is less.
struct Ends {
    int64_t first, last, unit;

    int64_t count() const { return last < first ? 0 : (last - first) / unit + 1; }
};

struct Layout {
    int64_t page_size;
    Policy policy;
    Cascade cascade;
    bool full_root;  // a window has to be there in full, also near the root
    bool bigram, told;
    int components = 0, pools = 0, tiers = 1;
    Component of[MOST_COMPONENTS];
    int64_t places[TIERS][MOST_COMPONENTS];
    int64_t step = 1;  // how far apart boundaries are

    int tracks() const { return tiers * components; }
    int track(int tier, int component) const { return tier * components + component; }
    int tier_of(int track) const { return track >= components; }
    int component_of(int track) const { return track - tier_of(track) * components; }
    int other(int track) const { return this->track(!tier_of(track), component_of(track)); }

    // Whether a boundary can't be valid for a component at all.
    bool never(int component, int64_t boundary) const {
        return full_root && of[component].shape == Shape::window && boundary && boundary < of[component].size;
    }

    // Where the entries end that a boundary needs.
    Ends needed(int component, int64_t boundary) const {
        return never(component, boundary) ? Ends{1, 0, 1} : shortest(component, boundary);
    }

    // The same where a window near the root may be shorter.
    Ends shortest(int component, int64_t boundary) const {
        const Component& one = of[component];
        if (one.shape == Shape::point) return {boundary, boundary ? boundary : -1, 1};
        int64_t start = 0;
        if (one.shape == Shape::window && boundary > one.size) start = boundary - one.size;
        if (one.shape == Shape::chunk) start = boundary - boundary % one.size;
        return {start - start % one.unit + one.unit, boundary - boundary % one.unit, one.unit};
    }
};

// What is cached of a component for a prefix, in a place of a tier.
struct Entry {
    int64_t touched, created;
    int64_t hits;
    int32_t place;
    int32_t branch, at;  // the page of which branch it ends with
    int32_t pins;        // receipts, prefetches and copies that need it
    int32_t track;
};

struct EntryUse {
    const Entry& entry;

    int64_t touched() const { return entry.touched; }
    int64_t created() const { return entry.created; }
    int64_t hits() const { return entry.hits; }
    int64_t priority() const { return 0; }
};

// `data`: the units of its pages, room for `room` of them, then their cells.
struct TrackedBranch {
    char* data = nullptr;
    int32_t n = 0, room = 0;
    int32_t parent = 0, at = 0;  // the branch or root it hangs off, and where
    int32_t base = 0;            // its depth
    uint32_t tag = 0;
};

// The cell of a page: HUNG branches, BEHIND entries of KV on the device, from ENTRIES on the number of each track's entry,
// and, where there is a host, how many of KV are behind there.
constexpr int HUNG = 0, BEHIND = 1, ENTRIES = 2;

// A namespace in which something is cached.
struct TrackedRoot {
    int32_t hung;
    bool listed;  // among those that may be empty
    void* name;   // of whoever calls
};

// Something of an entry to be told; the branch stays until it is.
struct Told {
    int32_t branch, end;
    int32_t track;
    bool stored;
};
constexpr int32_t EVERYTHING = -1;  // as a track: all was forgotten

// An entry that is brought for a key.
struct Brought {
    int32_t component;
    int64_t end, place;
    bool missing;
};

// What a receipt protects: what the prefix needs that ends there.
struct Receipt {
    int64_t number;
    Spot spot;
    int64_t boundary;
};

// A prefetch: it has `count` places of each component, and is for `length` units behind its anchor, which `data` begins
// with; the places follow them.
struct Fetch {
    int64_t number, start, length, threshold;
    int64_t boundary;              // up to which it reads
    Spot anchor;
    char* data;
    int32_t* places[MOST_COMPONENTS];
    int64_t count[MOST_COMPONENTS];
    bool taken[MOST_COMPONENTS];   // whether it had places of a component
    bool answered, running, over;  // storage has told what it has; I/O goes on; it was committed, or given up
};

// A copy to a tier: it needs `pinned` entries of either, and brings `count` of these, from `sources`, into `places`.
struct ComponentCopy {
    int64_t number;
    int tier;
    int32_t pinned, count;
    int32_t *places, *sources, *pins;  // one block, which begins with the places
};

}  // namespace kvlitmus
