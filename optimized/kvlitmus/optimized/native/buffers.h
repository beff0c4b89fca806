// The buffers on the device that sparse rows decode from: which token each place holds, in the exact order of use.
//
// All memory is taken at the beginning: nothing here fails.  A swap has two steps, so that a caller can make room for
// the answers in between: `wanted` looks, `swap` does it.
#pragma once

#include "memory.h"

namespace kvlitmus {

class Buffers {
  public:
    const int64_t room;

    // So many rows, buffers of `room` places, sequences of up to `longest` tokens.
    Buffers(int64_t rows, int64_t room, int64_t longest)
        : room(room), longest_(longest < room ? room : longest) {
        tokens_.own(rows * room);
        order_.own(rows * room);
        where_.own(rows * longest_);
        seen_.own(longest_);
        idle_.own(room);
        hits_.own(room);
    }

    // A request begins: place i holds token i, or no place holds any.
    void begin(int64_t row, bool filled) {
        forget(row);
        for (int64_t place = 0; place < room; ++place) {
            order_[row * room + place] = static_cast<int32_t>(place);
            if (filled) put(row, place, place);
        }
    }

    // It has ended: no place holds anything.
    void forget(int64_t row) {
        for (int64_t place = 0; place < room; ++place) {
            int32_t& held = tokens_[row * room + place];
            if (held) where_[row * longest_ + held - 1] = 0;
            held = 0;
        }
    }

    // Whether these are distinct tokens of a sequence of that length, no more than there is room for.
    template <typename Number>
    bool may_want(const Number* wanted, int64_t count, int64_t length) {
        ++look_;
        if (count > room || length > longest_) return false;
        for (int64_t k = 0; k < count; ++k) {
            if (wanted[k] < 0 || wanted[k] >= length || seen_[wanted[k]] == look_) return false;
            seen_[wanted[k]] = look_;
        }
        return true;
    }

    // How many of these have no place yet.
    template <typename Number>
    int64_t missing(int64_t row, int64_t length, const Number* wanted, int64_t count) const {
        int64_t found = 0;
        for (int64_t k = 0; k < count && length > room; ++k)
            found += wanted[k] != length - 1 && !where_[row * longest_ + wanted[k]];
        return found;
    }

    // The place of each of these tokens, which `may_want` has just looked at.  What was missing takes the places used
    // least recently among those that hold nothing wanted; it is told in `tokens`, in the order of `filled` places.
    // While a sequence fits, each token has the place of its number; after that the newest has one behind the others.
    template <typename Number>
    void swap(int64_t row, int64_t length, const Number* wanted, int64_t count, int64_t* places, int64_t* tokens,
              int64_t* filled) {
        if (length <= room) {
            for (int64_t k = 0; k < count; ++k) places[k] = wanted[k];
            return;
        }
        int32_t* order = &order_[row * room];
        int64_t idle = 0, hits = 0, taken = 0;
        for (int64_t at = 0; at < room; ++at) {
            int32_t token = tokens_[row * room + order[at]];
            if (token && seen_[token - 1] == look_)
                hits_[hits++] = order[at];
            else
                idle_[idle++] = order[at];
        }
        for (int64_t k = 0; k < count; ++k) {
            int32_t place = where_[row * longest_ + wanted[k]];
            if (wanted[k] == length - 1) {
                places[k] = room;
            } else if (place) {
                places[k] = place - 1;
            } else {
                put(row, places[k] = idle_[taken], wanted[k]);
                tokens[taken] = wanted[k];
                filled[taken++] = places[k];
            }
        }
        for (int64_t at = taken; at < idle; ++at) *order++ = idle_[at];
        for (int64_t at = 0; at < taken; ++at) *order++ = idle_[at];
        for (int64_t at = 0; at < hits; ++at) *order++ = hits_[at];
    }

    // Which token a place holds, -1 for none; and the place that is the so manieth to be used anew.
    int64_t token(int64_t row, int64_t place) const { return int64_t{tokens_[row * room + place]} - 1; }
    int64_t order(int64_t row, int64_t at) const { return order_[row * room + at]; }

  private:
    void put(int64_t row, int64_t place, int64_t token) {
        int32_t& held = tokens_[row * room + place];
        if (held) where_[row * longest_ + held - 1] = 0;
        held = static_cast<int32_t>(token + 1);
        where_[row * longest_ + token] = static_cast<int32_t>(place + 1);
    }

    int64_t longest_;
    int64_t look_ = 0;         // the number of the last look at wishes
    Zeros<int32_t> tokens_;    // of each place, one more than the token that it holds; 0 for none
    Zeros<int32_t> order_;     // the places of each row, the one used least recently first
    Zeros<int32_t> where_;     // of each token of each row, one more than its place; 0 for none
    Zeros<int64_t> seen_;      // the last look that wanted a token
    Zeros<int32_t> idle_, hits_;
};

}  // namespace kvlitmus
