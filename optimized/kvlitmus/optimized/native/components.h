// The tree of a cache of components: several kinds of state for one prefix, each in a pool (docs/components.md).
//
// Rules of upkeep:
//
// - `room_...`, `look` and `claim` alone may fail, with nothing changed but what a Claim undoes; the rest can't.
// - `cells_` has the cells of one path, from the root on: of whoever has called `trace` last.
// - A heap has every entry of its component that may go, at what it was worth when it was put or less (under mru: at
//   what it is worth); one that may not go, or is worth more, is seen to when it comes up.
#pragma once

#include <memory>

#include "tracks.h"

namespace kvlitmus {

class Components {
  public:
    const Layout layout;
    const size_t page_bytes;
    int64_t clock = 0;
    int64_t held[MOST_TRACKS] = {}, guarded[MOST_TRACKS] = {};  // entries, and those that are needed
    Array<int32_t> emptied;                                      // roots that may have nothing, for whoever names them

    explicit Components(const Layout& of) : layout(of), page_bytes(of.page_size * sizeof(int64_t)), secret_(secret()) {
        for (int tier = 0; tier < of.tiers; ++tier)
            for (int at = 0; at < of.pools; ++at) pools_[tier][at].reset(new Pool(of.places[tier][at], 1, 0));
        told_.reserve(1);
    }
    ~Components() {
        forget_work();
        std::free(spare_);
    }

    Pool& pool(int tier, int number) const { return *pools_[tier][number]; }
    Pool& pool_of(int track) const { return pool(layout.tier_of(track), pool_number(layout.component_of(track))); }
    const Array<Entry>& entries() const { return entries_; }
    const Array<Told>& told() const { return told_; }
    const Array<Brought>& brought() const { return brought_; }

    // -- roots and paths ---------------------------------------------------------------------------------------------

    TrackedRoot& root(int32_t number) { return roots_[-1 - static_cast<int64_t>(number)]; }
    int32_t roots() const { return static_cast<int32_t>(roots_.size()); }

    // The root of a new namespace; throws std::bad_alloc.
    int32_t new_root(void* name) {
        if (free_roots_.empty()) {
            roots_.reserve(roots_.size() + 1);
            free_roots_.reserve(roots_.size() + 1);
            emptied.reserve(roots_.size() + 1);
            roots_.push({0, false, nullptr});
            free_roots_.push(-static_cast<int32_t>(roots_.size()));
        }
        int32_t number = free_roots_.pop();
        root(number) = {0, true, name};
        emptied.push(number);  // until something hangs there
        return number;
    }

    void drop_root(int32_t number) {
        root(number) = {0, false, nullptr};
        free_roots_.push(number);
    }

    int64_t depth(Spot spot) const { return spot.branch < 0 ? 0 : int64_t{branches_[spot.branch].base} + spot.end; }

    // The root of a path.
    int32_t root_of(int32_t branch) const {
        while (branch >= 0) branch = branches_[branch].parent;
        return branch;
    }

    // The units of a prefix, which are many.
    void spell(Spot spot, char* into) const {
        for (; spot.branch >= 0; spot = {branches_[spot.branch].parent, branches_[spot.branch].at}) {
            const TrackedBranch& branch = branches_[spot.branch];
            std::memcpy(into + branch.base * page_bytes, branch.data, spot.end * page_bytes);
        }
    }

    // -- looking -----------------------------------------------------------------------------------------------------

    // Have the cells of the known part of a path at hand; throws std::bad_alloc.
    Spot look(Spot from, const char* units, int64_t pages) {
        Spot spot = find(from, units, pages);
        cells_.reserve(depth(spot));
        trace(spot);
        return spot;
    }

    // The entry of a track that ends there on the path at hand, or NO_ENTRY.
    int32_t at(int track, int64_t end) const {
        auto cell = static_cast<size_t>(end / layout.page_size - 1);
        return cell < cells_.size() ? cells_[cell][ENTRIES + track] : NO_ENTRY;
    }

