// The prefix tree on the device: what is cached under which tokens (kvlitmus.optimized.tree, paths and residency).
//
// Whatever is said there of the Python tree without a host tier is so here, to the last victim and page number.  Nothing
// of Python is known here; a namespace is a root, a number below 0 that whoever calls keeps its name under.
//
// A call takes all the memory that it may need first (`room`, `prepare`), and throws std::bad_alloc with nothing
// changed; what follows can't fail.
#pragma once

#include "pages.h"
#include "pool.h"
#include "victims.h"

namespace kvlitmus {

// The prefix that ends after the first `end` pages of a branch; of a root, or NOWHERE, 0.
struct Spot {
    int32_t branch, end;
};

constexpr int32_t NOWHERE = INT32_MIN;  // the root of a namespace of which nothing is cached

struct Root {
    int32_t kids;
    uint32_t serial;  // another one each time that its number is used
    void* name;       // of whoever calls
    void* shadow;
};

class Tree {
  public:
    const int64_t page_size;
    const size_t page_bytes;
    Pool& pool;
    Branches branches;
    Victims victims;
    int64_t clock = 0;
    int64_t evictable = 0, guarded = 0;
    Array<int32_t> emptied;  // roots that nothing hangs at any more, for whoever names them
    void (*gone)(void* shadow) = nullptr;                        // the branch with this shadow is gone
    void (*shorter)(void* shadow, int32_t pages) = nullptr;      // it ends earlier now

    Tree(int64_t page_size, size_t unit_bytes, Policy policy, Pool& pool)
        : page_size(page_size), page_bytes(page_size * unit_bytes), pool(pool), victims(policy, branches),
          secret_(secret()) {}

    // -- roots ----------------------------------------------------------------------------------------------------

    Root& root(int32_t number) { return roots_[-1 - static_cast<int64_t>(number)]; }
    int32_t roots() const { return static_cast<int32_t>(roots_.size()); }

    // The root of a new namespace; throws std::bad_alloc.
    int32_t new_root(void* name) {
        if (free_roots_.empty()) {
            roots_.reserve(roots_.size() + 1);
            free_roots_.reserve(roots_.size() + 1);
            emptied.reserve(roots_.size() + 1);
            roots_.push({0, ++serial_, name, nullptr});
            return -static_cast<int32_t>(roots_.size());
        }
        int32_t number = free_roots_.pop();
        root(number) = {0, ++serial_, name, nullptr};
        return number;
    }

    void drop_root(int32_t number) {
        void* shadow = root(number).shadow;
        root(number) = {0, 0, nullptr, nullptr};
        free_roots_.push(number);
        if (shadow) gone(shadow);  // the last thing: it may run anything
    }

    // -- finding --------------------------------------------------------------------------------------------------

    int64_t depth(Spot spot) const { return spot.branch < 0 ? 0 : int64_t{branches[spot.branch].base} + spot.end; }

    // From a spot on along so many pages of units, as far as they are known.
    Spot walk(Spot from, const char* units, int64_t pages) { return walked(from, units, pages, [](Branch&, int32_t) {}); }

    // The spot `depth` pages below the root on the path to this one.
    Spot ascend(Spot spot, int64_t depth) const {
        while (spot.branch >= 0 && depth <= branches[spot.branch].base)
            spot = {branches[spot.branch].parent, branches[spot.branch].at};
        return {spot.branch, spot.branch < 0 ? 0 : static_cast<int32_t>(depth - branches[spot.branch].base)};
    }

    // The pages lo .. depth-1 of a path.
    void path_pages(Spot spot, int64_t lo, int32_t* into) const {
        for (; spot.branch >= 0; spot = {branches[spot.branch].parent, branches[spot.branch].at}) {
            const Branch& branch = branches[spot.branch];
            int64_t start = lo > branch.base ? lo - branch.base : 0;
            if (start >= spot.end) return;
            std::memcpy(into + (branch.base + start - lo), pages_of(branch, page_bytes) + start,
                        (spot.end - start) * sizeof(int32_t));
        }
    }

    // -- match ----------------------------------------------------------------------------------------------------

