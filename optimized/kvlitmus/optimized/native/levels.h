// Levels: numbers that differ along a branch, in a few pieces (kvlitmus.optimized.levels says it all).
//
// A level is one number, where it is the same along the whole branch; else pieces, the one at the tip first and the one
// at the root last.  Each piece reaches down to the end of the next.
//
// Nodes are where the nodes of a branch begin, with the counts that make hits: the hits of node i are the sum of the
// counts from i on.  Beside them stands how many branches hang where a node begins (nothing hangs elsewhere), and, in a
// tree with a host, how many of these have resident pages: they are live.
#pragma once

#include "memory.h"

namespace kvlitmus {

struct Piece {
    int64_t value;
    int32_t end;
};

class Level {
  public:
    int64_t one = 0;  // where there are no pieces

    bool pieced() const { return pieces_ && !pieces_->empty(); }
    const Array<Piece>& pieces() const { return *pieces_; }

    int64_t at(int32_t position) const {
        if (!pieced()) return one;
        const Array<Piece>& all = *pieces_;
        size_t low = 0, high = all.size() - 1;
        if (all[1].end <= position) return all[0].value;  // in the piece at the tip, as it mostly is
        while (low < high) {
            size_t middle = (low + high + 1) / 2;
            if (all[middle].end > position)
                low = middle;
            else
                high = middle - 1;
        }
        return all[low].value;
    }

    int64_t at_root() const { return pieced() ? pieces_->back().value : one; }

    // Room for so many pieces more: each of the changes below may need one.
    void room(size_t more = 1) { pieces_.reserve((pieced() ? pieces_->size() : 1) + more); }

    void set(int64_t value) {
        if (pieced()) pieces_->clear();
        one = value;
    }

    // Of n positions those before `end` have this value now.
    void set_prefix(int32_t end, int64_t value, int32_t n) {
        if (end >= n) return set(value);
        if (!pieced()) {
            pieces_->push({one, n});
        } else {
            while (pieces_->back().end <= end) pieces_->pop();
        }
        pieces_->push({value, end});
    }

    // Of n positions those before `end` have at least this value now; from root to tip values never rise.
    void raise_prefix(int32_t end, int64_t value, int32_t n) {
        if (!pieced()) {
            if (one >= value) return;
            if (end >= n) {
                one = value;
                return;
            }
            pieces_->push({one, n});
            pieces_->push({value, end});
            return;
        }
        Array<Piece>& all = *pieces_;
        size_t high = 0, low = 0;
        while (high < all.size() && all[high].value < value) ++high;
        if (high < all.size() && all[high].end >= end) return;
        while (low < high && all[low].end > end) ++low;
        if (high < all.size() && all[high].value == value) ++high;
        if (low == high) {
            all.insert(low, {value, end});
        } else {
            all[low] = {value, end};
            all.erase(low + 1, high - low - 1);
        }
        settle();
    }

    // Of n positions those from `start` on and before `end` have this value now.  There is room for two pieces more.
    void set_range(int32_t start, int32_t end, int64_t value, int32_t n) {
        if (!start) return set_prefix(end, value, n);
        int64_t before = at(start - 1);
        if (!pieced()) pieces_->push({one, n});
        Array<Piece>& all = *pieces_;
        size_t tipwards = 0;
        while (tipwards < all.size() && all[tipwards].end > end) ++tipwards;
        size_t rootwards = tipwards;
        while (rootwards < all.size() && all[rootwards].end >= start) ++rootwards;
        all.erase(tipwards, rootwards - tipwards);
        all.insert(tipwards, {before, start});
        all.insert(tipwards, {value, end});
    }

    // The branch goes on from `old` to n, with this value.
    void grow(int32_t old, int32_t n, int64_t value) {
        if (!pieced()) {
            if (!old || one == value) {
                one = value;
                return;
            }
            pieces_->push({value, n});
            pieces_->push({one, old});
        } else if ((*pieces_)[0].value == value) {
            (*pieces_)[0].end = n;
        } else {
            pieces_->insert(0, {value, n});
        }
    }

    // The branch ends at n now: pieces that begin behind are no more.
    void trim(int32_t n) {
        if (!pieced()) return;
        Array<Piece>& all = *pieces_;
        size_t gone = 0;
        while (gone + 1 < all.size() && all[gone + 1].end >= n) ++gone;
        all.erase(0, gone);
        all[0].end = n;
        settle();
    }

    // Forget everything, and give memory back.
    void drop() {
        pieces_.drop();
        one = 0;
    }