    // Whether there is one of a component, on the device or on one of so many tiers.
    bool there(int component, int64_t end, int tiers = 1) const {
        return at(component, end) != NO_ENTRY || (tiers > 1 && at(layout.track(HOST, component), end) != NO_ENTRY);
    }

    // The largest boundary of a key of so many units that is valid for all components, on the path at hand, by what is on
    // the device or on so many tiers together.
    int64_t longest(int64_t length, int tiers = 1) const {
        for (int k = 0; k < layout.components; ++k) {
            if (!layout.of[k].is_run()) continue;
            int64_t unit = layout.of[k].unit, end = 0;
            while (end + unit <= length && there(k, end + unit, tiers)) end += unit;
            length = end;
        }
        int64_t boundary = length - length % layout.step;
        for (int k = 0; boundary && k < layout.components;) {
            int64_t lower = layout.of[k].is_run() ? boundary : without_holes(k, boundary, tiers);
            k = lower == boundary ? k + 1 : 0;
            boundary = lower;
        }
        return boundary;
    }

    // Whether all that a boundary needs is there.
    bool valid(int64_t boundary) const {
        for (int k = 0; k < layout.components; ++k) {
            Ends ends = layout.needed(k, boundary);
            for (int64_t end = ends.first; end <= ends.last; end += ends.unit)
                if (at(k, end) == NO_ENTRY) return false;
        }
        return true;
    }

    // -- match -------------------------------------------------------------------------------------------------------

    void tick() { ++clock; }

    // The entries of a component that a valid boundary needs are used.
    void use(int component, int64_t boundary, int32_t* places) {
        Ends ends = layout.needed(component, boundary);
        for (int64_t end = ends.first; end <= ends.last; end += ends.unit) {
            int32_t number = at(component, end);
            entries_[number].touched = clock;
            *places++ = entries_[number].place;
            if (layout.policy == Policy::mru) offer(number);
        }
    }

    // -- places of the caller ----------------------------------------------------------------------------------------

    // Whether so many entries of each component can be granted on a tier.
    bool fits(const int64_t* wants, int tier = DEVICE) const {
        for (int at = 0; at < layout.pools; ++at) {
            int64_t left = pool(tier, at).free_count();
            for (int k = 0; k < layout.components; ++k) {
                if (layout.of[k].pool != at) continue;
                if (wants[k] > left) return false;
                left -= wants[k];
            }
        }
        return true;
    }

    // How many entries of each component are to be evicted for so many on a tier: as many where a pool has too little.
    void short_pools(int tier, const int64_t* wants, int64_t* evicted) const {
        int64_t total[MOST_COMPONENTS] = {};
        for (int k = 0; k < layout.components; ++k) total[pool_number(k)] += wants[k];
        for (int k = 0; k < layout.components; ++k)
            evicted[k] = total[pool_number(k)] > pool(tier, pool_number(k)).free_count() ? wants[k] : 0;
    }

    // Room for so many entries that are handed over; throws std::bad_alloc.
    void room_for_brought(int64_t count) {
        brought_.reserve(count);
        brought_.clear();
    }
    void bring(int component, int64_t end, int64_t place) { brought_.push({component, end, place, false}); }

    // What is brought is the caller's no more; FINE, or which of it was not, and then nothing has changed.
    int64_t claim() {
        for (size_t k = 0; k < brought_.size(); ++k)
            if (pool_of(brought_[k].component).hand_over(&brought_[k].place, 1, USED, CACHED) != FINE) {
                unclaim(k);
                return static_cast<int64_t>(k);
            }
        return FINE;
    }

    // It is the caller's again, up to here.
    void unclaim(size_t count) {
        for (size_t k = 0; k < count; ++k)
            pool_of(brought_[k].component).hand_over(&brought_[k].place, 1, CACHED, USED);
    }

    // What was claimed is free.
    void free_brought() {
        for (const Brought& one : brought_) pool_of(one.component).take_back(&one.place, 1, CACHED);
    }

    // -- insert ------------------------------------------------------------------------------------------------------