    Spot match(Spot from, const char* units, int64_t pages) {
        prepare_above(from, NO_PRIORITY);
        Spot spot = walked(from, units, pages, [](Branch& branch, int32_t end) { prepare(branch, end, NO_PRIORITY); });
        ++clock;
        touch(spot);
        offer_used(spot);
        return spot;
    }

    // -- insert ---------------------------------------------------------------------------------------------------

    struct Inserted {
        Spot spot;
        int64_t known;  // pages of the key behind the spot where it began
        int64_t wrong;  // FINE, or the index of the page that can't be cached
    };

    // Cache what is missing of a key behind a spot, in those of the offered pages; nothing has changed where one of
    // them is wrong.  `pages` is a pointer to numbers, or what is used like one.
    template <typename Pages>
    Inserted insert(Spot from, const char* units, Pages pages, int64_t count, int64_t priority, bool counts) {
        prepare_above(from, priority);
        Spot spot = walked(from, units, count, [=](Branch& branch, int32_t end) { prepare(branch, end, priority); });
        int64_t known = depth(spot) - depth(from), fresh = count - known;
        bool grows = spot.branch >= 0 && spot.end == branches[spot.branch].n;
        char* data = nullptr;
        if (fresh && grows) room_to_grow(branches[spot.branch], fresh);
        if (fresh && !grows) data = room_for_branch(fresh);
        int64_t wrong = pool.hand_over(pages + known, fresh, USED, CACHED);
        if (wrong != FINE) {
            std::free(data);
            return {spot, known, known + wrong};
        }
        ++clock;
        touch(spot);
        count_path(spot, priority, counts);
        if (fresh) {
            const char* news = units + known * page_bytes;
            if (!grows) spot = hang(spot, data, static_cast<int32_t>(fresh), news);
            append(branches[spot.branch], news, pages + known, static_cast<int32_t>(fresh), priority, counts);
            spot.end = branches[spot.branch].n;
        }
        offer_used(spot);
        return {spot, known, FINE};
    }

    // -- locks ----------------------------------------------------------------------------------------------------

    // Protect the path to a spot once more.
    void lock(Spot spot) {
        uint32_t entry = 2u * static_cast<uint32_t>(spot.end) + 1;
        for (int32_t number = spot.branch; number >= 0;) {
            Branch& branch = branches[number];
            bool had = !branch.locks.empty();
            int64_t more = int64_t{entry >> 1} - branch.protected_pages();
            if (had) {
                try {
                    branch.locks.add(entry);
                } catch (...) {
                    if (number != spot.branch) unlock_below(spot, number);
                    throw;
                }
            } else {
                branch.locks.add(entry);  // it takes no memory
            }
            if (more > 0) {
                evictable -= more;
                guarded += more;
            }
            if (had) return;
            entry = 2u * static_cast<uint32_t>(branch.at);
            number = branch.parent;
        }
    }

    // Give one protection of the path to a spot back; whether there was one.
    bool unlock(Spot spot) {
        uint32_t entry = 2u * static_cast<uint32_t>(spot.end) + 1;
        for (int32_t number = spot.branch; number >= 0;) {
            Branch& branch = branches[number];
            if (!branch.locks.remove(entry)) return false;
            int64_t less = int64_t{entry >> 1} - branch.protected_pages();
            if (less > 0) {
                evictable += less;
                guarded -= less;
                victims.offer(number);
            }
            if (!branch.locks.empty()) return true;
            if (less <= 0) victims.offer(number);
            entry = 2u * static_cast<uint32_t>(branch.at);
            number = branch.parent;
        }
        return true;
    }

    // -- evict ----------------------------------------------------------------------------------------------------

    // Free so many pages, the least valuable first, or as many as are not locked; returns how many.
    int64_t evict(int64_t wanted) {
        int64_t freed = 0;
        while (freed < wanted) {
            int32_t number = victims.best();
            if (number < 0) break;
            freed += leave(number, wanted - freed);
        }
        return freed;
    }

  private:
    static constexpr int64_t NO_PRIORITY = INT64_MIN;

