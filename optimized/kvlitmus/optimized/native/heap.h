// Heaps: what could go from a tier, by number, the least worth first; and what something is worth (policy).
//
// Where each number is in the heap stands beside it, and not in what it numbers: an entry that moves must not touch the
// memory of that.
#pragma once

#include "memory.h"

namespace kvlitmus {

constexpr int32_t NOT_IN_HEAP = -1;

enum class Policy { lru, mru, lfu, fifo, filo, priority, slru };

constexpr int64_t SLRU_HITS = 2;

// `third` says who goes first of those that are worth the same.
struct Worth {
    int64_t first, second;
    int32_t third = 0;

    bool operator!=(const Worth& other) const { return first != other.first || second != other.second; }
};

// `page`: what says of a page, or of an entry, when and how it was used.
template <typename Page>
Worth worth(Policy policy, const Page& page) {
    switch (policy) {
        case Policy::lru: return {page.touched(), 0};
        case Policy::mru: return {-page.touched(), 0};
        case Policy::lfu: return {page.hits(), page.touched()};
        case Policy::fifo: return {page.created(), 0};
        case Policy::filo: return {-page.created(), 0};
        case Policy::priority: return {page.priority(), page.touched()};
        case Policy::slru: return {page.hits() >= SLRU_HITS, page.touched()};
    }
    return {0, 0};
}

class Heap {
  public:
    struct Entry {
        int64_t first, second;
        int32_t third, number;
    };

    size_t size() const { return heap_.size(); }
    bool empty() const { return heap_.empty(); }
    const Array<Entry>& entries() const { return heap_; }

    // Room for so many at once, of numbers below `numbers`; throws std::bad_alloc.
    void room(size_t many, size_t numbers) {
        heap_.reserve(many);
        where_.reserve(numbers);
        while (where_.size() < numbers) where_.push(NOT_IN_HEAP);
    }

    // Where in the heap this number is.
    int32_t where(int32_t number) const { return where_[number]; }

    // What goes first, and what it was worth when it was put; the heap isn't empty.
    int32_t first() const { return heap_[0].number; }
    Worth first_worth() const { return {heap_[0].first, heap_[0].second, heap_[0].third}; }

    // This number is worth so much from now on; there is room.
    void put(int32_t number, Worth now) {
        size_t at = where_[number];
        if (where_[number] == NOT_IN_HEAP) {
            at = heap_.size();
            heap_.resize(at + 1);
        }
        settle({now.first, now.second, now.third, number}, at);
    }

    void drop(int32_t number) {
        if (where_[number] == NOT_IN_HEAP) return;
        size_t at = where_[number];
        where_[number] = NOT_IN_HEAP;
        Entry last = heap_.pop();
        if (at < heap_.size()) settle(last, at);
    }

    void clear() {
        for (const Entry& entry : heap_) where_[entry.number] = NOT_IN_HEAP;
        heap_.clear();
    }

  private:
    static bool before(const Entry& one, const Entry& other) {
        if (one.first != other.first) return one.first < other.first;
        if (one.second != other.second) return one.second < other.second;
        if (one.third != other.third) return one.third < other.third;
        return one.number < other.number;
    }

    void write(const Entry& entry, size_t at) {
        heap_[at] = entry;
        where_[entry.number] = static_cast<int32_t>(at);
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
            write(heap_[(at - 1) / 2], at);
            at = (at - 1) / 2;
        }
        while (2 * at + 1 < heap_.size()) {
            size_t child = 2 * at + 1;
            ahead(2 * child + 1);
            if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
            if (!before(heap_[child], entry)) break;
            write(heap_[child], at);
            at = child;
        }
        write(entry, at);
    }

    Array<Entry> heap_;
    Array<int32_t> where_;  // of each number
};

}  // namespace kvlitmus
