// The tiles of aicf/cuda/transpose.cuh where rows of out begin anywhere.
//
// A pack of a row of out lies on the row's own boundaries, so rows take from a tile parts that are
// shifted against each other, by less than kLead rows: a tile holds as many rows of x before those
// that it would write, which the tile before it holds too. Only the first and the last pack of a
// whole row are written element by element.
// Tiles follow each other along rows of out: their parts of one end within lines of memory, which
// are whole again as soon as the next tile is there.
// Columns whose rows of out lie alike, a pack's number of columns apart, stand beside each other in
// a word of shared memory, so that one read serves them.
#ifndef AICF_CUDA_TRANSPOSE_SHIFTED_CUH
#define AICF_CUDA_TRANSPOSE_SHIFTED_CUH

#include <aicf/cuda/transpose_tiles.cuh>

namespace aicf::transpose {

// Of 32 bits larger than aligned tiles, since rows of x begin and end within sectors of memory,
// which are read by two tiles then, and by whole sectors of out; those of 16 bits were slower so.
template <typename T> struct shifted_shape : shape<T> {
    static constexpr int kLead = kPackSize<T>;
};
template <> struct shifted_shape<uint32_t> {
    static constexpr int kAcross = 64, kAlong = 128, kLead = 8;
};
struct flat_shifted_shape : flat_shape {
    static constexpr int kLead = kPackSize<uint16_t>;
};

// Columns of a gang: packs of x beside each other, one for each lane of a word.
template <typename T> constexpr unsigned kGang = kPackSize<T> * kColumns<T>;

// Element `column` of a row.
template <typename T, typename S>
__device__ inline T *
in_gang(const tile_memory<T, S> &tile, unsigned row, unsigned column)
{
    constexpr unsigned kSize = kPackSize<T>;
    unsigned word = column / kGang<T> * kSize + column % kSize;
    return tile.template at<T>(row, word * kColumns<T> + column % kGang<T> / kSize);
}

// Packs one below the other to words across them.
__device__ inline void
weave(const uint8_t *, const words (&packs)[4], words (&woven)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t low01 = __byte_perm(packs[0].word[i], packs[1].word[i], 0x5140);
        uint32_t high01 = __byte_perm(packs[0].word[i], packs[1].word[i], 0x7362);
        uint32_t low23 = __byte_perm(packs[2].word[i], packs[3].word[i], 0x5140);
        uint32_t high23 = __byte_perm(packs[2].word[i], packs[3].word[i], 0x7362);
        woven[i].word[0] = __byte_perm(low01, low23, 0x5410);
        woven[i].word[1] = __byte_perm(low01, low23, 0x7632);
        woven[i].word[2] = __byte_perm(high01, high23, 0x5410);
        woven[i].word[3] = __byte_perm(high01, high23, 0x7632);
    }
}

__device__ inline void
weave(const uint16_t *, const words (&packs)[2], words (&woven)[2])
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t a = packs[0].word[i], b = packs[1].word[i];
        woven[i / 2].word[i % 2 * 2] = __byte_perm(a, b, 0x5410);
        woven[i / 2].word[i % 2 * 2 + 1] = __byte_perm(a, b, 0x7632);
    }
}

template <typename T>
__device__ inline void
weave(const T *, const words (&packs)[1], words (&woven)[1])
{
    woven[0] = packs[0];
}

// Where a thread begins: 8 side by side take, of kColumns rows, as many gangs as put their packs
// into different banks.
template <typename T, typename S> struct gang_place {
    static constexpr unsigned kGangs = S::kAcross / kGang<T>; // of a row
    static constexpr unsigned kRows = kBlock / kGangs;        // of the block at once
    static constexpr unsigned kBeside = 8 / kColumns<T>;      // gangs
    static constexpr unsigned kApart = kPackSize<T>;          // rows of the 8
    static constexpr unsigned kBand = kApart * kColumns<T>;   // rows that are taken in turn
    static_assert(kGangs % kBeside == 0 && kRows % kBand == 0, "whole bands");

    unsigned gang, row;

    __device__ gang_place()
    {
        unsigned i = threadIdx.x / 8, high = i % (kGangs / kBeside), rest = i / (kGangs / kBeside);
        gang = high * kBeside + threadIdx.x % kBeside;
        row = rest / kApart * kBand + threadIdx.x / kBeside % kColumns<T> * kApart + rest % kApart;
    }
};

// kLoads gangs of rows from `first` on, at `from`.
template <unsigned kLoads, typename T, typename S>
__device__ inline void
load_some(
    const tile_memory<T, S> &tile, const T *from, int64_t pitch, const tile_place &part,
    unsigned gang, unsigned first, const char *low, const char *high)
{
    constexpr int kPacks = kColumns<T>;
    constexpr unsigned kRows = gang_place<T, S>::kRows;
    words held[kLoads][kPacks + 1];
    int by[kLoads];
    bool whole[kLoads];
#pragma unroll
    for (unsigned u = 0; u < kLoads; u++) {
        const char *at = reinterpret_cast<const char *>(from + u * (kRows * pitch));
        unsigned row = first + u * kRows;
        by[u] = static_cast<int>(reinterpret_cast<uintptr_t>(at) % kPackBytes);
        at -= by[u];
        const char *last = by[u] ? at + kPacks * kPackBytes : at; // not needed at a boundary
        whole[u] = row >= part.begin && row < part.end && at >= low &&
                   at + kPacks * kPackBytes <= high && last + kPackBytes <= high;
        if (whole[u]) {
#pragma unroll
            for (int i = 0; i < kPacks; i++) {
                held[u][i] = load_words(at + i * kPackBytes);
            }
            held[u][kPacks] = load_words(last);
        }
    }
#pragma unroll
    for (unsigned u = 0; u < kLoads; u++) {
        unsigned row = first + u * kRows, column = gang * kGang<T>;
        if (whole[u]) {
            words packs[kPacks], woven[kPacks];
            shift_packs<kPacks, static_cast<int>(sizeof(T))>(held[u], by[u], packs);
            weave(static_cast<const T *>(nullptr), packs, woven);
#pragma unroll
            for (unsigned i = 0; i < kPacks; i++) {
                *tile.chunk(row, gang * kPacks + i) = woven[i];
            }
        } else if (row >= part.begin && row < part.end) {
            const T *at = from + u * (kRows * pitch);
#pragma unroll 1
            for (unsigned i = 0; i < kGang<T> && column + i < part.columns; i++) {
                *in_gang(tile, row, column + i) = at[i];
            }
        }
    }
}

