// What a tree does that has a host below the device (kvlitmus.optimized.residency says it all): pages that leave either
// tier or come to it, who keeps host copies, and what is known of them.  tree.h includes this.
#pragma once

#include "tree.h"

namespace kvlitmus {

// -- from the device ----------------------------------------------------------------------------------------------

inline int64_t Tree::evict_device(int64_t wanted) {
    int64_t freed = 0;
    Array<int32_t> passed;  // for the rest of the call
    if (write_back) {
        passed_.reserve(branches.made());
        while (passed_.size() < branches.made()) passed_.push(evictions_);
        if (!++evictions_) {  // what an eviction long ago has passed over must not look like it
            std::fill(passed_.begin(), passed_.end(), 0);
            evictions_ = 1;
        }
    }
    auto offer_passed = [&] {
        for (int32_t number : passed) victims.offer(number);
    };
    try {
        while (freed < wanted) {
            int32_t number = victims.best();
            if (number < 0) break;
            if (write_back) passed.reserve(passed.size() + 1);
            int64_t gone = write_back && passed_[number] == evictions_ ? 0 : leave_device(number, wanted - freed);
            if (!gone) {
                if (write_back && passed_[number] != evictions_) passed.push(number);
                if (write_back) passed_[number] = evictions_;
                victims.drop(number);
            }
            freed += gone;
            evicted += gone;
        }
    } catch (...) {
        offer_passed();
        throw;
    }
    offer_passed();
    return freed;
}

// Take pages of the last resident node of a branch off the device, at most so many; returns how many.
inline int64_t Tree::leave_device(int32_t number, int64_t most) {
    Branch& branch = branches[number];
    int32_t hi = branch.dev, lo = branch.nodes.start_of(hi - 1);
    if (lo < hi - most) lo = static_cast<int32_t>(hi - most);
    if (lo < branch.protected_pages()) lo = branch.protected_pages();
    if (lo >= hi) return 0;
    if (lo || write_back) branch.nodes.room();  // for a cut
    if (write_back && on_host(branch).copies[hi - 1] < 0) {
        int64_t written = spill ? spill(context, {number, lo, hi}) : 0;
        bool as_it_was = branch.n >= hi && branch.dev == hi && branch.protected_pages() <= lo;
        if (!written || !as_it_was || (written < 0 && (branch.n > hi || branch.kids_end))) return 0;
        if (written > 0 && written < hi - lo) {
            lo = static_cast<int32_t>(hi - written);
            branch.nodes.cut(lo);  // at once: the pages of a node are all backed, or none is
        }
    }
    bool backed = on_host(branch).copies[hi - 1] >= 0;
    if (!backed && (branch.n > hi || branch.kids_end)) return 0;  // it would take what is behind it along
    if (told) told(context, false, Tier::device, {number, lo, hi});
    pool.take_back(pages_of(branch, page_bytes) + lo, hi - lo, CACHED);
    evictable -= hi - lo;
    if (!backed && !lo) {
        remove(number);
        return hi;
    }
    if (!backed) {
        truncate(branch, lo);
    } else {
        branch.dev = lo;
        if (lo) branch.nodes.cut(lo);
        host_victims.offer(number);
    }
    if (lo) {
        victims.offer(number);
    } else {
        count_live({branch.parent, branch.at}, -1);
        if (branch.parent >= 0) victims.offer(branch.parent);
    }
    return hi - lo;
}

// The resident pages of a branch from `lo` on leave the device, which have host copies and no locks; whether all did.
inline bool Tree::leave_from(int32_t number, int32_t lo) {
    while (branches[number].dev > lo)
        if (!leave_device(number, branches[number].dev - lo)) return false;
    return true;
}

// -- from the host ------------------------------------------------------------------------------------------------

// Free so many host pages of what is on the host alone, or as many as can be; returns how many.
inline int64_t Tree::evict_host(int64_t wanted) {
    int64_t freed = 0;
    while (freed < wanted) {
        int32_t number = host_victims.best();
        if (number < 0) break;
        freed += leave_host(number, wanted - freed);
    }
    evicted_host += freed;
    return freed;
}

// Delete pages of the last node of a branch, down to the first that is pinned, at most so many; returns how many.
inline int64_t Tree::leave_host(int32_t number, int64_t most) {
    Branch& branch = branches[number];
    int32_t hi = branch.n, lo = branch.nodes.last_start();
    if (lo < hi - most) lo = static_cast<int32_t>(hi - most);
    if (lo < branch.dev) lo = branch.dev;
    OnHost on = on_host(branch);
    for (int32_t at = hi - 1; at >= lo; --at)
        if (on.pins[at]) lo = at + 1;
    if (told) told(context, false, Tier::host, {number, lo, hi});
    host->take_back(on.copies + lo, hi - lo, USED);
    if (lo) {
        truncate(branch, lo);
        host_victims.offer(number);
    } else {
        remove(number);
    }
    return hi - lo;
}

// -- from storage -------------------------------------------------------------------------------------------------

// Cache what was read from storage behind a spot, on the host: all that isn't known, or none where the page before has
// no host copy and backed pages must form a prefix.  What was known is used now.
template <typename Pages>
Tree::Restored Tree::insert_host(Spot from, const char* units, Pages pages, int64_t count) {
    Spot spot = walked(from, units, count, [](Branch& branch, int32_t) {
        branch.touched.room(3);
        branch.nodes.room();
    });
    int64_t known = depth(spot) - depth(from), fresh = count - known;
    if (!write_back && !has_copy(spot)) fresh = 0;
    bool grows = spot.branch >= 0 && spot.end == branches[spot.branch].n;
    char* data = nullptr;
    if (fresh && grows) room_to_grow(branches[spot.branch], fresh);
    if (fresh && !grows) data = room_for_branch(fresh);
    ++clock;
    touch_below(spot, from);
    offer_used(spot);
    if (!fresh) return {spot, known, 0};
    int64_t priority = spot.branch >= 0 ? branches[spot.branch].priority.at(spot.end - 1) : 0;
    const char* news = units + known * page_bytes;
    if (!grows) spot = hang(spot, data, static_cast<int32_t>(fresh), news, false);
    Branch& branch = branches[spot.branch];
    append(branch, news, pages + known, static_cast<int32_t>(fresh), priority, false, Tier::host);
    host_victims.offer(spot.branch);
    spot.end = branch.n;
    if (told) told(context, true, Tier::host, {spot.branch, static_cast<int32_t>(branch.n - fresh), branch.n});
    return {spot, known, fresh};
}

// The path from the spot `top` to this one is used now, and a node ends here.
inline void Tree::touch_below(Spot spot, Spot top) {
    if (spot.branch >= 0 && spot.end && spot.end < branches[spot.branch].n) branches[spot.branch].nodes.cut(spot.end);
    while (spot.branch != top.branch) {
        Branch& branch = branches[spot.branch];
        branch.touched.set_prefix(spot.end, clock, branch.n);
        spot = {branch.parent, branch.at};
    }
    if (top.branch >= 0 && top.end < spot.end)
        branches[top.branch].touched.set_range(top.end, spot.end, clock, branches[top.branch].n);
}

// -- host copies --------------------------------------------------------------------------------------------------

// How many pages of a path have host copies, from its first one on.  `closed`: where one has a copy, all before it have.
inline int64_t Tree::backed(Spot spot, bool closed) const {
    int64_t found = depth(spot);
    for (; spot.branch >= 0; spot = {branches[spot.branch].parent, branches[spot.branch].at}) {
        const Branch& branch = branches[spot.branch];
        const int32_t* copies = on_host(branch).copies;
        if (closed && copies[spot.end - 1] >= 0) break;
        const int32_t* bare = std::find_if(copies, copies + spot.end, [](int32_t page) { return page < 0; });
        if (bare == copies + spot.end) continue;
        found = branch.base + (bare - copies);
        if (closed && bare != copies) break;
    }
    return found;
}

// How many of the resident pages of a path are protected.
inline int64_t Tree::locked_pages(Spot spot) const {
    int64_t sum = 0;
    along(spot, 0, [&](const Branch& branch, Span run) { sum += std::min(run.hi, branch.protected_pages()); });
    return sum;
}

// The pages lo .. depth-1 of a path, node by node, up to the first node without so many hits; throws std::bad_alloc.
inline void Tree::due(Spot spot, int64_t lo, int64_t uses, Array<Span>& nodes) const {
    Array<Span> runs;
    path(spot, lo, runs);
    for (const Span& run : runs) {
        const Branch& branch = branches[run.branch];
        for (int32_t start = run.lo; start < run.hi;) {
            int32_t stop = std::min(run.hi, branch.nodes.start_behind(start, branch.n));
            if (branch.nodes.hits_at(start) < uses) return;
            nodes.reserve(nodes.size() + 1);
            nodes.push({run.branch, start, stop});
            start = stop;
        }
    }
}

// Keep the host copies of some runs once more, or once less; false, and nothing changed, where one was not kept.
inline bool Tree::pin(const Span* runs, size_t count, int32_t by) {
    for (size_t k = 0; by < 0 && k < count; ++k) {
        OnHost on = on_host(branches[runs[k].branch]);
        for (int32_t at = runs[k].lo; at < runs[k].hi; ++at)
            if (on.copies[at] >= 0 && on.pins[at] < 1) return false;
    }
    for (size_t k = 0; k < count; ++k) {
        OnHost on = on_host(branches[runs[k].branch]);
        for (int32_t at = runs[k].lo; at < runs[k].hi; ++at)
            if (on.copies[at] >= 0) on.pins[at] += by;
        if (by < 0) host_victims.offer(runs[k].branch);
    }
    return true;
}

// Add flags to the host copies of some runs, or take some away.
inline void Tree::flag(const Span* runs, size_t count, uint8_t add, uint8_t drop) {
    for (size_t k = 0; k < count; ++k) {
        uint8_t* flags = on_host(branches[runs[k].branch]).flags;
        for (int32_t at = runs[k].lo; at < runs[k].hi; ++at) flags[at] = static_cast<uint8_t>((flags[at] | add) & ~drop);
    }
}

// The pages of a run have host copies in these host pages.
template <typename Pages>
void Tree::give_host(Span run, Pages pages, uint8_t flags) {
    OnHost on = on_host(branches[run.branch]);
    for (int32_t at = run.lo; at < run.hi; ++at) on.copies[at] = static_cast<int32_t>(pages[at - run.lo]);
    on.set(run.lo, run.hi, flags);
}

// The resident pages of a run have no host copies any more.
inline void Tree::take_host(Span run) {
    OnHost on = on_host(branches[run.branch]);
    std::fill(on.copies + run.lo, on.copies + run.hi, NO_COPY);
    on.set(run.lo, run.hi, 0);
}

// Runs of one path on the host alone, from the end of its resident part on, are resident in these pages, too.  It is no
// use: neither recency nor hits change.  FINE, or the index of the page that can't be cached, and nothing has changed.
template <typename Pages>
int64_t Tree::make_resident(const Span* runs, size_t count, Pages pages, int64_t total) {
    int64_t wrong = pool.hand_over(pages, total, USED, CACHED);
    if (wrong != FINE) return wrong;
    int64_t at = 0;
    for (size_t k = 0; k < count; ++k) {
        const Span& run = runs[k];
        come_back(run, pages, int64_t{branches[run.branch].base} + run.lo - at);
        at += run.hi - run.lo;
    }
    for (size_t k = 0; told && k < count; ++k) told(context, true, Tier::device, runs[k]);
    return FINE;
}

// -- what depends on copies that have failed ----------------------------------------------------------------------

// Whether somebody else has a lock on the pages of a load, or something resident follows them, on any branch.
inline bool Tree::relied_on(const Span* runs, size_t count) const {
    for (size_t k = 0; k < count; ++k) {
        const Branch& branch = branches[runs[k].branch];
        int32_t locks = 0, lo = runs[k].lo;
        for (uint32_t at = 0; at < branch.locks.size(); ++at) locks += static_cast<int32_t>(branch.locks[at] >> 1) > lo;
        int32_t live = branch.nodes.hung_behind(lo).live + (lo < branch.n ? *on_host(branch).live_end : 0);
        for (size_t j = 0; j < count; ++j) {
            const Branch& own = branches[runs[j].branch];
            live -= own.parent == runs[k].branch && own.at > lo && own.dev;
        }
        if (branch.dev > runs[k].hi || locks > 1 || live) return true;
    }
    return false;
}

// Whether somebody needs the host copies of a run, or there are some below them.
inline bool Tree::depended_on(Span run) const {
    const Branch& branch = branches[run.branch];
    OnHost on = on_host(branch);
    if (std::any_of(on.pins + run.lo, on.pins + run.hi, [](int32_t pins) { return pins; })) return true;
    auto backed = [](int32_t page) { return page >= 0; };
    if (std::any_of(on.copies + run.hi, on.copies + branch.n, backed)) return true;
    if (!branch.nodes.hung_behind(run.lo).kids && !(run.lo < branch.n && branch.kids_end)) return false;
    for (size_t number = 0; number < branches.made(); ++number) {
        const Branch& other = branches[number];
        Spot above = {other.parent, other.at};
        while (other.n && above.branch >= 0 && above.branch != run.branch)
            above = {branches[above.branch].parent, branches[above.branch].at};
        if (!other.n || above.branch != run.branch || above.end <= run.lo) continue;
        if (std::any_of(on_host(other).copies, on_host(other).copies + other.n, backed)) return true;
    }
    return false;
}

}  // namespace kvlitmus