    // Memory for caching what is brought and missing, behind a spot on a path of so many pages in all, whose cells are at
    // hand; throws std::bad_alloc.  How many entries of each component are there already, or brought a second time.
    void room_to_fill(Spot spot, int64_t pages, int64_t* left) {
        int64_t more[MOST_TRACKS] = {}, all = 0;
        for (Brought& one : brought_) {
            one.missing = at(one.component, one.end) == NO_ENTRY;
            one.missing ? ++more[one.component] : ++left[one.component];
            all += one.missing;
        }
        room_for_entries(more, all);
        int64_t fresh = pages - depth(spot);
        if (fresh <= 0) return;
        cells_.reserve(pages);
        if (spot.branch >= 0 && spot.end == branches_[spot.branch].n) {
            room_to_grow(branches_[spot.branch], spot.end + fresh);
            trace(spot);
        } else {
            branches_.room();
            table_.room();
            room_to_grow(branches_[branches_.next()], fresh);  // which stays there if nobody is born
        }
    }

    // The path of a key goes on up to so many pages; where it ends.  The units are those behind so many pages.
    Spot extend(Spot spot, const char* units, int64_t pages, int64_t behind = 0) {
        int64_t known = depth(spot), fresh = pages - known;
        if (fresh <= 0) return spot;
        units += (known - behind) * page_bytes;
        bool grows = spot.branch >= 0 && spot.end == branches_[spot.branch].n;
        int32_t number = grows ? spot.branch : hang(spot, units);
        TrackedBranch& branch = branches_[number];
        std::memcpy(branch.data + branch.n * page_bytes, units, fresh * page_bytes);
        for (int32_t at = branch.n; at < branch.n + fresh; ++at) {
            int32_t* cell = cell_of(branch, at);
            cell[HUNG] = cell[BEHIND] = 0;
            std::fill_n(cell + ENTRIES, layout.tracks(), NO_ENTRY);
            if (layout.tiers > 1) cell[behind_on(HOST)] = 0;
        }
        branch.n += static_cast<int32_t>(fresh);
        spot = {number, branch.n};
        trace(spot);
        return spot;
    }

    // What is missing of what is brought is cached; the rest is counted as used, and stays the caller's.
    void fill(Spot spot, int32_t* const* left) {
        int32_t* next[MOST_COMPONENTS];
        std::copy(left, left + layout.components, next);
        for (const Brought& one : brought_) {
            if (one.missing) continue;
            ++entries_[at(one.component, one.end)].hits;
            *next[one.component]++ = static_cast<int32_t>(one.place);
            pool_of(one.component).hand_over(&one.place, 1, CACHED, USED);
        }
        for (const Brought& one : brought_)
            if (one.missing) store(spot, one, 1);
    }

    // -- locks -------------------------------------------------------------------------------------------------------

    void room_to_lock() { receipts_.reserve(receipts_.size() + 1); }
    int64_t next_receipt() const { return receipt_; }

    // Protect what a valid boundary needs, on the path at hand.
    void lock(Spot spot, int64_t boundary) {
        pin(boundary, 1);
        receipts_.push({receipt_++, boundary ? spot : Spot{NOWHERE, 0}, boundary});
    }

    // Whether this receipt was out.
    bool unlock(int64_t number) {
        auto* found = std::lower_bound(receipts_.begin(), receipts_.end(), number,
                                       [](const Receipt& one, int64_t wanted) { return one.number < wanted; });
        if (found == receipts_.end() || found->number != number) return false;
        trace(found->spot);  // as many cells as when it was locked
        pin(found->boundary, -1);
        receipts_.erase(found - receipts_.begin());
        return true;
    }

    // -- evict -------------------------------------------------------------------------------------------------------

    // Memory for telling of an eviction; throws std::bad_alloc.
    void room_to_evict(int tier, const int64_t* wants) {
        if (!layout.told) return;
        int64_t all = 0, most = 0;
        for (int k = 0; k < layout.components; ++k) {
            int64_t there = held[layout.track(tier, k)];
            all += there;
            most += layout.components * (wants[k] < there ? wants[k] : there);
        }
        told_.reserve(told_.size() + (most < all ? most : all));
    }

