// Victims: which branch gives the next page (kvlitmus.optimized.evict), and what a page at a tip is worth (policy).
//
// A heap of the branches whose tips could go from a tier, the least worth first.  A branch whose tip can't go may be in it at any
// worth; it is dropped when it comes up.  Where each branch is in the heap stands beside it, and not in the branches: an
// entry that moves must not touch the memory of its branch.
#pragma once

#include "branch.h"

namespace kvlitmus {

constexpr int32_t NOT_IN_HEAP = -1;

enum class Policy { lru, mru, lfu, fifo, filo, priority, slru };

constexpr int64_t SLRU_HITS = 2;

// Whose victims these are: the device's where there is no host, or where there is one, or the host's.
enum class Tier { only, device, host };

struct Worth {
    int64_t first, second;
};

inline Worth worth(Policy policy, const Branch& branch, int32_t position) {
    switch (policy) {
        case Policy::lru: return {branch.touched.at(position), 0};
        case Policy::mru: return {-branch.touched.at(position), 0};
        case Policy::lfu: return {branch.nodes.hits_at(position), branch.touched.at(position)};
        case Policy::fifo: return {branch.created.at(position), 0};
        case Policy::filo: return {-branch.created.at(position), 0};
        case Policy::priority: return {branch.priority.at(position), branch.touched.at(position)};
        case Policy::slru: return {branch.nodes.hits_at(position) >= SLRU_HITS, branch.touched.at(position)};
    }
    return {0, 0};
}

class Victims {
  public:
    struct Entry {
        int64_t first, second;
        int32_t branch;
    };

    Victims(Policy policy, Branches& branches, Tier tier, size_t page_bytes)
        : policy_(policy), tier_(tier), page_bytes_(page_bytes), branches_(branches) {}

    size_t size() const { return heap_.size(); }
    const Array<Entry>& entries() const { return heap_; }

    // Room for all branches and one more; throws std::bad_alloc.
    void room() {
        heap_.reserve(branches_.in_use() + 1);
        where_.reserve(branches_.made() + 1);
        while (where_.size() <= branches_.made()) where_.push(NOT_IN_HEAP);
    }

    // Where in the heap this branch is.
    int32_t where(int32_t number) const { return where_[number]; }

    // Where the page of a branch is that could go from the tier, or -1.
    int32_t tip(const Branch& branch) const {
        if (tier_ == Tier::only) {  // unlocked, and nothing behind it
            return !branch.n || branch.protected_pages() >= branch.n || branch.kids_end ? -1 : branch.n - 1;
        }
        if (tier_ == Tier::host) {  // on the host alone, unpinned, and nothing behind it
            int32_t end = branch.n;
            bool stays = end == branch.dev || branch.kids_end || OnHost(branch, page_bytes_).pins[end - 1];
            return stays ? -1 : end - 1;
        }
        int32_t end = branch.dev;  // unlocked, and nothing resident behind it
        if (!end || branch.protected_pages() >= end) return -1;
        int32_t live = end == branch.n ? *OnHost(branch, page_bytes_).live_end : branch.nodes.hung_at(end).live;
        return live ? -1 : end - 1;
    }

    // The tip of this branch may be evictable now, or worth something else than before.
    void offer(int32_t number) {
        const Branch& branch = branches_[number];
        int32_t position = tip(branch);
        if (position < 0) return;
        Worth now = worth(policy_, branch, position);
        size_t at = where_[number];
        if (where_[number] == NOT_IN_HEAP) {
            at = heap_.size();
            heap_.resize(at + 1);
        }
        settle({now.first, now.second, number}, at);
    }

    // The branch whose tip goes first, or -1 where nothing can.
    int32_t best() {
        while (!heap_.empty()) {
            int32_t number = heap_[0].branch;
            if (tip(branches_[number]) >= 0) return number;
            drop(number);
        }
        return -1;
    }

    // This branch gives nothing until it is offered again.
    void drop(int32_t number) {
        if (where_[number] == NOT_IN_HEAP) return;
        size_t at = where_[number];
        where_[number] = NOT_IN_HEAP;
        Entry last = heap_.pop();
        if (at < heap_.size()) settle(last, at);
    }

  private:
    static bool before(const Entry& one, const Entry& other) {
        if (one.first != other.first) return one.first < other.first;
        if (one.second != other.second) return one.second < other.second;
        return one.branch < other.branch;
    }

    void put(const Entry& entry, size_t at) {
        heap_[at] = entry;
        where_[entry.branch] = static_cast<int32_t>(at);
    }

    // Have the four entries from here on brought near: those below two siblings, one of which is looked at next.  In a
    // large heap each would be waited for.
    void ahead(size_t at) const {
        if (at + 3 >= heap_.size()) return;
        __builtin_prefetch(heap_.begin() + at);
        __builtin_prefetch(heap_.begin() + at + 3);
    }

    // Put an entry at the free place `at`, or above it or below it, where it belongs.
    void settle(Entry entry, size_t at) {
        while (at > 0 && before(entry, heap_[(at - 1) / 2])) {
            put(heap_[(at - 1) / 2], at);
            at = (at - 1) / 2;
        }
        while (2 * at + 1 < heap_.size()) {
            size_t child = 2 * at + 1;
            ahead(2 * child + 1);
            if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
            if (!before(heap_[child], entry)) break;
            put(heap_[child], at);
            at = child;
        }
        put(entry, at);
    }

    Policy policy_;
    Tier tier_;
    size_t page_bytes_;
    Branches& branches_;
    Array<Entry> heap_;
    Array<int32_t> where_;  // of each branch, by its number
};

}  // namespace kvlitmus
