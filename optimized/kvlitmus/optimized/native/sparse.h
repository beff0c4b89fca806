// Sparse rows: pages of host memory behind rows of tokens, and device slots behind their buffers (docs/sparse.md).
//
// Each row is a run of whole pages.  A row waits for the copy of a staged prompt, or for a peer's transfer, or it decodes,
// or does neither.  Copies and transfers are *works*: pages that one writes to are nobody else's before it has ended, so a
// row that is given back leaves them to it.
//
// Rules of upkeep:
//
// - What a call asks for is looked at whole (`ask`), and what it takes is known, before anything changes.
// - `room_for_work` alone may fail, with nothing changed; all other memory is taken at the beginning.
// - `promised_` is what admission has promised to all rows and not given yet.
#pragma once

#include "buffers.h"
#include "pool.h"

namespace kvlitmus {

// Why a call is refused: FEW_HOST and FEW_DEVICE for now, the others for good.
enum class Refusal { NONE, NEGATIVE, HOLE, NARROW, FEW_HOST, FEW_DEVICE, NOT_EMPTY, WAITS, NO_DECODE, PEER, LENGTH, WISH, ENDED };

// What a row does.
enum class Does : uint8_t { NOTHING, STAGED, RECEIVES, DECODES };

constexpr int64_t MOST_ROWS = 1 << 24;  // with up to 2^31 of anything: products fit

struct SparseShape {
    int64_t page_size, pages, rows, width, room, device, ratio;
};

struct SparseRow {
    int64_t pages = 0;     // how many it has
    int64_t reserved = 0;  // how many admission said that it may have
    int64_t slots = 0;     // of the device
    int64_t length = 0;    // of the prompt that it waits for, in tokens of the model
    int64_t backed = 0;    // of a row that decodes: how many of its tokens are on the host
    Does does = Does::NOTHING;
    bool written = false;  // what it waits for goes on
};

// A copy or a transfer that has not ended, to the first `count` pages of its row; or, of a row that was given back, to the
// pages of a chain that begins with `last`.
struct Work {
    int64_t number, row, count;
    int32_t last;
};
constexpr int64_t LEFT = -1;  // its row was given back

struct Works {
    int64_t begun = 0;
    Array<Work> going;  // by their numbers

    Work* find(int64_t number) {
        for (Work& one : going)
            if (one.number == number) return &one;
        return nullptr;
    }
};

// What a row asks for: slots for tokens `start .. start + tokens - 1`, for which so many pages and device slots are missing.
struct Ask {
    Refusal refusal;
    int64_t row, start, tokens, pages, slots;
};

class SparseRows {
  public:
    const SparseShape shape;
    Works copies, transfers;

    explicit SparseRows(const SparseShape& of)
        : shape(of),
          host_(of.pages, of.page_size, 0),
          device_(of.device, 1, 0),
          buffers_(of.rows, of.room, of.width / of.page_size * of.page_size + 1) {
        rows_.reserve(of.rows);
        for (int64_t row = 0; row < of.rows; ++row) rows_.push(SparseRow());
        pages_.own(of.rows * row_pages());
        slots_.own(of.rows * most_slots());
        chain_.own(of.pages);
        waiting_.reserve(of.rows);  // a row waits once
    }

    const SparseRow& row(int64_t number) const { return rows_[number]; }
    const int32_t* pages(int64_t number) const { return &pages_[number * row_pages()]; }
    const int32_t* slots(int64_t number) const { return &slots_[number * most_slots()]; }
    const Array<int32_t>& waiting() const { return waiting_; }
    const Pool& host() const { return host_; }
    const Pool& device() const { return device_; }
    Buffers& buffers() { return buffers_; }
    int64_t allocated(int64_t number) const { return rows_[number].pages * shape.page_size; }
    int64_t hosted(int64_t length) const { return length / shape.ratio; }

    // How many free pages are promised to no other row.
    int64_t free_for(int64_t number) const { return host_.free_count() - promised_ + due(number); }

    // The slots of a row's tokens, which it has.
    void spell(int64_t number, int64_t start, int64_t count, int64_t* into) const {
        for (int64_t token = start; token < start + count; ++token)
            *into++ = slot(number, token);
    }
    int64_t slot(int64_t number, int64_t token) const {
        return int64_t{pages(number)[token / shape.page_size]} * shape.page_size + token % shape.page_size;
    }

    // -- requests ------------------------------------------------------------------------------