    // `leaving` hears of each branch that the way ends in, or goes on from, and where; it may take memory.
    template <typename Leaving>
    Spot walked(Spot spot, const char* units, int64_t pages, Leaving leaving) {
        if (spot.branch == NOWHERE) return spot;
        while (true) {
            int32_t kids;
            if (spot.branch < 0) {
                kids = root(spot.branch).kids;
            } else {
                Branch& branch = branches[spot.branch];
                if (spot.end < branch.n && pages) {
                    int64_t most = branch.n - spot.end < pages ? branch.n - spot.end : pages;
                    auto same = static_cast<int32_t>(
                        common(branch.data + spot.end * page_bytes, units, most, page_bytes));
                    spot.end += same;
                    units += same * page_bytes;
                    pages -= same;
                }
                leaving(branch, spot.end);
                kids = pages ? branch.kids_at(spot.end) : 0;
            }
            int32_t child = pages && kids ? child_of(spot, units) : PageTable::NOBODY;
            if (child == PageTable::NOBODY) return spot;
            spot = {child, 1};
            units += page_bytes;
            --pages;
        }
    }

    int32_t child_of(Spot spot, const char* page) const {
        uint32_t tag = tag_of(spot.branch, spot.end, page, page_bytes, secret_);
        return table_.find(tag, [&](int32_t number) {
            const Branch& branch = branches[number];
            return branch.parent == spot.branch && branch.at == spot.end && !std::memcmp(branch.data, page, page_bytes);
        });
    }

    // -- memory, before anything has changed ----------------------------------------------------------------------

    // For a use of a branch up to here, and a priority that it is to have at least.
    static void prepare(Branch& branch, int32_t end, int64_t priority) {
        if (end < branch.n) {
            branch.touched.room();
            branch.nodes.room();
        }
        if (branch.priority.pieced() || branch.priority.one < priority) branch.priority.room(2);
    }

    // For the branches above the one that a way begins in.
    void prepare_above(Spot from, int64_t priority) {
        if (from.branch < 0) return;
        const Branch* below = &branches[from.branch];
        while (below->parent >= 0) {
            Branch& branch = branches[below->parent];
            prepare(branch, below->at, priority);
            below = &branch;
        }
    }

    void room_to_grow(Branch& branch, int64_t fresh) {
        branch.nodes.room();
        branch.touched.room();
        branch.created.room();
        branch.priority.room(2);
        int64_t wanted = branch.n + fresh, more = int64_t{branch.n} + (branch.n >> 2);
        if (more > INT32_MAX) more = INT32_MAX;
        if (wanted > INT32_MAX) throw std::bad_alloc();  // more than any pool has
        if (wanted > branch.room) move_data(branch, static_cast<int32_t>(wanted > more ? wanted : more), page_bytes);
    }

    char* room_for_branch(int64_t pages) {
        branches.room();
        table_.room();
        victims.room();
        return static_cast<char*>(allocate(pages * (page_bytes + sizeof(int32_t))));
    }

    // -- uses -----------------------------------------------------------------------------------------------------

    // The path to this spot is used now, and a node ends here.
    void touch(Spot spot) {
        if (spot.branch >= 0 && spot.end < branches[spot.branch].n && spot.end) branches[spot.branch].nodes.cut(spot.end);
        while (spot.branch >= 0) {
            Branch& branch = branches[spot.branch];
            branch.touched.set_prefix(spot.end, clock, branch.n);
            spot = {branch.parent, branch.at};
        }
    }

    // A hit of the path to this spot, where it counts, and a priority that it has at least.
    void count_path(Spot spot, int64_t priority, bool counts) {
        while (spot.branch >= 0) {
            Branch& branch = branches[spot.branch];
            if (counts) branch.nodes.count(0, spot.end);
            branch.priority.raise_prefix(spot.end, priority, branch.n);
            spot = {branch.parent, branch.at};
        }
    }

    // The tip that a use has reached is worth something else now; behind the others something hangs.
    void offer_used(Spot spot) {
        if (spot.branch >= 0 && spot.end >= branches[spot.branch].n) victims.offer(spot.branch);
    }

    // -- coming and going -----------------------------------------------------------------------------------------

