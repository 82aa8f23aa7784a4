// Matrices as the copy engine does not take them, copied to where it does, and back: odd pitches,
// odd addresses, an odd N (see gemm.cuh for the operands). Bound by bytes, which are few beside the
// products of what is worth it.
#ifndef AICF_GEMM_PADDED_CUH
#define AICF_GEMM_PADDED_CUH

#include "batches.cuh"

#include <aicf/cuda/copy_engine.cuh>
#include <aicf/cuda/shift.cuh>

namespace aicf::gemm {

// ---- lines --------------------------------------------------------------------------------------

// `lines` lines of `length` 16-bit elements in each matrix of a batch, from anywhere to anywhere.
struct line_copy {
    const uint16_t *from;
    uint16_t *to;
    int64_t length, lines, matrices;
    int64_t from_pitch, to_pitch;
    int rank; // of the batch, innermost dim first
    int64_t sizes[kMostBatchDims], from_batch[kMostBatchDims], to_batch[kMostBatchDims];
    int64_t chunks; // of 16 bytes in a line of the target, one more where lines start within one
    int64_t blocks;
    bool narrow; // 32 bits hold the number of chunks
};

constexpr int kCopyThreads = 256;
constexpr int kCopyChunks = 2; // a thread's, on their way at once: 64 KiB a multiprocessor
constexpr int kChunkLanes = 8; // elements of a chunk

// Two copies in one launch: the second's blocks follow the first's.
struct line_copies {
    line_copy copy[2];
};

// A chunk of the target: its elements from `at` on in a line, of which [first, end) exist.
struct chunk_place {
    const uint16_t *from; // the line
    uint16_t *to;
    int64_t at;
};

// 64-bit divisions, a hundred instructions each, only where 32 bits do not hold the chunks.
__device__ inline chunk_place
chunk_of(const line_copy &c, int64_t index)
{
    int64_t line = c.narrow ? static_cast<uint32_t>(index) / static_cast<uint32_t>(c.chunks)
                            : index / c.chunks;
    chunk_place p = {c.from, c.to, index - line * c.chunks};
    int64_t matrix = 0;
    if (c.matrices > 1) {
        matrix = line / c.lines;
        line -= matrix * c.lines;
    }
    p.from += line * c.from_pitch;
    p.to += line * c.to_pitch;
    for (int dim = 0; dim < c.rank; dim++) {
        int64_t next = matrix / c.sizes[dim], digit = matrix - next * c.sizes[dim];
        p.from += digit * c.from_batch[dim];
        p.to += digit * c.to_batch[dim];
        matrix = next;
    }
    int phase = static_cast<int>(reinterpret_cast<uintptr_t>(p.to) % kPackBytes / 2);
    p.at = p.at * kChunkLanes - phase;
    return p;
}

// Whole chunks whose source lies within the line go as they are; the ends of lines one by one.
__device__ inline void
copy_chunk(const line_copy &c, const chunk_place &p)
{
    int64_t first = p.at < 0 ? 0 : p.at;
    int64_t end = p.at + kChunkLanes < c.length ? p.at + kChunkLanes : c.length;
    for (int64_t i = first; i < end; i++) {
        p.to[i] = p.from[i];
    }
}

__device__ inline void
copy_chunks(const line_copy &c, int64_t first)
{
    int64_t count = c.chunks * c.lines * c.matrices;
    chunk_place place[kCopyChunks];
    two_packs packs[kCopyChunks];
    bool whole[kCopyChunks];
#pragma unroll
    for (int i = 0; i < kCopyChunks; i++) {
        int64_t index = first + i * kCopyThreads;
        whole[i] = false;
        if (index < count) {
            place[i] = chunk_of(c, index);
            const uint16_t *from = place[i].from + place[i].at;
            whole[i] = place[i].at >= 0 && place[i].at + kChunkLanes <= c.length &&
                       packs[i].load(
                           reinterpret_cast<const char *>(from),
                           reinterpret_cast<const char *>(place[i].from),
                           reinterpret_cast<const char *>(place[i].from + c.length));
        }
    }
#pragma unroll
    for (int i = 0; i < kCopyChunks; i++) {
        if (whole[i]) {
            store_words(place[i].to + place[i].at, packs[i].value());
        } else if (first + i * kCopyThreads < count) {
            copy_chunk(c, place[i]);
        }
    }
}

__global__ void
__launch_bounds__(kCopyThreads, 4) lines(const __grid_constant__ line_copies copies)
{
    ptx::let_next_launch_begin();
    ptx::wait_for_launch_before();
    int64_t block = blockIdx.x;
    bool second = block >= copies.copy[0].blocks;
    block -= second ? copies.copy[0].blocks : 0;
    constexpr int64_t kBlock = kCopyThreads * kCopyChunks;
    if (second) {
        copy_chunks(copies.copy[1], block * kBlock + threadIdx.x);
    } else {
        copy_chunks(copies.copy[0], block * kBlock + threadIdx.x);
    }
}

// Launches of at most kMostBlocks hold 2^41 chunks, more than there is memory for.
inline aicf_status
launch_lines(line_copies copies, aicf_stream stream)
{
    for (line_copy &c : copies.copy) {
        bool on_chunks = phase_of(c.to) == 0 && c.to_pitch % kChunkLanes == 0;
        for (int dim = 0; dim < c.rank; dim++) {
            on_chunks = on_chunks && c.to_batch[dim] % kChunkLanes == 0;
        }
        c.chunks = ceil_div(c.length, kChunkLanes) + !on_chunks;
        int64_t count = c.chunks * c.lines * c.matrices;
        c.blocks = ceil_div(count, kCopyThreads * kCopyChunks);
        c.narrow = count < kMostBlocks;
    }
    int64_t blocks = copies.copy[0].blocks + copies.copy[1].blocks;
    return blocks == 0 ? aicf_ok()
                       : launch_waiting(
                             lines, static_cast<unsigned>(blocks), kCopyThreads, 0, stream, copies);
}

// ---- operands -----------------------------------------------------------------------------------

// An operand of a problem, to be looked at and replaced: `lines` of `length` neighbours.
struct placed {
    const uint16_t *data;
    int64_t length, lines, pitch;
    int64_t *batch;
};

// Whether the copy engine takes it as it lies; backwards is for the launcher to walk.
inline bool
engine_takes(const halves &p, const placed &x)
{
    bool takes =
        phase_of(x.data) == 0 && (x.lines == 1 || (x.pitch > 0 && x.pitch % kChunkLanes == 0));
    for (int dim = 0; dim < p.batch_rank; dim++) {
        takes = takes && x.batch[dim] % kChunkLanes == 0;
    }
    return takes;
}

// Memory handed out in order, at the L2's lines.
struct room {
    char *next;

