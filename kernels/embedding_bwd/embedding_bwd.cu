// embedding_bwd (cuda): gw[v] = gy summed over the places where idx is v, in their order, in f32,
// rounded once; 0 where there is none. Dense f32, f16 and bf16. The places are sorted by v, so that
// no sum needs atomics and its bits are the same each time:
//   count, scatter   once for each 8 bits of v: what of each digit there is in each block's share,
//                    and where it goes, in order. The first pass reads idx, where padding_idx and
//                    what lies outside of gw become V, and so end up behind all others.
//   rank             instead, of places that one block can compare
//   bounds           where the places of each v begin; of few, whoever wants to know looks for it
//   pieces           sums of pieces of those v that have many places
//   rows             gw, from the places of a v or from its pieces
//   few              all of it, from so few places that each block looks through them
// Bound by bytes. Only the last launch starts early: blocks of one that does not fill the machine
// would crowd where there is room first.
#include <aicf_ops/embedding_bwd.h>

#include "few.cuh"
#include "sums.cuh"

namespace aicf::embedding_bwd {

// A piece has 64 places or more, and there are 512 pieces or fewer, as the row's workspace says.
constexpr int64_t kLeastPiece = 64, kMostPieces = 512;

// The row's workspace, in this order.
struct room {
    uint32_t *keys[2], *places[2]; // n each
    uint32_t *counts;              // kDigits * kMostBlocks
    float *partial;                // D * slots
    uint32_t *begin;               // V + 1

    room(void *workspace, int64_t n, int64_t D, int64_t slots)
    {
        uint32_t *at = static_cast<uint32_t *>(workspace);
        keys[0] = at;
        keys[1] = at + n;
        places[0] = at + 2 * n;
        places[1] = at + 3 * n;
        counts = at + 4 * n;
        partial = reinterpret_cast<float *>(counts + kDigits * kMostBlocks);
        begin = reinterpret_cast<uint32_t *>(partial + D * slots);
    }
};

template <typename Keys>
aicf_status
launch_pass(Keys from, const pass &p, aicf_stream stream)
{
    unsigned blocks = static_cast<unsigned>(p.blocks);
    aicf_status status = aicf::launch(count<Keys>, blocks, kBlock, 0, stream, from, p);
    return status.kind ? status : aicf::launch(scatter<Keys>, blocks, kBlock, 0, stream, from, p);
}

// Leaves the sorted keys and places in keys[which] and places[which].
template <typename I>
aicf_status
sort(raw_keys<I> from, const room &r, int64_t n, int *which, aicf_stream stream)
{
    int64_t tiles = ceil_div(n, kTile), blocks = tiles < kMostBlocks ? tiles : kMostBlocks;
    int64_t share = ceil_div(tiles, blocks) * kTile;
    pass p = {r.counts, nullptr, nullptr, n, share, static_cast<int>(ceil_div(n, share)), 0};
    *which = 1;
    do {
        sorted_keys last = {r.keys[*which], r.places[*which]};
        *which = 1 - *which;
        p.keys = r.keys[*which];
        p.places = r.places[*which];
        aicf_status status =
            p.shift == 0 ? launch_pass(from, p, stream) : launch_pass(last, p, stream);
        if (status.kind) {
            return status;
        }
        p.shift += 8;
    } while (from.V >> p.shift != 0);
    return aicf_ok();
}

template <typename T, int kSize>
aicf_status
launch_sums(operands<T> p, int64_t slots, aicf_stream stream)
{
    int64_t strips = ceil_div(p.D / kSize, kPacks<kSize>);
    p.strips = digits_of(strips, (slots > p.V ? slots : p.V) * strips);
    if (slots > 0) {
        p.threads = slots * strips;
        aicf_status status = aicf::launch(
            pieces<T, kSize>, static_cast<unsigned>(ceil_div(p.threads, kBlock)), kBlock, 0, stream,
            p);
        if (status.kind) {
            return status;
        }
    }
    p.threads = p.V * strips;
    return launch_waiting(
        rows<T, kSize>, static_cast<unsigned>(ceil_div(p.threads, kBlock)), kBlock, 0, stream, p);
}

template <typename T, typename I>
aicf_status
launch(
    const T *gy, const I *idx, T *gw, int64_t n, int64_t D, int64_t V, int64_t padding,
    void *workspace, aicf_stream stream)
{
    raw_keys<I> from = {idx, V, padding};
    bool whole = D % kPackSize<T> == 0 && phase_of(gy) == 0 && phase_of(gw) == 0;
    if (n <= kFewest) {
        return whole ? launch_few<kPackSize<T>>(gy, gw, from, n, D, stream)
                     : launch_few<1>(gy, gw, from, n, D, stream);
    }
    int64_t most = ceil_div(n, kLeastPiece) < kMostPieces ? ceil_div(n, kLeastPiece) : kMostPieces;
    int64_t piece = ceil_div(n, most), slots = 2 * ceil_div(n, piece);
    room r(workspace, n, D, 2 * most);
    int which = 0;
    aicf_status status = aicf_ok();
    if (n > kFew) {
        status = sort(from, r, n, &which, stream);
    } else {
        status = aicf::launch(
            rank<raw_keys<I>>, 1, kFew, 0, stream, from, r.keys[0], r.places[0],
            static_cast<int>(n));
    }
    if (!status.kind && n > kFew) {
        status = aicf::launch(
            bounds, static_cast<unsigned>(ceil_div(V + 1, kBlock)), kBlock, 0, stream,
            r.keys[which], r.begin, n, V);
    }
    if (status.kind) {
        return status;
    }
    operands<T> p = {gy,
                     gw,
                     r.keys[which],
                     r.places[which],
                     n > kFew ? r.begin : nullptr,
                     r.partial,
                     n,
                     V,
                     D,
                     piece,
                     {},
                     0};
    slots = piece < n ? slots : 0; // none has more places than all
    return whole ? launch_sums<T, kPackSize<T>>(p, slots, stream)
                 : launch_sums<T, 1>(p, slots, stream);
}

} // namespace aicf::embedding_bwd

#define LAUNCHER(T, s, I, i)                                                                    \
    aicf_status aicf_cuda_embedding_bwd_sorted_##s##_##i(                                       \
        const T *gy, const I *idx, T *gw, int64_t A, int64_t D, int64_t V, int64_t padding_idx, \
        void *workspace, aicf_stream stream)                                                    \
    {                                                                                           \
        return aicf::embedding_bwd::launch(                                                     \
            aicf::device(gy), idx, aicf::device(gw), A, D, V, padding_idx, workspace, stream);  \
    }

#define LAUNCHERS(T, s)          \
    LAUNCHER(T, s, int64_t, i64) \
    LAUNCHER(T, s, int32_t, i32)

LAUNCHERS(float, f32)
LAUNCHERS(aicf_f16, f16)
LAUNCHERS(aicf_bf16, bf16)