// The tile's rows of x, from any address. Nothing is read outside of [low, high).
template <typename T, typename S>
__device__ inline void
load_gangs(
    const tile_memory<T, S> &tile, const T *x, int64_t pitch, const tile_place &part,
    const char *low, const char *high)
{
    constexpr int kPacks = kColumns<T>;
    constexpr unsigned kRows = gang_place<T, S>::kRows, kRounds = S::kAlong / kRows;
    constexpr unsigned kMost = kPacks > 1 ? 2 : 4, kLoads = kRounds < kMost ? kRounds : kMost;
    static_assert(kRounds % kLoads == 0, "whole rounds");
    gang_place<T, S> place;
    unsigned column = place.gang * kGang<T>;
    if (column >= part.columns) {
        return;
    }
    const T *from = x + place.row * pitch + column;

#pragma unroll 1
    for (unsigned done = 0; done < kRounds; done += kLoads) {
        load_some<kLoads>(tile, from, pitch, part, place.gang, place.row, low, high);
        from += kLoads * kRows * pitch;
        place.row += kLoads * kRows;
    }
}

// Writes the columns' packs of rows: the first begins less than kLead rows before row kLead, which
// is at the tile's own place in out.
template <typename T, typename S>
__device__ inline void
store_shifted(
    const tile_memory<T, S> &tile, T *out, int64_t pitch, const tile_place &part, bool truth)
{
    constexpr unsigned kSize = kPackSize<T>, kGroups = S::kAlong / kSize;
    constexpr unsigned kUnits = kGroups * S::kAcross / kColumns<T>;
    constexpr int kRow = tile_memory<T, S>::kChunks * kPackBytes;
    constexpr int kLead = S::kLead;
    static_assert(kUnits % kBlock == 0 && kLead % kSize == 0, "whole rounds and packs");
#pragma unroll 2
    for (unsigned u = 0; u < kUnits / kBlock; u++) {
        unsigned unit = threadIdx.x + u * kBlock, group = unit % kGroups, word = unit / kGroups;
        unsigned column = word / kSize * kGang<T> + word % kSize;
        if (group >= kGroups - kLead / kSize || column >= part.columns) {
            continue;
        }
        T *to = out + column * pitch;
        int ahead = static_cast<int>(reinterpret_cast<uintptr_t>(to) / sizeof(T) % kLead);
        // The pack's rows lie across two of the tile's packs of rows: `phase` in the lower.
        unsigned row = group * kSize + static_cast<unsigned>(kLead - ahead);
        int phase = ahead % static_cast<int>(kSize);
        unsigned byte = word * sizeof(column_t<T>), next = row + static_cast<unsigned>(phase);
        const char *lower =
            reinterpret_cast<const char *>(tile.chunk(next - 1, byte / kPackBytes)) +
            byte % kPackBytes;
        const char *upper =
            reinterpret_cast<const char *>(tile.chunk(next, byte / kPackBytes)) + byte % kPackBytes;
        lower -= (phase - 1) * kRow; // of no use if the phase is 0
        upper -= phase * kRow;
        column_t<T> held[kSize];
        words packs[kColumns<T>];
#pragma unroll
        for (int k = 0; k < static_cast<int>(kSize); k++) {
            held[k] =
                *reinterpret_cast<const column_t<T> *>((k < phase ? lower : upper) + k * kRow);
        }
        turn(static_cast<const T *>(nullptr), held, packs);
        bool whole = row >= part.begin && row + kSize <= part.end;
#pragma unroll
        for (unsigned c = 0; c < kColumns<T>; c++, column += kSize, to += kSize * pitch) {
            if (column < part.columns && whole) {
                store_bytes<kPackBytes>(to + row, as_written(packs[c], truth));
            } else if (column < part.columns) {
#pragma unroll 1
                for (unsigned k = 0; k < kSize; k++) {
                    if (row + k >= part.begin && row + k < part.end) {
                        to[row + k] = as_written(*in_gang(tile, row + k, column), truth);
                    }
                }
            }
        }
    }
}

template <typename T, typename S>
__device__ inline void
shifted_body(const tiles &p)
{
    __shared__ words memory[S::kAlong * tile_memory<T, S>::kChunks];
    tile_memory<T, S> tile = {memory};
    const T *x = static_cast<const T *>(p.x);
    T *out = static_cast<T *>(p.out);
    ptx::let_next_launch_begin();
    tile_place place = place_of<S>(p, x, out, S::kLead, true);
    ask_early<T, S>(x, p.x_pitch, place);
    ptx::wait_for_launch_before();
    load_gangs(tile, x, p.x_pitch, place, p.low, p.high);
    __syncthreads();
    store_shifted(tile, out, p.out_pitch, place, p.truth);
}

} // namespace aicf::transpose

#endif