    // Free so many entries of each component on a tier, or as many as may go.
    void evict(int tier, const int64_t* wants, int64_t* freed) {
        for (int k = 0; k < layout.components; ++k)
            while (freed[k] < wants[k]) {
                int32_t victim = best(layout.track(tier, k));
                if (victim == NO_ENTRY) break;
                take_along(victim, freed);
            }
    }

    // -- prefetches (fetches.h) --------------------------------------------------------------------------------------

    int64_t next_fetch() const { return fetch_; }
    Fetch* fetch_of(int64_t number);
    int64_t least(int64_t threshold) const { return std::max(threshold, layout.step); }
    bool has_base(int64_t boundary) const;
    void room_to_fetch(int64_t length);
    void short_of(int64_t length, int64_t* wants) const;
    bool fetch(Spot anchor, int64_t start, const char* units, int64_t length, int64_t threshold, const int64_t* evicted,
               int64_t* freed);
    template <typename At>
    void mark(const Fetch& one, const int64_t* counts, At at);
    int64_t restored(const Fetch& one) const;
    Ends reads(const Fetch& one, int component, int64_t boundary) const {
        return one.taken[component] ? read_for(component, one.start, boundary) : Ends{1, 0, 1};
    }
    void read_up_to(Fetch& one, int64_t boundary);
    int64_t committed(const Fetch& one) const;
    Spot bring_fetched(Fetch& one, int64_t end, int64_t* left);
    void fill_fetched(Fetch& one, Spot spot);
    int64_t written(const Fetch& one, int component) const;
    void end_fetch(Fetch& one, int32_t* const* returned);
    void settle(Fetch& one, int32_t* const* returned);

    // -- copies between the tiers (component_copies.h) ---------------------------------------------------------------

    int64_t next_copy() const { return copy_; }
    ComponentCopy* copy_of(int64_t number);
    const ComponentCopy& last_copy() const { return copies_.back(); }
    int64_t lacking(int tier, int component, int64_t boundary, int64_t* into = nullptr) const;
    void room_to_copy(int64_t boundary, const int64_t* wants);
    bool begin_copy(int tier, int64_t boundary, const int64_t* wants, const int64_t* evicted, int64_t* freed);
    void room_to_land(const ComponentCopy& one, bool fine, int64_t* left);
    void end_copy(ComponentCopy& one, bool fine, int32_t* const* returned);

    // -- reset, and telling ------------------------------------------------------------------------------------------

    void reset() {
        for (size_t at = 0; at < branches_.made(); ++at)
            if (branches_[at].n) {
                table_.remove(branches_[at].tag, static_cast<int32_t>(at));
                branches_.give_back(static_cast<int32_t>(at));
            }
        for (int32_t number = 1; number <= roots(); ++number) {
            root(-number).hung = 0;
            if (root(-number).name) list(-number);
        }
        for (int track = 0; track < layout.tracks(); ++track) {
            heaps_[track].clear();
            held[track] = guarded[track] = 0;
        }
        for (int tier = 0; tier < layout.tiers; ++tier)
            for (int at = 0; at < layout.pools; ++at) pool(tier, at).reset();
        entries_.clear();
        free_entries_.clear();
        receipts_.clear();
        forget_work();
        told_.clear();  // nobody need know of what is forgotten
        if (layout.told) told_.push({NOWHERE, 0, EVERYTHING, false});
    }

    // What was to be told has been.
    void forget_told() {
        for (const Told& one : told_)
            if (one.branch >= 0 && !one.stored) tidy(one.branch);
        told_.clear();
    }

  private:
    int pool_number(int component) const { return static_cast<int>(layout.of[component].pool); }
    int behind_on(int tier) const { return tier == HOST ? ENTRIES + layout.tracks() : BEHIND; }
    int cell_size() const { return behind_on(HOST) + layout.tiers - 1; }
    int32_t* cell_of(const TrackedBranch& branch, int32_t at) const {
        return reinterpret_cast<int32_t*>(branch.data + branch.room * page_bytes) + int64_t{at} * cell_size();
    }

