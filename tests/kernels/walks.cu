// The host's part of walk.cuh against indexes counted one by one: what the device is told to walk
// over is every element once, in the order that is promised. Prints how many views were walked.
#include <cstdio>
#include <cstdlib>

#include <aicf/cuda/walk.cuh>

using namespace aicf;

static uint64_t state = 88172645463325252;

static int64_t
draw(int64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<int64_t>(state % static_cast<uint64_t>(below));
}

// Dims in any order in memory, some of one index, some with gaps, some backwards, some of stride 0.
static aicf_view
random_view()
{
    aicf_view x = {};
    x.rank = static_cast<int32_t>(draw(6));
    int order[AICF_MAX_RANK];
    for (int dim = 0; dim < x.rank; dim++) {
        int at = static_cast<int>(draw(dim + 1));
        order[dim] = order[at];
        order[at] = dim;
        x.sizes[dim] = 1 + draw(4);
    }
    int64_t stride = 1;
    for (int i = 0; i < x.rank; i++) {
        int64_t size = x.sizes[order[i]], kind = draw(8);
        x.strides[order[i]] = kind == 0 ? 0 : kind == 1 ? -stride : stride;
        stride *= size + (draw(4) == 0);
    }
    return x;
}

// Of unit i, as the device counts it: by dividers.
static int64_t
offset_of(const reduce::walk &w, uint32_t i)
{
    int64_t offset = 0;
    for (int dim = 0; dim < w.rank; dim++) {
        divider d = w.dividers[dim];
        uint32_t high = static_cast<uint32_t>(uint64_t{i} * d.multiplier >> 32);
        uint32_t next = dim + 1 < w.rank ? (high + i) >> d.shift : 0;
        offset += (i - next * d.divisor) * w.strides[dim];
        i = next;
    }
    return offset;
}

// Index i of the dims whose bit in `axes` is `chosen`, in their order: the offset in x.
static int64_t
counted(const aicf_view &x, uint32_t axes, bool chosen, int64_t i)
{
    int64_t offset = 0;
    for (int dim = x.rank - 1; dim >= 0; dim--) {
        if ((axes >> dim & 1) == static_cast<uint32_t>(chosen)) {
            offset += i % x.sizes[dim] * x.strides[dim];
            i /= x.sizes[dim];
        }
    }
    return offset;
}

// The out of element i of x, in the order of x.
static int64_t
out_of(const aicf_view &x, uint32_t axes, int64_t i)
{
    int64_t out = 0, scale = 1;
    for (int dim = x.rank - 1; dim >= 0; dim--) {
        if (!(axes >> dim & 1)) {
            out += i % x.sizes[dim] * scale;
            scale *= x.sizes[dim];
        }
        i /= x.sizes[dim];
    }
    return out;
}

static void
expect(bool right, const char *what, const aicf_view &x, uint32_t axes, int64_t i)
{
    if (right) {
        return;
    }
    printf("%s at %lld of axes %u over", what, static_cast<long long>(i), axes);
    for (int dim = 0; dim < x.rank; dim++) {
        printf(
            " %lld by %lld", static_cast<long long>(x.sizes[dim]),
            static_cast<long long>(x.strides[dim]));
    }
    printf("\n");
    exit(1);
}

static void
check(const aicf_view &x, uint32_t axes)
{
    reduce::joint d = reduce::joint_of(x, axes);
    reduce::walk of_x = reduce::walk_of(d.x, 1), of_outs = reduce::walk_of(d.outs, 1);
    for (int64_t i = 0; i < numel(&x); i++) {
        uint32_t unit = static_cast<uint32_t>(i);
        expect(offset_of(of_x, unit) == counted(x, ~0u, true, i), "x", x, axes, i);
        expect(offset_of(of_outs, unit) == out_of(x, axes, i), "outs", x, axes, i);
    }

    // The kept in the order of the outs, the reduced in that of x where it counts.
    for (bool ordered : {false, true}) {
        reduce::problem p = reduce::problem_of(x, axes, ordered);
        reduce::walk kept = reduce::walk_of(p.kept, 1), reduced = reduce::walk_of(p.reduced, 1);
        int64_t sum = 0, want = 0;
        for (int64_t o = 0; o < p.outs; o++) {
            bool right = offset_of(kept, static_cast<uint32_t>(o)) == counted(x, axes, false, o);
            expect(right, "kept", x, axes, o);
        }
        for (int64_t i = 0; i < p.length; i++) {
            int64_t found = offset_of(reduced, static_cast<uint32_t>(i));
            int64_t right = counted(x, axes, true, i);
            expect(!ordered || found == right, "reduced", x, axes, i);
            sum += found * found + found;
            want += right * right + right;
        }
        expect(sum == want && p.outs * p.length == numel(&x), "all of the reduced", x, axes, -1);
    }
}

int
main()
{
    int count = 0;
    for (; count < 20000; count++) {
        aicf_view x = random_view();
        check(x, static_cast<uint32_t>(draw(int64_t{1} << x.rank)));
    }
    printf("%d\n", count);
    return 0;
}