    Ask ask(int64_t number, int64_t start, int64_t tokens) const {
        Ask one{Refusal::NONE, number, start, tokens > 0 ? tokens : 0, 0, 0};
        if (tokens <= 0) return one;
        int64_t have = allocated(number), widest = row_pages() * shape.page_size;
        if (start < 0) return refused(one, Refusal::NEGATIVE);
        if (start > have) return refused(one, Refusal::HOLE);
        if (tokens > widest - start) return refused(one, Refusal::NARROW);
        if (start + tokens > have) one.pages = ceil(start + tokens - have);
        return one.pages > free_for(number) ? refused(one, Refusal::FEW_HOST) : one;
    }

    // The same for a prompt of the model's tokens, which is written to an empty row and has room on the device.
    Ask ask_prompt(int64_t number, int64_t length) const {
        Ask one = ask(number, 0, hosted(length));
        if (one.tokens && (rows_[number].pages || rows_[number].does != Does::NOTHING)) return refused(one, Refusal::NOT_EMPTY);
        if (one.tokens && one.refusal == Refusal::NONE) one.slots = lacks(number, hosted(length));
        return one.slots > device_.free_count() ? refused(one, Refusal::FEW_DEVICE) : one;
    }

    // The slot of the token before the newest, or of the last whole group; nothing where the host has it.
    Ask ask_backup(int64_t number, int64_t length) const {
        if (rows_[number].does != Does::DECODES) return refused({}, Refusal::NO_DECODE);
        if (length < 1) return refused({}, Refusal::LENGTH);
        int64_t place = hosted(length - 1) - 1;
        bool due = (length - 1) % shape.ratio == 0 && place >= rows_[number].backed;
        return ask(number, place, due);
    }

    void grant(const Ask& one) {
        SparseRow& row = rows_[one.row];
        promised_ -= due(one.row);
        host_.take(one.pages, &pages_[one.row * row_pages() + row.pages]);
        row.pages += one.pages;
        promised_ += due(one.row);
        widen(one.row, one.slots);
    }

    // The tokens before the newest of so many are on the host.
    void back_up(int64_t number, int64_t length) { rows_[number].backed = hosted(length - 1); }

    // Whether a request is admitted that will have no more than so many tokens of the model.
    bool reserve(int64_t number, int64_t length) {
        int64_t wanted = length > 0 ? ceil(hosted(length)) : 0;
        if (wanted > free_for(number) || wanted > row_pages()) return false;
        promised_ -= due(number);
        rows_[number].reserved = wanted;
        promised_ += due(number);
        return true;
    }

    // A row has nothing any more; what is written to is free when that ends.
    void free(int64_t number) {
        SparseRow& row = rows_[number];
        const int32_t* mine = pages(number);
        int64_t left = 0;
        for (Works* works : {&copies, &transfers})
            for (Work& one : works->going)
                if (one.row == number) leave(one, mine, left = one.count);
        host_.take_back(mine + left, row.pages - left, USED);
        device_.take_back(slots(number), row.slots, USED);
        if (row.does == Does::STAGED)
            for (size_t at = 0; at < waiting_.size(); ++at)
                if (waiting_[at] == number) waiting_.erase(at--);
        if (row.does == Does::DECODES) buffers_.forget(number);
        promised_ -= due(number);
        row = SparseRow();
    }

    // -- staging and transfers -----------------------------------------------------------------

    // Throws std::bad_alloc, with nothing changed.
    static void room_for_work(Works& works) { works.going.reserve(works.going.size() + 1); }

    // The prompt of a row is written to it from now on; it has been granted its slots.
    void write(Works& works, const Ask& one, int64_t length) {
        SparseRow& row = rows_[one.row];
        grant(one);
        row.length = length;
        row.written = true;
        row.does = &works == &copies ? Does::STAGED : Does::RECEIVES;
        if (row.does == Does::STAGED) waiting_.push(static_cast<int32_t>(one.row));
        works.going.push({works.begun++, one.row, row.pages, 0});
    }

    // A copy or a transfer has ended; the row that waits for it, or LEFT.
    int64_t end(Works& works, Work* one) {
        int64_t row = one->row;
        int32_t page = one->last;
        for (int64_t k = 0; row == LEFT && k < one->count; ++k) {
            int32_t next = chain_[page];
            host_.take_back(&page, 1, USED);
            page = next;
        }
        if (row != LEFT) rows_[row].written = false;
        works.going.erase(one - works.going.begin());
        return row;
    }

    // How many rows are acknowledged now: those that were staged first, as far as their copies have ended.
    size_t ready() const {
        size_t many = 0;
        while (many < waiting_.size() && !rows_[waiting_[many]].written) ++many;
        return many;
    }
    void acknowledge(size_t many) {
        for (size_t at = 0; at < many; ++at) decode(waiting_[at], rows_[waiting_[at]].length, true);
        waiting_.erase(0, many);
    }