    Spot find(Spot spot, const char* units, int64_t pages) {
        while (pages && spot.branch != NOWHERE) {
            int32_t hung = spot.branch < 0 ? root(spot.branch).hung : 0;
            if (spot.branch >= 0) {
                const TrackedBranch& branch = branches_[spot.branch];
                int64_t most = branch.n - spot.end < pages ? branch.n - spot.end : pages;
                auto same = static_cast<int32_t>(common(branch.data + spot.end * page_bytes, units, most, page_bytes));
                spot.end += same;
                units += same * page_bytes;
                pages -= same;
                hung = cell_of(branch, spot.end - 1)[HUNG];
            }
            int32_t child = pages && hung ? child_of(spot, units) : PageTable::NOBODY;
            if (child == PageTable::NOBODY) break;
            spot = {child, 1};
            units += page_bytes;
            --pages;
        }
        return spot;
    }

    int32_t child_of(Spot spot, const char* page) const {
        return table_.find(tag_of(spot.branch, spot.end, page, page_bytes, secret_), [&](int32_t number) {
            const TrackedBranch& one = branches_[number];
            return one.parent == spot.branch && one.at == spot.end && !std::memcmp(one.data, page, page_bytes);
        });
    }

    // The cells of the path to a spot, for which there is room.
    void trace(Spot spot) {
        cells_.resize(depth(spot));
        for (; spot.branch >= 0; spot = {branches_[spot.branch].parent, branches_[spot.branch].at}) {
            const TrackedBranch& branch = branches_[spot.branch];
            for (int32_t at = 0; at < spot.end; ++at) cells_[branch.base + at] = cell_of(branch, at);
        }
    }

    // The largest boundary up to this one at which nothing of a component is missing.
    int64_t without_holes(int component, int64_t boundary, int tiers) const {
        while (boundary) {
            if (layout.never(component, boundary)) return 0;
            Ends ends = layout.needed(component, boundary);
            int64_t end = ends.last;
            while (end >= ends.first && there(component, end, tiers)) end -= ends.unit;
            if (end < ends.first) return boundary;
            boundary = (end - 1) / layout.step * layout.step;  // whatever is longer, and needs less, needs this
        }
        return 0;
    }

    // -- upkeep ------------------------------------------------------------------------------------------------------

    void room_to_grow(TrackedBranch& branch, int64_t pages) {
        if (pages <= branch.room) return;
        int64_t more = branch.room + branch.room / 4;
        TrackedBranch moved;
        moved.room = static_cast<int32_t>(pages < more ? more : pages);
        moved.data = static_cast<char*>(allocate(moved.room * (page_bytes + cell_size() * sizeof(int32_t))));
        if (branch.n) {
            std::memcpy(moved.data, branch.data, branch.n * page_bytes);
            std::memcpy(cell_of(moved, 0), cell_of(branch, 0), branch.n * cell_size() * sizeof(int32_t));
        }
        std::free(branch.data);
        branch.data = moved.data;
        branch.room = moved.room;
    }

    // A new branch, without pages yet, whose memory is there.
    int32_t hang(Spot spot, const char* page) {
        int32_t number = branches_.take();
        TrackedBranch& branch = branches_[number];
        branch.parent = spot.branch;
        branch.at = spot.end;
        branch.base = static_cast<int32_t>(depth(spot));
        branch.tag = tag_of(spot.branch, spot.end, page, page_bytes, secret_);
        table_.put(branch.tag, number);
        ++hung_at(branch);
        return number;
    }

    int32_t& hung_at(const TrackedBranch& branch) {
        return branch.parent < 0 ? root(branch.parent).hung : cell_of(branches_[branch.parent], branch.at - 1)[HUNG];
    }

    void list(int32_t number) {
        if (root(number).listed) return;
        root(number).listed = true;
        emptied.push(number);
    }

    // Pages at the tip that have nothing go, and a branch that has none.
    void tidy(int32_t number) {
        while (number >= 0 && branches_[number].n) {
            TrackedBranch& branch = branches_[number];
            while (branch.n && is_empty(cell_of(branch, branch.n - 1))) --branch.n;
            if (branch.n) return;
            int32_t parent = branch.parent;
            if (!--hung_at(branch) && parent < 0) list(parent);
            table_.remove(branch.tag, number);
            branches_.give_back(number);
            number = parent;
        }
    }

