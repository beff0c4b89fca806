// Memory: where all of it comes from, and arrays that grow.
//
// Whatever may fail says so before it has changed anything: `reserve` and `allocate` throw std::bad_alloc, everything
// else doesn't.  Tests make the n-th allocation fail (`fail_after`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

namespace kvlitmus {

// How many more allocations succeed; negative: all of them.
inline int64_t fail_after = -1;

inline bool allowed() {
    if (fail_after < 0) return true;
    if (fail_after == 0) return false;
    --fail_after;
    return true;
}

inline void* allocate(size_t bytes) {
    void* found = allowed() ? std::malloc(bytes ? bytes : 1) : nullptr;
    if (!found) throw std::bad_alloc();
    return found;
}

// Memory of zeros; large blocks take room only where they are written to.
inline void* allocate_zeros(size_t bytes) {
    void* found = allowed() ? std::calloc(bytes ? bytes : 1, 1) : nullptr;
    if (!found) throw std::bad_alloc();
    return found;
}

inline void* reallocate(void* old, size_t bytes) {
    void* found = allowed() ? std::realloc(old, bytes ? bytes : 1) : nullptr;
    if (!found) throw std::bad_alloc();
    return found;
}

// An array of plain values that grows by a quarter.
template <typename T>
class Array {
    static_assert(std::is_trivially_copyable<T>::value, "it is moved as bytes");

  public:
    Array() = default;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { std::free(items_); }

    size_t size() const { return size_; }
    bool empty() const { return !size_; }
    size_t room() const { return room_; }
    T* begin() { return items_; }
    const T* begin() const { return items_; }
    T* end() { return items_ + size_; }
    const T* end() const { return items_ + size_; }
    T& operator[](size_t at) { return items_[at]; }
    const T& operator[](size_t at) const { return items_[at]; }
    T& back() { return items_[size_ - 1]; }
    const T& back() const { return items_[size_ - 1]; }

    // Room for so many in all; throws std::bad_alloc, and has changed nothing.
    void reserve(size_t wanted) {
        if (wanted <= room_) return;
        size_t more = size_t{room_} + room_ / 4 + 2;
        size_t room = wanted < more ? more : wanted;
        items_ = static_cast<T*>(reallocate(items_, room * sizeof(T)));
        room_ = room;
    }

    // The rest takes no memory: there is room.
    void push(T value) { items_[size_++] = value; }
    T pop() { return items_[--size_]; }
    void resize(size_t size) { size_ = size; }
    void clear() { size_ = 0; }

    void insert(size_t at, T value) {
        std::memmove(items_ + at + 1, items_ + at, (size_ - at) * sizeof(T));
        items_[at] = value;
        ++size_;
    }

    void erase(size_t at, size_t count = 1) {
        std::memmove(items_ + at, items_ + at + count, (size_ - at - count) * sizeof(T));
        size_ -= count;
    }

  private:
    T* items_ = nullptr;
    uint32_t size_ = 0;
    uint32_t room_ = 0;
};

// Numbers that are 0 at the beginning, as many for good.
template <typename T>
class Zeros {
  public:
    Zeros() = default;
    Zeros(const Zeros&) = delete;
    Zeros& operator=(const Zeros&) = delete;
    ~Zeros() { std::free(items_); }

    // Have so many; throws std::bad_alloc.
    void own(int64_t count) { items_ = static_cast<T*>(allocate_zeros(static_cast<size_t>(count) * sizeof(T))); }

    T& operator[](int64_t at) { return items_[at]; }
    const T& operator[](int64_t at) const { return items_[at]; }

  private:
    T* items_ = nullptr;
};

// An array that most of its owners don't need: one pointer, null until there is something in it.
template <typename T>
class Rare {
  public:
    Rare() = default;
    Rare(const Rare&) = delete;
    Rare& operator=(const Rare&) = delete;
    ~Rare() { drop(); }

    explicit operator bool() const { return array_ != nullptr; }
    Array<T>& operator*() { return *array_; }
    const Array<T>& operator*() const { return *array_; }
    Array<T>* operator->() { return array_; }
    const Array<T>* operator->() const { return array_; }

    // Have an array with room for so many in all.
    void reserve(size_t wanted) {
        if (array_) {
            array_->reserve(wanted);
            return;
        }
        auto* made = new (allocate(sizeof(Array<T>))) Array<T>();
        try {
            made->reserve(wanted);
        } catch (...) {
            std::free(made);
            throw;
        }
        array_ = made;
    }

    void drop() {
        if (!array_) return;
        array_->~Array<T>();
        std::free(array_);
        array_ = nullptr;
    }

  private:
    Array<T>* array_ = nullptr;
};

}  // namespace kvlitmus
