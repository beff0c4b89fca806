// The prefix tree: what is cached under which tokens (kvlitmus.optimized.tree, paths and residency).
//
// Whatever is said there of the Python tree is so here, to the last victim and page number.  Nothing of Python is known
// here; a namespace is a root, a number below 0 that whoever calls keeps its name under.  What only a tree with a host
// has is in tiers.h.
//
// A call takes all the memory that it may need first (`room`, `prepare`), and throws std::bad_alloc with nothing
// changed; what follows can't fail.
#pragma once

#include <algorithm>

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

// Pages lo .. hi-1 of a branch.
struct Span {
    int32_t branch, lo, hi;
};

// What a hook throws that could not do its work; whoever has set it knows why.
struct Raised {};

class Tree {
  public:
    const int64_t page_size;
    const size_t page_bytes;
    Pool& pool;
    Pool* const host;  // nullptr: there is no host
    const bool write_back, restored_counts;
    Branches branches;
    Victims victims, host_victims;
    int64_t clock = 0;
    int64_t evictable = 0, guarded = 0;
    int64_t evicted = 0, evicted_host = 0;  // pages, since there is this tree
    Array<int32_t> emptied;  // roots that nothing hangs at any more, for whoever names them
    void (*gone)(void* shadow) = nullptr;                        // the branch with this shadow is gone
    void (*shorter)(void* shadow, int32_t pages) = nullptr;      // it ends earlier now

    // Hooks, called when everything is as it should be, and with `context`; they may call the tree, and throw Raised.
    // `told`: these pages are on a tier now, or are about to leave it.  `spill`, of a tree with a host: under write-back
    // these pages are to leave the device; answers how many of the last ones have host copies now, 0 that they have to
    // stay, or less that they are to go without.
    void* context = nullptr;
    void (*told)(void* context, bool stored, Tier tier, Span pages) = nullptr;
    int64_t (*spill)(void* context, Span pages) = nullptr;

    Tree(int64_t page_size, size_t unit_bytes, Policy policy, Pool& pool, Pool* host, bool write_back,
         bool restored_counts)
        : page_size(page_size), page_bytes(page_size * unit_bytes), pool(pool), host(host), write_back(write_back),
          restored_counts(restored_counts), victims(policy, branches, host ? Tier::device : Tier::only, page_bytes),
          host_victims(policy, branches, Tier::host, page_bytes), secret_(secret()) {}

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

    // Where the resident part of a path ends.
    Spot resident(Spot spot) const {
        while (spot.branch >= 0 && !branches[spot.branch].dev)
            spot = {branches[spot.branch].parent, branches[spot.branch].at};
        if (spot.branch < 0) return {spot.branch, 0};
        return {spot.branch, spot.end < branches[spot.branch].dev ? spot.end : branches[spot.branch].dev};
    }

    // Calls `work` with the pages lo .. depth-1 of a path, branch by branch, from its end up.
    template <typename Work>
    void along(Spot spot, int64_t lo, Work work) const {
        for (; spot.branch >= 0; spot = {branches[spot.branch].parent, branches[spot.branch].at}) {
            const Branch& branch = branches[spot.branch];
            auto start = static_cast<int32_t>(lo > branch.base ? lo - branch.base : 0);
            if (start >= spot.end) return;
            work(branch, Span{spot.branch, start, spot.end});
        }
    }

    // The runs of the pages lo .. depth-1 of a path, from the root on; throws std::bad_alloc.
    void path(Spot spot, int64_t lo, Array<Span>& into) const {
        size_t count = 0;
        along(spot, lo, [&](const Branch&, Span) { ++count; });
        into.reserve(count);
        into.resize(count);
        along(spot, lo, [&](const Branch&, Span run) { into[--count] = run; });
    }

    // The pages lo .. depth-1 of a path.
    void path_pages(Spot spot, int64_t lo, int32_t* into) const {
        along(spot, lo, [&](const Branch& branch, Span run) {
            std::memcpy(into + (branch.base + run.lo - lo), pages_of(branch, page_bytes) + run.lo,
                        (run.hi - run.lo) * sizeof(int32_t));
        });
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
        int64_t already;  // pages of the key that were resident behind the spot where it began
        int64_t wrong;    // FINE, or the index of the page that can't be cached
    };