    bool is_empty(const int32_t* cell) const {
        for (int track = 0; track < layout.tracks(); ++track)
            if (cell[ENTRIES + track] != NO_ENTRY) return false;
        return !cell[HUNG];
    }

    // The cell of the page before that of an entry; nullptr where the root is.
    int32_t* before(const Entry& entry) const {
        const TrackedBranch& branch = branches_[entry.branch];
        if (entry.at) return cell_of(branch, entry.at - 1);
        return branch.parent < 0 ? nullptr : cell_of(branches_[branch.parent], branch.at - 1);
    }

    // Memory for so many entries more of each track; throws std::bad_alloc.
    void room_for_entries(const int64_t* more, int64_t all) {
        entries_.reserve(entries_.size() + all);
        free_entries_.reserve(entries_.size() + all);
        if (layout.told) told_.reserve(told_.size() + all);
        for (int track = 0; track < layout.tracks(); ++track)
            if (more[track]) heaps_[track].room(held[track] + more[track], entries_.size() + all);
    }

    // Cache what is brought on the path at hand, which ends at a spot.
    void store(Spot spot, const Brought& one, int64_t hits) {
        auto page = static_cast<int32_t>(one.end / layout.page_size);
        while (page <= branches_[spot.branch].base) spot = {branches_[spot.branch].parent, branches_[spot.branch].at};
        int32_t at = page - branches_[spot.branch].base - 1;
        add({clock, clock, hits, static_cast<int32_t>(one.place), spot.branch, at, 0, one.component});
    }

    // An entry is cached, for which there is room.
    void add(const Entry& entry) {
        int32_t number;
        if (free_entries_.empty()) {
            number = static_cast<int32_t>(entries_.size());
            entries_.resize(number + 1);
        } else {
            number = free_entries_.pop();
        }
        entries_[number] = entry;
        cell_of(branches_[entry.branch], entry.at)[ENTRIES + entry.track] = number;
        ++held[entry.track];
        if (int32_t* above = is_base(entry) ? before(entry) : nullptr) ++above[behind_of(entry)];
        if (layout.told) told_.push({entry.branch, entry.at + 1, entry.track, true});
        offer(number);
    }

    // The entry of the same prefix on the other tier, or NO_ENTRY.
    int32_t beside(const Entry& entry) const {
        return cell_of(branches_[entry.branch], entry.at)[ENTRIES + layout.other(entry.track)];
    }

    bool is_base(const Entry& entry) const { return layout.component_of(entry.track) == BASE; }
    int behind_of(const Entry& entry) const { return behind_on(layout.tier_of(entry.track)); }

    // An entry goes, and its place is free.
    void remove(int32_t number) {
        Entry& entry = entries_[number];
        int track = entry.track;
        cell_of(branches_[entry.branch], entry.at)[ENTRIES + track] = NO_ENTRY;
        heaps_[track].drop(number);
        --held[track];
        int32_t* above = is_base(entry) ? before(entry) : nullptr;
        if (above && !--above[behind_of(entry)] && above[ENTRIES + track] != NO_ENTRY) offer(above[ENTRIES + track]);
        pool_of(track).take_back(&entry.place, 1, CACHED);
        if (layout.told) told_.push({entry.branch, entry.at + 1, track, false});
        int32_t branch = entry.branch;
        entry.branch = NOWHERE;
        free_entries_.push(number);
        if (!layout.told) tidy(branch);
    }

    // -- worth -------------------------------------------------------------------------------------------------------

    // Whether an entry may go: nobody needs it, and no KV goes on from it.
    bool loose(int32_t number) const {
        const Entry& entry = entries_[number];
        return !entry.pins && (!is_base(entry) || !cell_of(branches_[entry.branch], entry.at)[behind_of(entry)]);
    }

