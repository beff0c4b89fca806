// Victims: which branch gives the next page (kvlitmus.optimized.evict).
//
// A heap of the branches whose tips could go from a tier, the least worth first.  A branch whose tip can't go may be in it at any
// worth; it is dropped when it comes up.
#pragma once

#include "branch.h"
#include "heap.h"

namespace kvlitmus {

// Whose victims these are: the device's where there is no host, or where there is one, or the host's.
enum class Tier { only, device, host };

// What the policies ask of a page of a branch.
struct BranchPage {
    const Branch& branch;
    int32_t position;

    int64_t touched() const { return branch.touched.at(position); }
    int64_t created() const { return branch.created.at(position); }
    int64_t priority() const { return branch.priority.at(position); }
    int64_t hits() const { return branch.nodes.hits_at(position); }
};

class Victims {
  public:
    Victims(Policy policy, Branches& branches, Tier tier, size_t page_bytes)
        : policy_(policy), tier_(tier), page_bytes_(page_bytes), branches_(branches) {}

    size_t size() const { return heap_.size(); }
    const Array<Heap::Entry>& entries() const { return heap_.entries(); }

    // Room for all branches and one more; throws std::bad_alloc.
    void room() { heap_.room(branches_.in_use() + 1, branches_.made() + 1); }

    // Where in the heap this branch is.
    int32_t where(int32_t number) const { return heap_.where(number); }

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
        if (position >= 0) heap_.put(number, worth(policy_, BranchPage{branch, position}));
    }

    // The branch whose tip goes first, or -1 where nothing can.
    int32_t best() {
        while (!heap_.empty()) {
            int32_t number = heap_.first();
            if (tip(branches_[number]) >= 0) return number;
            drop(number);
        }
        return -1;
    }

    // This branch gives nothing until it is offered again.
    void drop(int32_t number) { heap_.drop(number); }

  private:
    Policy policy_;
    Tier tier_;
    size_t page_bytes_;
    Branches& branches_;
    Heap heap_;
};

}  // namespace kvlitmus