    // Cache what is missing of a key behind a spot, in those of the offered pages; nothing has changed where one of
    // them is wrong.  `pages` is a pointer to numbers, or what is used like one.  `locked`: where it ends will be locked,
    // for which there is memory then.
    template <typename Pages>
    Inserted insert(Spot from, const char* units, Pages pages, int64_t count, int64_t priority, bool counts, bool locked) {
        prepare_above(from, priority);
        Spot spot = walked(from, units, count, [=](Branch& branch, int32_t end) {
            prepare(branch, end, priority);
            if (locked) branch.locks.room();
        });
        int64_t above = depth(from), known = depth(spot) - above, fresh = count - known;
        int64_t already = host ? depth(resident(spot)) - above : known;
        bool grows = spot.branch >= 0 && spot.end == branches[spot.branch].n;
        char* data = nullptr;
        if (fresh && grows) room_to_grow(branches[spot.branch], fresh);
        if (fresh && !grows) data = room_for_branch(fresh);
        int64_t wrong = pool.hand_over(pages + already, count - already, USED, CACHED);
        if (wrong != FINE) {
            std::free(data);
            return {spot, already, already + wrong};
        }
        ++clock;
        if (already < known)
            along(spot, above + already, [&](const Branch&, Span run) { come_back(run, pages, above); });
        touch(spot);
        count_path(spot, priority, counts, above + already);
        if (fresh) {
            const char* news = units + known * page_bytes;
            if (!grows) spot = hang(spot, data, static_cast<int32_t>(fresh), news, true);
            append(branches[spot.branch], news, pages + known, static_cast<int32_t>(fresh), priority, counts, Tier::device);
            spot.end = branches[spot.branch].n;
        }
        offer_used(spot);
        if (told && already < count)
            along(spot, above + already, [&](const Branch&, Span run) { told(context, true, Tier::device, run); });
        return {spot, already, FINE};
    }

    // -- locks ----------------------------------------------------------------------------------------------------