    // -- decoding ------------------------------------------------------------------------------

    Ask ask_admit(int64_t number, int64_t length) const {
        if (waits(number)) return refused({}, Refusal::WAITS);
        if (length < 0) return refused({}, Refusal::NEGATIVE);
        return hosted(length) > allocated(number) ? refused({}, Refusal::HOLE) : ask_buffer(number, length);
    }

    // The request of a row begins to decode; with `filled`, its first tokens are in its buffer whatever its length.
    void decode(int64_t number, int64_t length, bool filled) {
        SparseRow& row = rows_[number];
        row.backed = hosted(length);
        row.does = Does::DECODES;
        buffers_.begin(number, filled || hosted(length) <= shape.room);
    }

    Ask ask_growth(int64_t number, int64_t length) const {
        if (rows_[number].does != Does::DECODES) return refused({}, Refusal::NO_DECODE);
        return length < shape.ratio ? refused({}, Refusal::LENGTH) : ask_buffer(number, length);
    }

    // Where the newest token of a sequence has its slot.
    int64_t newest(int64_t length) const {
        int64_t place = hosted(length) - 1;
        return place < shape.room ? place : shape.room;
    }

    template <typename Number>
    Refusal ask_swap(int64_t number, int64_t length, const Number* wanted, int64_t count) {
        if (rows_[number].does != Does::DECODES) return Refusal::NO_DECODE;
        if (length < 0) return Refusal::NEGATIVE;
        if (hosted(length) - 1 > allocated(number)) return Refusal::HOLE;
        return buffers_.may_want(wanted, count, hosted(length)) ? Refusal::NONE : Refusal::WISH;
    }

    // Take so many device slots for a row, which there are.
    void widen(int64_t number, int64_t count) {
        SparseRow& row = rows_[number];
        device_.take(count, &slots_[number * most_slots() + row.slots]);
        row.slots += count;
    }

    // Give those back again.
    void narrow(int64_t number, int64_t count) {
        SparseRow& row = rows_[number];
        row.slots -= count;
        device_.take_back(slots(number) + row.slots, count, USED);
    }

    // Whether the device has room for the buffer of so many tokens of the model.
    bool has_room(int64_t length) const { return wide(length > 0 ? hosted(length) : 0) <= device_.free_count(); }

  private:
    static Ask refused(Ask one, Refusal why) {
        one.refusal = why;
        return one;
    }

    Ask ask_buffer(int64_t number, int64_t length) const {
        Ask one{Refusal::NONE, number, 0, 0, 0, lacks(number, hosted(length))};
        return one.slots > device_.free_count() ? refused(one, Refusal::FEW_DEVICE) : one;
    }

    int64_t ceil(int64_t tokens) const { return tokens / shape.page_size + (tokens % shape.page_size > 0); }
    int64_t row_pages() const { return shape.width / shape.page_size; }
    int64_t most_slots() const { return shape.room + shape.page_size; }
    bool waits(int64_t number) const {
        return rows_[number].does == Does::STAGED || rows_[number].does == Does::RECEIVES;
    }

    // What admission has promised to a row and not given yet.
    int64_t due(int64_t number) const {
        const SparseRow& row = rows_[number];
        return row.reserved > row.pages ? row.reserved - row.pages : 0;
    }

    // How many device slots a buffer has for so many tokens: whole pages, up to its room; then a page more.
    int64_t wide(int64_t tokens) const {
        int64_t paged = tokens < shape.room ? ceil(tokens) * shape.page_size : shape.room;
        return paged < shape.room ? paged : most_slots();
    }
    int64_t lacks(int64_t number, int64_t tokens) const {
        int64_t more = wide(tokens) - rows_[number].slots;
        return more > 0 ? more : 0;
    }

    // A work keeps these pages of its row, which is given back: the last one leads to the one before it.
    void leave(Work& one, const int32_t* pages, int64_t count) {
        for (int64_t k = 0; k < count; ++k) {
            if (k) chain_[pages[k]] = pages[k - 1];
            one.last = pages[k];
        }
        one.row = LEFT;
    }

    Pool host_, device_;
    Buffers buffers_;
    Array<SparseRow> rows_;
    Array<int32_t> waiting_;   // staged rows, in the order in which they were staged
    Zeros<int32_t> pages_, slots_;  // of each row
    Zeros<int32_t> chain_;
    int64_t promised_ = 0;
};

}  // namespace kvlitmus