  private:
    void settle() {
        if (pieces_->size() == 1) set((*pieces_)[0].value);
    }

    Rare<Piece> pieces_;
};

struct Node {
    int32_t start;
    int32_t kids;  // how many branches hang where it begins
    int32_t live;  // and how many of them are live
    int64_t count;
};

// How many branches hang somewhere, and how many of them are live.
struct Hung {
    int32_t kids, live;
};

class Nodes {
  public:
    int64_t hits = 0;  // where there is one node only

    bool many() const { return nodes_ && !nodes_->empty(); }
    const Array<Node>& all() const { return *nodes_; }

    // Room for one node more.
    void room() { nodes_.reserve(many() ? nodes_->size() + 1 : 2); }

    // The first node that begins at this position or behind it.
    size_t from(int32_t position) const {
        const Array<Node>& all = *nodes_;
        size_t low = 0, high = all.size();
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (all[middle].start < position)
                low = middle + 1;
            else
                high = middle;
        }
        return low;
    }

    bool begins(int32_t position) const {
        if (!many()) return position == 0;
        size_t at = from(position);
        return at < nodes_->size() && (*nodes_)[at].start == position;
    }

    // A node begins here, if none does: both halves have the hits that the whole had.  There is room.
    void cut(int32_t position) {
        open();
        size_t at = from(position);
        if (at < nodes_->size() && (*nodes_)[at].start == position) return;
        Node& before = (*nodes_)[at - 1];
        int64_t count = before.count;
        before.count = 0;
        nodes_->insert(at, {position, 0, 0, count});
    }

    // The branch goes on from `start` with a new node, without hits, at whose beginning so many branches hang.
    void add(int32_t start, Hung hung) {
        open();
        nodes_->push({start, hung.kids, hung.live, 0});
    }

    // The branch ends at n now; returns how many branches hang there.
    Hung trim(int32_t n) {
        Hung hung = {0, 0};
        if (!many()) return hung;
        while (nodes_->size() > 1 && nodes_->back().start >= n) {
            Node last = nodes_->pop();
            nodes_->back().count += last.count;
            hung = last.start == n ? Hung{last.kids, last.live} : Hung{0, 0};
        }
        return hung;
    }

    int32_t last_start() const { return many() ? nodes_->back().start : 0; }

    // Where the node begins that a page is in, and where the next one does (or `n`, where there is none).
    int32_t start_of(int32_t position) const { return many() ? (*nodes_)[from(position + 1) - 1].start : 0; }
    int32_t start_behind(int32_t position, int32_t n) const {
        size_t at = many() ? from(position + 1) : 0;
        return many() && at < nodes_->size() ? (*nodes_)[at].start : n;
    }

    int64_t hits_at(int32_t position) const {
        if (!many()) return hits;
        int64_t sum = 0;
        for (size_t at = from(position + 1) - 1; at < nodes_->size(); ++at) sum += (*nodes_)[at].count;
        return sum;
    }

    // One hit more from `start` on and before `end`, where nodes begin or the branch ends.
    void count(int32_t start, int32_t end) {
        if (start >= end) return;
        if (!many()) {
            ++hits;
            return;
        }
        (*nodes_)[from(end) - 1].count += 1;
        if (start) (*nodes_)[from(start) - 1].count -= 1;
    }

    // One branch more or fewer hangs at this position, where a node begins.
    void hang(int32_t position, int32_t by) { (*nodes_)[from(position)].kids += by; }

    // The same of live ones.
    void hang_live(int32_t position, int32_t by) { (*nodes_)[from(position)].live += by; }

    Hung hung_at(int32_t position) const {
        if (!many()) return {0, 0};
        size_t at = from(position);
        if (at == nodes_->size() || (*nodes_)[at].start != position) return {0, 0};
        return {(*nodes_)[at].kids, (*nodes_)[at].live};
    }

    // What hangs where nodes begin behind this position.
    Hung hung_behind(int32_t position) const {
        Hung sum = {0, 0};
        if (!many()) return sum;
        for (size_t at = from(position + 1); at < nodes_->size(); ++at) {
            sum.kids += (*nodes_)[at].kids;
            sum.live += (*nodes_)[at].live;
        }
        return sum;
    }

    void drop() {
        nodes_.drop();
        hits = 0;
    }

  private:
    void open() {
        if (nodes_->empty()) nodes_->push({0, 0, 0, hits});
    }

    Rare<Node> nodes_;
};

}  // namespace kvlitmus