    uint16_t *take(int64_t count)
    {
        uint16_t *taken = reinterpret_cast<uint16_t *>(next);
        next += ceil_div(count * 2, kLineBytes) * kLineBytes;
        return taken;
    }
};

// The copy between `x` and lines in `from_room`, of a pitch on the L2's lines; x becomes that
// place. Dims that x does not walk, of stride 0, are not copied. `out`: the copy is from there to
// x.
inline line_copy
move_to(room &from_room, const halves &p, placed &x, bool out)
{
    constexpr int64_t kLine = kLineBytes / 2;
    line_copy c = {};
    int64_t pitch = ceil_div(x.length, kLine) * kLine, step = x.lines * pitch;
    c.length = x.length;
    c.lines = x.lines;
    c.matrices = 1;
    for (int dim = 0; dim < p.batch_rank; dim++) {
        if (x.batch[dim] == 0) {
            continue;
        }
        c.sizes[c.rank] = p.batch_sizes[dim];
        (out ? c.to_batch : c.from_batch)[c.rank] = x.batch[dim];
        (out ? c.from_batch : c.to_batch)[c.rank++] = step;
        c.matrices *= p.batch_sizes[dim];
        x.batch[dim] = step;
        step *= p.batch_sizes[dim];
    }
    uint16_t *place = from_room.take(step);
    c.from = out ? place : x.data;
    c.to = out ? const_cast<uint16_t *>(x.data) : place;
    (out ? c.to_pitch : c.from_pitch) = x.pitch;
    (out ? c.from_pitch : c.to_pitch) = pitch;
    x.data = place;
    x.pitch = pitch;
    return c;
}

} // namespace aicf::gemm

#endif
