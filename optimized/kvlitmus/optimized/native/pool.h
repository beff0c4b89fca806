// Pools: which pages are free (kvlitmus.optimized.pool says it all).
//
// `state` has one byte per page.  Free pages are those of the stack, the one given back last on top, and below them those
// that were never handed out, which need no memory: `fresh .. end`, the lowest first.
#pragma once

#include "memory.h"

namespace kvlitmus {

enum State : uint8_t { FREE = 0, USED = 1, GROUPED = 2, CACHED = 3, RESERVED = 4 };  // reserved: I/O may write there

constexpr int64_t FINE = -1;

// The pages of a row of slots that begins with a whole page, used like a pointer to their numbers.
struct RowPages {
    const int64_t* row;
    int64_t page_size;

    int64_t operator[](int64_t at) const {
        int64_t slot = row[at * page_size];
        return slot < 0 ? -1 : slot / page_size;  // a row that somebody has written into may have anything
    }
    RowPages operator+(int64_t by) const { return {row + by * page_size, page_size}; }
};

class Pool {
  public:
    const int64_t pages, page_size, reserved;

    Pool(int64_t pages, int64_t page_size, int64_t reserved)
        : pages(pages), page_size(page_size), reserved(reserved), fresh_(reserved), end_(reserved + pages) {
        state_ = static_cast<uint8_t*>(allocate_zeros(end_));
        try {
            stack_ = static_cast<int32_t*>(allocate_zeros(pages * sizeof(int32_t)));  // touched where it is used
        } catch (...) {
            std::free(state_);
            throw;
        }
        std::memset(state_, USED, reserved);
    }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool() {
        std::free(state_);
        std::free(stack_);
    }

    int64_t free_count() const { return top_ + (end_ - fresh_); }
    int64_t end() const { return end_; }
    State state(int64_t page) const { return static_cast<State>(state_[page]); }

    // `count` free pages, which there are; they are in use from now on.
    void take(int64_t count, int32_t* into) {
        for (int64_t k = 0; k < count; ++k) {
            int32_t page = top_ ? stack_[--top_] : static_cast<int32_t>(fresh_++);
            into[k] = page;
            state_[page] = USED;
        }
    }

    // Give pages the state `to`, which have the state `was`; FINE, or the index of the first that has not, and then
    // nothing has changed.
    template <typename Pages>
    int64_t hand_over(Pages given, int64_t count, State was, State to) {
        for (int64_t k = 0; k < count; ++k) {
            int64_t page = given[k];
            if (page < reserved || page >= end_ || state_[page] != was) {
                for (int64_t j = 0; j < k; ++j) state_[given[j]] = was;
                return k;
            }
            state_[page] = to;
        }
        return FINE;
    }

    // The same for pages that become free, or wait where a group is open.  Throws std::bad_alloc, with nothing changed.
    template <typename Pages>
    int64_t take_back(Pages given, int64_t count, State was) {
        if (grouping_) {
            group_.reserve(group_.size() + count);
            parts_.reserve(parts_.size() + 1);
        }
        int64_t wrong = hand_over(given, count, was, grouping_ ? GROUPED : FREE);
        if (wrong != FINE) return wrong;
        if (grouping_) {
            for (int64_t k = 0; k < count; ++k) group_.push(static_cast<int32_t>(given[k]));
            parts_.push(count);
        } else {
            push(given, count);
        }
        return FINE;
    }

    void group_begin() { grouping_ = true; }

    void group_end() {
        grouping_ = false;
        const int32_t* next = group_.begin();
        for (int64_t count : parts_) {
            for (int64_t k = 0; k < count; ++k) state_[next[k]] = FREE;
            push(next, count);
            next += count;
        }
        group_.clear();
        parts_.clear();
    }

    // All pages are free, whoever had them; none wait in a group.
    void reset() {
        std::memset(state_ + reserved, FREE, pages);
        fresh_ = reserved;
        top_ = 0;
    }

    // All free pages, in the order of the stack from the bottom.
    void copy_free(int32_t* into) const {
        for (int64_t page = end_ - 1; page >= fresh_; --page) *into++ = static_cast<int32_t>(page);
        if (top_) std::memcpy(into, stack_, top_ * sizeof(int32_t));
    }

    // The pages that were given back last, so many of them.
    void copy_newest(int32_t* into, int64_t count) const {
        const int32_t* end = grouping_ ? group_.end() : stack_ + top_;
        if (count) std::memcpy(into, end - count, count * sizeof(int32_t));
    }

    // These pages alone are free, in this order from the bottom; `more` of them are in use from now on.
    void keep_free(const int32_t* left, int64_t count, const int32_t* more, int64_t withheld) {
        fresh_ = end_;
        top_ = count;
        if (count) std::memcpy(stack_, left, count * sizeof(int32_t));
        for (int64_t k = 0; k < withheld; ++k) state_[more[k]] = USED;
    }

  private:
    template <typename Pages>
    void push(Pages given, int64_t count) {
        for (int64_t k = 0; k < count; ++k) stack_[top_ + k] = static_cast<int32_t>(given[count - 1 - k]);
        top_ += count;
    }

    int64_t fresh_, end_;
    int64_t top_ = 0;
    uint8_t* state_ = nullptr;
    int32_t* stack_ = nullptr;
    bool grouping_ = false;
    Array<int32_t> group_;
    Array<int64_t> parts_;  // how many pages were given back together
};

}  // namespace kvlitmus
