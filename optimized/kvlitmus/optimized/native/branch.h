// Branches: what the tree is made of (kvlitmus.optimized.branch says it all).
//
// A branch is a run of pages that follow one another in some prompt.  It grows and shrinks at its tip and is never
// split: another branch may hang off the middle of it.  Its first `dev` pages are resident, the others are on the host
// alone.  In a tree without a host all of them are resident, and none has what a host adds.
//
// A branch has a number, 0 or more, used again when it is gone; the root of a namespace has one below 0.
#pragma once

#include "levels.h"

namespace kvlitmus {

// The protections of a branch, sorted: 2 * end + 1 for a lock of a place, 2 * at for a branch below it that has some.
// Mostly there is one, which takes no memory.  (31 bits of pages, so 32 of entries.)
class Locks {
  public:
    Locks() = default;
    Locks(const Locks&) = delete;
    Locks& operator=(const Locks&) = delete;
    ~Locks() { std::free(many_); }

    bool empty() const { return !size_; }
    uint32_t size() const { return size_; }
    uint32_t operator[](uint32_t at) const { return many_ ? many_[at] : one_; }
    uint32_t largest() const { return (*this)[size_ - 1]; }

    // Room for one more; throws std::bad_alloc, with nothing changed, but never where it is empty.
    void room() {
        if ((!size_ && !many_) || (many_ && size_ < room_)) return;
        uint32_t room = many_ ? room_ * 2 : 4;
        auto* more = static_cast<uint32_t*>(reallocate(many_, room * sizeof(uint32_t)));
        if (!many_) more[0] = one_;
        many_ = more;
        room_ = room;
    }

    // Throws std::bad_alloc as room() does.
    void add(uint32_t entry) {
        if (!size_ && !many_) {
            one_ = entry;
            size_ = 1;
            return;
        }
        room();
        uint32_t at = from(entry);
        std::memmove(many_ + at + 1, many_ + at, (size_ - at) * sizeof(uint32_t));
        many_[at] = entry;
        ++size_;
    }

    // Takes one such entry out; whether there was one.
    bool remove(uint32_t entry) {
        if (!many_) {
            if (!size_ || one_ != entry) return false;
            size_ = 0;
            return true;
        }
        uint32_t at = from(entry);
        if (at == size_ || many_[at] != entry) return false;
        std::memmove(many_ + at, many_ + at + 1, (size_ - at - 1) * sizeof(uint32_t));
        --size_;
        if (!size_) {
            std::free(many_);
            many_ = nullptr;
        }
        return true;
    }

  private:
    uint32_t from(uint32_t entry) const {
        uint32_t low = 0, high = size_;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            if (many_[middle] < entry)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    uint32_t* many_ = nullptr;
    union {
        uint32_t one_ = 0;  // without `many_`
        uint32_t room_;     // of `many_`
    };
    uint32_t size_ = 0;
};

struct Branch {
    char* data = nullptr;   // its units, room for all of them, and then its pages
    int32_t n = 0;          // pages
    int32_t room = 0;       // pages that there is room for
    int32_t parent = 0;     // the branch it hangs off, or a root
    int32_t at = 0;         // where it hangs
    int32_t base = 0;       // its depth
    uint32_t tag = 0;       // what its first page comes to in the table of pages
    int32_t kids_end = 0;   // how many branches hang where it ends
    int32_t dev = 0;        // pages that are resident, the first ones
    Level touched, created, priority;
    Nodes nodes;
    Locks locks;
    void* shadow = nullptr;  // what Python knows of it, if it has asked; told when the branch shrinks or goes

    int32_t protected_pages() const { return locks.empty() ? 0 : static_cast<int32_t>(locks.largest() >> 1); }