    // Memory for a lock of a place in this branch; throws std::bad_alloc.
    void room_to_lock(int32_t number) {
        for (bool had = false; !had && number >= 0; number = branches[number].parent) {
            had = !branches[number].locks.empty();
            branches[number].locks.room();
        }
    }

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
        if (host) return evict_device(wanted);
        int64_t freed = 0;
        while (freed < wanted) {
            int32_t number = victims.best();
            if (number < 0) break;
            freed += leave(number, wanted - freed);
        }
        evicted += freed;
        return freed;
    }

    // -- with a host (tiers.h) ------------------------------------------------------------------------------------

    struct Restored {
        Spot spot;
        int64_t known, added;
    };

    OnHost on_host(const Branch& branch) const { return OnHost(branch, page_bytes); }
    bool has_copy(Spot spot) const { return spot.branch < 0 || on_host(branches[spot.branch]).copies[spot.end - 1] >= 0; }

    int64_t evict_host(int64_t wanted);
    bool leave_from(int32_t number, int32_t lo);
    template <typename Pages>
    Restored insert_host(Spot from, const char* units, Pages pages, int64_t count);
    int64_t backed(Spot spot, bool closed) const;
    int64_t locked_pages(Spot spot) const;
    void due(Spot spot, int64_t lo, int64_t uses, Array<Span>& nodes) const;
    bool pin(const Span* runs, size_t count, int32_t by);
    void flag(const Span* runs, size_t count, uint8_t add, uint8_t drop);
    template <typename Pages>
    void give_host(Span run, Pages pages, uint8_t flags);
    void take_host(Span run);
    template <typename Pages>
    int64_t make_resident(const Span* runs, size_t count, Pages pages, int64_t total);
    bool relied_on(const Span* runs, size_t count) const;
    bool depended_on(Span run) const;

  private:
    int64_t evict_device(int64_t wanted);
    int64_t leave_device(int32_t number, int64_t most);
    int64_t leave_host(int32_t number, int64_t most);
    void touch_below(Spot spot, Spot top);

    // Pages on the host alone are resident in those of `pages`, the first of which is `above` pages below the root.
    template <typename Pages>
    void come_back(Span run, Pages pages, int64_t above) {
        Branch& branch = branches[run.branch];
        int32_t* into = pages_of(branch, page_bytes);
        for (int32_t at = run.lo; at < run.hi; ++at) into[at] = static_cast<int32_t>(pages[branch.base + at - above]);
        branch.dev = run.hi;
        evictable += run.hi - run.lo;
        if (!run.lo) count_live({branch.parent, branch.at}, 1);
        victims.offer(run.branch);
    }

    void count_live(Spot spot, int32_t by) {
        if (spot.branch < 0) return;
        Branch& branch = branches[spot.branch];
        if (spot.end == branch.n)
            *on_host(branch).live_end += by;
        else
            branch.nodes.hang_live(spot.end, by);
    }

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
        if (wanted > branch.room) move_data(branch, static_cast<int32_t>(wanted > more ? wanted : more), page_bytes, host);
    }

    char* room_for_branch(int64_t pages) {
        branches.room();
        table_.room();
        victims.room();
        if (host) host_victims.room();
        return static_cast<char*>(allocate(block_bytes(pages, page_bytes, host)));
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

    // A hit of what was resident already on the path to this spot, where it counts, and a priority that it has at least.
    void count_path(Spot spot, int64_t priority, bool counts, int64_t already) {
        while (spot.branch >= 0) {
            Branch& branch = branches[spot.branch];
            bool all = restored_counts || already >= int64_t{branch.base} + spot.end;
            if (counts) branch.nodes.count(0, all ? spot.end : static_cast<int32_t>(already - branch.base));
            branch.priority.raise_prefix(spot.end, priority, branch.n);
            spot = {branch.parent, branch.at};
        }
    }

    // The tips that a use has reached are worth something else now.  Without a host that is the last branch's: behind the
    // others something hangs.
    void offer_used(Spot spot) {
        if (spot.branch >= 0 && spot.end >= branches[spot.branch].dev) victims.offer(spot.branch);
        while (host && spot.branch >= 0) {
            if (spot.end >= branches[spot.branch].n) host_victims.offer(spot.branch);
            spot = {branches[spot.branch].parent, branches[spot.branch].at};
            if (spot.branch >= 0 && spot.end >= branches[spot.branch].dev) victims.offer(spot.branch);
        }
    }

    // -- coming and going -----------------------------------------------------------------------------------------

    // A new branch hangs here, still without pages; `data` has room for them.
    Spot hang(Spot spot, char* data, int32_t room, const char* first_page, bool live) {
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
        if (host) *on_host(branch).live_end = 0;
        if (host && live) count_live(spot, 1);
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

    // A branch goes on with these pages of a tier: a node of their own, with a hit or without.
    template <typename Pages>
    void append(Branch& branch, const char* units, Pages pages, int32_t count, int64_t priority, bool counts, Tier tier) {
        int32_t old = branch.n;
        std::memcpy(branch.data + old * page_bytes, units, count * page_bytes);
        int32_t* into = (tier == Tier::host ? on_host(branch).copies : pages_of(branch, page_bytes)) + old;
        for (int32_t k = 0; k < count; ++k) into[k] = static_cast<int32_t>(pages[k]);
        branch.n = old + count;
        Hung hung = {branch.kids_end, 0};
        if (host) {
            OnHost on = on_host(branch);
            if (tier != Tier::host) std::fill(on.copies + old, on.copies + branch.n, NO_COPY);
            on.set(old, branch.n, tier == Tier::host ? SETTLED | STORED : 0);
            hung.live = *on.live_end;
            *on.live_end = 0;
        }
        if (old) branch.nodes.add(old, hung);
        branch.kids_end = 0;
        branch.touched.grow(old, branch.n, clock);
        branch.created.grow(old, branch.n, clock);
        branch.priority.grow(old, branch.n, priority);
        if (counts) branch.nodes.count(old, branch.n);
        if (tier == Tier::host) return;
        branch.dev = branch.n;
        evictable += count;
    }

    // Take pages of the last node of a branch away, at most so many; returns how many.
    int64_t leave(int32_t number, int64_t most) {
        Branch& branch = branches[number];
        int64_t hi = branch.n, lo = branch.nodes.last_start();
        if (lo < hi - most) lo = hi - most;
        if (lo < branch.protected_pages()) lo = branch.protected_pages();
        if (told) told(context, false, Tier::device, {number, static_cast<int32_t>(lo), static_cast<int32_t>(hi)});
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
        if (branch.dev > end) branch.dev = end;
        Hung hung = branch.nodes.trim(end);
        branch.kids_end = hung.kids;
        if (host) *on_host(branch).live_end = hung.live;
        branch.touched.trim(end);
        branch.created.trim(end);
        branch.priority.trim(end);
        if (branch.shadow) shorter(branch.shadow, end);
        if (4 * int64_t{end} + 8 >= branch.room) return;
        try {
            move_data(branch, end, page_bytes, host);
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
        if (host) host_victims.drop(number);
        if (host && branch.dev) count_live(above, -1);
        branches.give_back(number);
        count_kid(above, -1);
        if (above.branch >= 0) {
            victims.offer(above.branch);
            if (host) host_victims.offer(above.branch);
        } else if (!root(above.branch).kids) {
            emptied.push(above.branch);
        }
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
    Array<uint32_t> passed_;  // of each branch, by its number: the last eviction under write-back that passed it over
    uint32_t evictions_ = 0;
};

}  // namespace kvlitmus

#include "tiers.h"