    // A new branch hangs here, still without pages; `data` has room for them.
    Spot hang(Spot spot, char* data, int32_t room, const char* first_page) {
        uint32_t tag = tag_of(spot.branch, spot.end, first_page, page_bytes, secret_);
        int32_t number = branches.take();
        Branch& branch = branches[number];
        branch.parent = spot.branch;
        branch.at = spot.end;
        branch.base = static_cast<int32_t>(depth(spot));
        branch.data = data;
        branch.room = room;
        branch.tag = tag;
        table_.put(tag, number);
        count_kid(spot, 1);
        return {number, 0};
    }

    void count_kid(Spot spot, int32_t by) {
        if (spot.branch < 0) {
            root(spot.branch).kids += by;
        } else if (spot.end == branches[spot.branch].n) {
            branches[spot.branch].kids_end += by;
        } else {
            branches[spot.branch].nodes.hang(spot.end, by);
        }
    }

    // A branch goes on with these pages: a node of their own, with a hit or without.
    template <typename Pages>
    void append(Branch& branch, const char* units, Pages pages, int32_t count, int64_t priority, bool counts) {
        int32_t old = branch.n;
        std::memcpy(branch.data + old * page_bytes, units, count * page_bytes);
        int32_t* into = pages_of(branch, page_bytes) + old;
        for (int32_t k = 0; k < count; ++k) into[k] = static_cast<int32_t>(pages[k]);
        branch.n = old + count;
        if (old) {
            branch.nodes.add(old, branch.kids_end);
            branch.kids_end = 0;
        }
        branch.touched.grow(old, branch.n, clock);
        branch.created.grow(old, branch.n, clock);
        branch.priority.grow(old, branch.n, priority);
        if (counts) branch.nodes.count(old, branch.n);
        evictable += count;
    }

    // Take pages of the last node of a branch away, at most so many; returns how many.
    int64_t leave(int32_t number, int64_t most) {
        Branch& branch = branches[number];
        int64_t hi = branch.n, lo = branch.nodes.last_start();
        if (lo < hi - most) lo = hi - most;
        if (lo < branch.protected_pages()) lo = branch.protected_pages();
        pool.take_back(pages_of(branch, page_bytes) + lo, hi - lo, CACHED);
        evictable -= hi - lo;
        if (lo) {
            truncate(branch, static_cast<int32_t>(lo));
            victims.offer(number);
        } else {
            remove(number);
        }
        return hi - lo;
    }

    // A branch ends here now; memory that it doesn't need any more is given up once that is three quarters of it.
    void truncate(Branch& branch, int32_t end) {
        branch.n = end;
        branch.kids_end = branch.nodes.trim(end);
        branch.touched.trim(end);
        branch.created.trim(end);
        branch.priority.trim(end);
        if (branch.shadow) shorter(branch.shadow, end);
        if (4 * int64_t{end} + 8 >= branch.room) return;
        try {
            move_data(branch, end, page_bytes);
        } catch (const std::bad_alloc&) {  // it stays as large as it is
        }
    }

    // A branch without pages leaves the tree.
    void remove(int32_t number) {
        Branch& branch = branches[number];
        Spot above = {branch.parent, branch.at};
        void* shadow = branch.shadow;
        table_.remove(branch.tag, number);
        victims.drop(number);
        branches.give_back(number);
        count_kid(above, -1);
        if (above.branch >= 0)
            victims.offer(above.branch);
        else if (!root(above.branch).kids)
            emptied.push(above.branch);
        if (shadow) gone(shadow);  // the last thing: it may run anything
    }

    // What `lock` has done below the branch `stop`.
    void unlock_below(Spot spot, int32_t stop) {
        uint32_t entry = 2u * static_cast<uint32_t>(spot.end) + 1;
        for (int32_t number = spot.branch; number != stop;) {
            Branch& branch = branches[number];
            branch.locks.remove(entry);
            evictable += entry >> 1;
            guarded -= entry >> 1;
            entry = 2u * static_cast<uint32_t>(branch.at);
            number = branch.parent;
        }
    }

    const Secret& secret_;
    uint32_t serial_ = 0;
    PageTable table_;
    Array<Root> roots_;
    Array<int32_t> free_roots_;
};

}  // namespace kvlitmus