    // Of entries that are worth the same, which one call has used, the last of their path goes first.
    Worth worth_of(int32_t number) const {
        const Entry& entry = entries_[number];
        Worth now = worth(layout.policy, EntryUse{entry});
        now.third = -(branches_[entry.branch].base + entry.at);
        return now;
    }

    void offer(int32_t number) {
        if (loose(number)) heaps_[entries_[number].track].put(number, worth_of(number));
    }

    // The entry of a track that goes first, or NO_ENTRY.
    int32_t best(int track) {
        Heap& heap = heaps_[track];
        while (!heap.empty()) {
            int32_t number = heap.first();
            if (!loose(number)) {
                heap.drop(number);
                continue;
            }
            Worth now = worth_of(number);
            if (!(now != heap.first_worth())) return number;
            heap.put(number, now);
        }
        return NO_ENTRY;
    }

    // An entry goes, and what goes with it.
    void take_along(int32_t victim, int64_t* freed) {
        const Entry entry = entries_[victim];
        int32_t beside[MOST_COMPONENTS];
        int own = layout.component_of(entry.track), first = entry.track - own;
        std::copy_n(cell_of(branches_[entry.branch], entry.at) + ENTRIES + first, layout.components, beside);
        bool whole_leaves = layout.cascade == Cascade::leaf || layout.cascade == Cascade::later;
        bool all = layout.cascade != Cascade::none && own == BASE;
        if (whole_leaves && !all) all = beside[BASE] != NO_ENTRY && loose(beside[BASE]);
        for (int k = 0; k < layout.components; ++k) {
            bool along = all || k == own || (layout.cascade == Cascade::later && k > own);
            if (!along || beside[k] == NO_ENTRY || entries_[beside[k]].pins) continue;
            remove(beside[k]);
            ++freed[k];
        }
    }

    Ends read_for(int component, int64_t start, int64_t boundary) const;
    int64_t asked(int component, int64_t length) const;
    int64_t granted(int64_t length, int64_t least) const;
    bool marked(const Fetch& one, int component, int64_t end) const;
    bool all_marked(const Fetch& one, int component, Ends ends) const;
    void forget(Fetch& one);

    // The KV of a prefix is needed by so many more, on the path at hand.
    void pin_base(int64_t boundary, int32_t by) {
        for (int64_t end = layout.page_size; end <= boundary; end += layout.page_size) pin_entry(at(BASE, end), by);
    }

    // What a boundary needs is needed by so many more, on the path at hand.
    void pin(int64_t boundary, int32_t by) {
        for (int k = 0; k < layout.components; ++k) {
            Ends ends = layout.needed(k, boundary);
            for (int64_t end = ends.first; end <= ends.last; end += ends.unit) pin_entry(at(k, end), by);
        }
    }

    void pin_entry(int32_t number, int32_t by) {
        Entry& entry = entries_[number];
        bool was = entry.pins;
        entry.pins += by;
        if (was == (entry.pins != 0)) return;
        guarded[entry.track] += by;
        offer(number);
    }

    // Nothing is under way any more.
    void forget_work() {
        for (Fetch& one : fetches_) std::free(one.data);
        for (ComponentCopy& one : copies_) std::free(one.places);
        fetches_.clear();
        copies_.clear();
    }

    std::unique_ptr<Pool> pools_[TIERS][MOST_COMPONENTS];
    BranchesOf<TrackedBranch> branches_;
    PageTable table_;
    Array<TrackedRoot> roots_;
    Array<int32_t> free_roots_;
    Array<Entry> entries_;
    Array<int32_t> free_entries_;
    Heap heaps_[MOST_TRACKS];
    Array<int32_t*> cells_;
    Array<Brought> brought_;
    Array<Receipt> receipts_;  // by their numbers
    Array<Told> told_;
    Array<Fetch> fetches_;
    Array<ComponentCopy> copies_;
    Array<uint8_t> marks_;   // of each component and page behind the start of a prefetch: whether it is there
    char* spare_ = nullptr;  // memory for the next one, or for a copy
    int64_t receipt_ = 0, fetch_ = 0, copy_ = 0;
    const Secret& secret_;
};

}  // namespace kvlitmus