    int32_t kids_at(int32_t position) const { return position == n ? kids_end : nodes.hung_at(position).kids; }
};

static_assert(sizeof(Branch) <= 128, "two lines of the processor's cache");

// What a branch has of each of its pages is one block, with room for `room` pages: their units, then their page numbers
// on the device.  With a host there follow how many live branches hang where the branch ends, and of each page its page
// number on the host (NO_COPY: it has no copy there), who keeps this copy (pins), and what is known of it (flags).
constexpr int32_t NO_COPY = -1;
constexpr uint8_t SETTLED = 1, STORED = 2, BUSY = 4;

inline int32_t* pages_of(const Branch& branch, size_t page_bytes) {
    return reinterpret_cast<int32_t*>(branch.data + branch.room * page_bytes);
}

inline size_t block_bytes(int64_t room, size_t page_bytes, bool hosted) {
    size_t on_host = sizeof(int32_t) + room * (2 * sizeof(int32_t) + sizeof(uint8_t));
    return room * (page_bytes + sizeof(int32_t)) + (hosted ? on_host : 0);
}

// The part of the block that a host adds.
struct OnHost {
    int32_t* live_end;
    int32_t* copies;
    int32_t* pins;
    uint8_t* flags;

    OnHost(const Branch& branch, size_t page_bytes)
        : live_end(pages_of(branch, page_bytes) + branch.room),
          copies(live_end + 1),
          pins(copies + branch.room),
          flags(reinterpret_cast<uint8_t*>(pins + branch.room)) {}

    void set(int32_t lo, int32_t hi, uint8_t flag) const {
        for (int32_t at = lo; at < hi; ++at) {
            pins[at] = 0;
            flags[at] = flag;
        }
    }
};

inline void move_data(Branch& branch, int32_t room, size_t page_bytes, bool hosted) {
    Branch moved;
    moved.room = room;
    moved.data = static_cast<char*>(allocate(block_bytes(room, page_bytes, hosted)));
    if (size_t n = branch.n) {
        std::memcpy(moved.data, branch.data, n * page_bytes);
        std::memcpy(pages_of(moved, page_bytes), pages_of(branch, page_bytes), n * sizeof(int32_t));
        if (hosted) {
            OnHost from(branch, page_bytes), to(moved, page_bytes);
            *to.live_end = *from.live_end;
            std::memcpy(to.copies, from.copies, n * sizeof(int32_t));
            std::memcpy(to.pins, from.pins, n * sizeof(int32_t));
            std::memcpy(to.flags, from.flags, n);
        }
    }
    std::free(branch.data);
    branch.data = moved.data;
    branch.room = room;
}

// All branches of a kind, by number.  They never move.
template <typename Kind>
class BranchesOf {
  public:
    BranchesOf() = default;
    BranchesOf(const BranchesOf&) = delete;
    BranchesOf& operator=(const BranchesOf&) = delete;
    ~BranchesOf() {
        for (size_t at = 0; at < ready_; ++at) {
            std::free((*this)[at].data);
            (*this)[at].~Kind();
        }
        for (Kind* chunk : chunks_) std::free(chunk);
    }

    Kind& operator[](size_t number) { return chunks_[number / CHUNK][number % CHUNK]; }
    const Kind& operator[](size_t number) const { return chunks_[number / CHUNK][number % CHUNK]; }

    size_t made() const { return made_; }                        // numbers that were ever given
    size_t in_use() const { return made_ - free_.size(); }
    const Array<int32_t>& free_numbers() const { return free_; }

    // Which number the next one has.
    int32_t next() const { return free_.empty() ? static_cast<int32_t>(made_) : free_.back(); }

    // Have a branch for the next number, without giving it; throws std::bad_alloc.
    void room() {
        if (!free_.empty() || ready_ > made_) return;
        free_.reserve(made_ + 1);
        if (made_ == chunks_.size() * CHUNK) {
            chunks_.reserve(chunks_.size() + 1);
            chunks_.push(static_cast<Kind*>(allocate(CHUNK * sizeof(Kind))));
        }
        new (&(*this)[made_]) Kind();
        ready_ = made_ + 1;
    }

    // Give the next number away; there is room.
    int32_t take() {
        if (!free_.empty()) return free_.pop();
        return static_cast<int32_t>(made_++);
    }

    // This branch is gone.
    void give_back(int32_t number) {
        Kind& branch = (*this)[number];
        std::free(branch.data);
        branch.~Kind();
        new (&branch) Kind();
        free_.push(number);
    }

  private:
    static constexpr size_t CHUNK = 512;
    Array<Kind*> chunks_;
    Array<int32_t> free_;
    size_t made_ = 0;
    size_t ready_ = 0;  // branches that are constructed
};

using Branches = BranchesOf<Branch>;

}  // namespace kvlitmus
