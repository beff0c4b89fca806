// Pages by their tokens: comparing them, and finding the branch that goes on with a page.
//
// One table has the branches of all parents under the hash of (parent, where it hangs, the tokens of its first page).
// What is found is compared token by token, so a hash decides nothing but the time it takes; and each part of it takes
// a secret of this process, so that nobody can choose prompts that are slow to find.
#pragma once

#include <chrono>
#include <exception>
#include <random>

#include "branch.h"

namespace kvlitmus {

// How many of these pages are equal, up to the first one that differs.
inline size_t common(const char* mine, const char* other, size_t pages, size_t page_bytes) {
    constexpr size_t BLOCK = 128;
    size_t bytes = pages * page_bytes, done = 0;
    while (done + BLOCK <= bytes) {
        uint64_t unlike = 0;
        for (size_t k = 0; k < BLOCK; k += 8) {
            uint64_t x, y;
            std::memcpy(&x, mine + done + k, 8);
            std::memcpy(&y, other + done + k, 8);
            unlike |= x ^ y;
        }
        if (unlike) break;
        done += BLOCK;
    }
    while (done + 4 <= bytes && !std::memcmp(mine + done, other + done, 4)) done += 4;
    if (done == bytes) return pages;  // mostly all of them, or none: what follows need not wait for a division
    return done < page_bytes ? 0 : done / page_bytes;
}

inline uint64_t mixed(uint64_t one, uint64_t other) {
    unsigned __int128 product = static_cast<unsigned __int128>(one) * other;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// What tags are made with: numbers that nobody outside of this process knows.
struct Secret {
    static constexpr size_t LANES = 4;
    uint64_t start[LANES], factor[LANES], where, last;
};

inline uint64_t drawn(uint64_t& state) {
    try {
        std::random_device source;
        return (static_cast<uint64_t>(source()) << 32) | source();
    } catch (const std::exception&) {  // a system without randomness: where its memory lies, and the time
        state ^= reinterpret_cast<uintptr_t>(std::malloc) ^
                 static_cast<uint64_t>(std::chrono::high_resolution_clock::now().time_since_epoch().count());
        state += 0x9E3779B97F4A7C15ull;
        return mixed(state, 0xE7037ED1A0B428DBull);
    }
}

inline const Secret& secret() {
    static const Secret kept = [] {
        Secret made;
        uint64_t state = 0;
        for (uint64_t* each : {made.start, made.factor})
            for (size_t lane = 0; lane < Secret::LANES; ++lane) each[lane] = drawn(state);
        made.where = drawn(state);
        made.last = drawn(state);
        return made;
    }();
    return kept;
}

// The tag of a page that hangs there.  Its tokens go through four lanes, so that a product seldom waits for another;
// where it hangs comes last, so that the tokens need not wait for the branch to be found.
inline uint32_t tag_of(int32_t parent, int32_t at, const char* page, size_t bytes, const Secret& secret) {
    constexpr size_t LANES = Secret::LANES, BLOCK = 16;
    uint64_t lanes[LANES];
    std::memcpy(lanes, secret.start, sizeof(lanes));
    auto take = [&](size_t lane, const char* block) {
        uint64_t x, y;
        std::memcpy(&x, block, 8);
        std::memcpy(&y, block + 8, 8);
        lanes[lane] = mixed(lanes[lane] ^ x, secret.factor[lane] ^ y);
    };
    size_t k = 0;
    for (; k + LANES * BLOCK <= bytes; k += LANES * BLOCK)
        for (size_t lane = 0; lane < LANES; ++lane) take(lane, page + k + lane * BLOCK);
    for (size_t lane = 0; k + BLOCK <= bytes; k += BLOCK, ++lane) take(lane, page + k);
    for (; k < bytes; k += 4) {
        uint32_t x;
        std::memcpy(&x, page + k, 4);
        lanes[LANES - 1] = mixed(lanes[LANES - 1] ^ x, secret.factor[LANES - 1]);
    }
    uint64_t tokens = mixed(lanes[0], lanes[1] ^ secret.last) ^ mixed(lanes[2] ^ secret.last, lanes[3]);
    uint64_t where = (static_cast<uint64_t>(static_cast<uint32_t>(parent)) << 32) | static_cast<uint32_t>(at);
    uint64_t all = mixed(tokens ^ secret.last, where ^ secret.where);
    return static_cast<uint32_t>(all ^ (all >> 32));
}

// Branches by their tags: open addressing, the entries that share a place one behind the other, without gaps.
class PageTable {
  public:
    struct Entry {
        uint32_t tag;
        int32_t branch;  // NOBODY: a free place
    };
    static constexpr int32_t NOBODY = -1;

    // Room for one entry more; throws std::bad_alloc, with nothing changed.
    void room() {
        if (entries_ && (used_ + 1) * 4 <= (mask_ + 1) * 3) return;
        size_t wanted = entries_ ? (mask_ + 1) * 2 : 16;
        auto* more = static_cast<Entry*>(allocate(wanted * sizeof(Entry)));
        for (size_t k = 0; k < wanted; ++k) more[k] = {0, NOBODY};
        Entry* old = entries_;
        size_t before = entries_ ? mask_ + 1 : 0;
        entries_ = more;
        mask_ = wanted - 1;
        for (size_t k = 0; k < before; ++k)
            if (old[k].branch != NOBODY) place(old[k]);
        std::free(old);
    }

    void put(uint32_t tag, int32_t branch) {
        place({tag, branch});
        ++used_;
    }

    // Take this entry out, and close the gap that it leaves.
    void remove(uint32_t tag, int32_t branch) {
        size_t at = tag & mask_;
        while (entries_[at].branch != branch) at = (at + 1) & mask_;
        --used_;
        for (size_t next = (at + 1) & mask_; entries_[next].branch != NOBODY; next = (next + 1) & mask_) {
            size_t home = entries_[next].tag & mask_;
            if (((next - home) & mask_) >= ((next - at) & mask_)) {  // it may stand at the gap
                entries_[at] = entries_[next];
                at = next;
            }
        }
        entries_[at] = {0, NOBODY};
    }

    // The first branch with this tag that `same` says yes to, or NOBODY.
    template <typename Same>
    int32_t find(uint32_t tag, Same same) const {
        if (!entries_) return NOBODY;
        for (size_t at = tag & mask_; entries_[at].branch != NOBODY; at = (at + 1) & mask_)
            if (entries_[at].tag == tag && same(entries_[at].branch)) return entries_[at].branch;
        return NOBODY;
    }

    PageTable() = default;
    PageTable(const PageTable&) = delete;
    PageTable& operator=(const PageTable&) = delete;
    ~PageTable() { std::free(entries_); }

  private:
    void place(Entry entry) {
        size_t at = entry.tag & mask_;
        while (entries_[at].branch != NOBODY) at = (at + 1) & mask_;
        entries_[at] = entry;
    }

    Entry* entries_ = nullptr;
    size_t mask_ = 0;
    size_t used_ = 0;
};

}  // namespace kvlitmus
