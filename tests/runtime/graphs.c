/* Graphs of the CUDA backend over SHIM: what is kept, what is made of it, and what is left where a
   call fails. */
#define _GNU_SOURCE
#include "check.h"

#include <aicf/backend/cuda.h>

#include "kernel.h"
#include "shim.h"

static const aicf_backend *const cuda = &aicf_backend_cuda;
static const aicf_device one = {2, 1}, none = {2, 7};
static float data[4096];
static aicf_stream stream;

static aicf_stream
stream_at(int number)
{
    return (aicf_stream)(uintptr_t)number;
}

/* Begins a capture of so many launches. */
static void
keep(int launches)
{
    CHECK_INT(cuda->begin_graph(one, stream).kind, AICF_OK);
    for (int i = 0; i < launches; i++) {
        CHECK_INT(test_count_up(data, 10, 1, stream).kind, AICF_OK);
    }
}

static aicf_status
finish(aicf_graph *graph, bool change, bool *changed)
{
    int64_t nodes = -1;
    aicf_status status = cuda->end_graph(one, stream, graph, change, changed, &nodes);
    CHECK(status.kind || !graph || nodes > 0);
    return status;
}

/* Whatever was done, the caller's device and the thread's error are what they were. */
static void
check_rest(void)
{
    CHECK_INT(shim_device(), 0);
    CHECK_INT(test_last_error(), 0);
}

TEST(graph_of_launches, "GRAPH-capture")
{
    bool changed = true;
    int64_t nodes = 0;
    aicf_graph graph = NULL;
    CHECK_INT(cuda->create_stream(one, &stream).kind, AICF_OK);
    keep(3);
    CHECK_INT(shim_count("cudaLaunchKernel"), 0);
    CHECK_INT(cuda->end_graph(one, stream, &graph, true, &changed, &nodes).kind, AICF_OK);
    CHECK(graph && !changed);
    CHECK_INT(nodes, 3);
    CHECK_INT(cuda->launch_graph(one, stream_at(1), graph).kind, AICF_OK);
    CHECK_INT(cuda->launch_graph(one, stream, graph).kind, AICF_OK);
    CHECK_INT(shim_count("cudaLaunchKernel"), 6);
    CHECK_INT(shim_count("cudaGraphLaunch"), 2);
    CHECK_INT(cuda->destroy_graph(one, graph).kind, AICF_OK);
    CHECK_INT(shim_count("cudaGraphDestroy"), 1);
    check_rest();
}

TEST(graph_that_is_changed, "GRAPH-update")
{
    bool changed = false;
    aicf_graph graph = NULL, before;
    CHECK_INT(cuda->create_stream(one, &stream).kind, AICF_OK);
    keep(2);
    CHECK_INT(finish(&graph, false, &changed).kind, AICF_OK);
    before = graph;
    keep(2);
    CHECK_INT(finish(&graph, true, &changed).kind, AICF_OK);
    CHECK(changed && graph == before);
    keep(3); /* is refused, and made anew */
    CHECK_INT(finish(&graph, true, &changed).kind, AICF_OK);
    CHECK(!changed && graph != before);
    CHECK_INT(shim_count("cudaGraphExecDestroy"), 1);
    before = graph;
    keep(3);
    CHECK_INT(finish(&graph, false, &changed).kind, AICF_OK);
    CHECK(!changed && graph != before);
    CHECK_INT(shim_count("cudaGraphExecUpdate"), 2);
    shim_fail("cudaGraphInstantiate", 2, 1);
    before = graph;
    keep(1);
    CHECK_INT(finish(&graph, true, &changed).native, 2);
    CHECK(graph == before);
    CHECK_INT(cuda->launch_graph(one, stream, graph).kind, AICF_OK);
    CHECK_INT(shim_count("cudaLaunchKernel"), 3);
    check_rest();
}

TEST(graph_that_fails, "GRAPH-failure")
{
    static const int codes[] = {2, 700, 900, 901};
    bool changed;
    aicf_graph graph = NULL;
    CHECK_INT(cuda->create_stream(one, &stream).kind, AICF_OK);
    CHECK_INT(cuda->begin_graph(none, stream).native, 101);
    CHECK_INT(cuda->begin_graph(one, NULL).native, 900);
    CHECK_INT(cuda->begin_graph(one, stream_at(1)).native, 900);
    CHECK_INT(finish(&graph, false, &changed).native, 401); /* nothing was begun */
    check_rest();
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        shim_fail("cudaStreamBeginCapture", codes[i], 1);
        CHECK_INT(cuda->begin_graph(one, stream).native, codes[i]);
        shim_fail("cudaStreamEndCapture", codes[i], 1);
        keep(1);
        CHECK_INT(finish(&graph, false, &changed).native, codes[i]);
        shim_fail("cudaGraphGetNodes", codes[i], 1);
        keep(1);
        CHECK_INT(finish(&graph, false, &changed).native, codes[i]);
        CHECK(!graph);
        check_rest();
    }
    keep(1);
    CHECK_INT(cuda->begin_graph(one, stream).kind, AICF_BACKEND_ERROR);
    CHECK_INT(cuda->end_graph(one, stream, NULL, false, NULL, NULL).kind, AICF_OK);
    CHECK_INT(shim_count("cudaGraphInstantiate"), 0);
    keep(1);
    CHECK_INT(finish(&graph, false, &changed).kind, AICF_OK);
    CHECK_INT(cuda->launch_graph(none, stream, graph).native, 101);
    shim_fail("cudaGraphLaunch", 719, 1);
    CHECK_INT(cuda->launch_graph(one, stream, graph).native, 719);
    CHECK_INT(cuda->destroy_graph(none, graph).native, 101);
    CHECK_INT(shim_count("cudaLaunchKernel"), 0);
    check_rest();
}

/* What a capture forbids to its thread ends it, and says so. */
TEST(graph_that_is_spoiled, "GRAPH-failure")
{
    bool changed;
    char text[400];
    aicf_graph graph = NULL;
    CHECK_INT(cuda->create_stream(one, &stream).kind, AICF_OK);
    keep(1);
    CHECK_INT(cuda->synchronize(one, stream_at(1)).native, 900);
    CHECK_INT(test_count_up(data, 10, 1, stream).native, 901);
    CHECK(cuda->spoiled_graph(901) && !cuda->spoiled_graph(900) && !cuda->spoiled_graph(0));
    aicf_status status = finish(&graph, false, &changed);
    CHECK_INT(status.native, 901);
    cuda->error_text(status.native, text, sizeof text);
    CHECK_TEXT(text, "While the stream was captured its thread did what a capture does not allow");
    check_rest();
    keep(1);
    CHECK_INT(finish(&graph, false, &changed).kind, AICF_OK);
    CHECK_INT(cuda->launch_graph(one, stream, graph).kind, AICF_OK);
    check_rest();
}

/* What the next launch follows is asked and said between the two ends of a capture. */
TEST(graph_in_another_order, "GRAPH-branches")
{
    bool changed;
    int64_t count = -1;
    aicf_graph graph = NULL;
    aicf_node leaves[3][2];
    CHECK_INT(cuda->create_stream(one, &stream).kind, AICF_OK);
    CHECK_INT(cuda->graph_leaves(one, stream, leaves[0], 2, &count).native, 401);
    CHECK_INT(cuda->graph_after(one, stream, NULL, 0, true).native, 401);
    check_rest();
    CHECK_INT(cuda->begin_graph(one, stream).kind, AICF_OK);
    CHECK_INT(cuda->graph_leaves(one, stream, leaves[0], 2, &count).kind, AICF_OK);
    CHECK_INT(count, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_INT(cuda->graph_after(one, stream, NULL, 0, false).kind, AICF_OK);
        CHECK_INT(test_count_up(data, 10, 1, stream).kind, AICF_OK);
        CHECK_INT(cuda->graph_leaves(one, stream, leaves[i], 1, &count).kind, AICF_OK);
        CHECK_INT(count, 1);
    }
    leaves[0][1] = leaves[1][0];
    CHECK_INT(cuda->graph_after(one, stream, leaves[0], 2, false).kind, AICF_OK);
    CHECK_INT(cuda->graph_leaves(one, stream, leaves[2], 1, &count).kind, AICF_OK);
    CHECK_INT(count, 2); /* of which there was room for one */
    CHECK(leaves[2][0] == leaves[0][0] || leaves[2][0] == leaves[0][1]);
    CHECK_INT(test_count_up(data, 10, 1, stream).kind, AICF_OK);
    CHECK_INT(cuda->graph_leaves(none, stream, leaves[2], 1, &count).native, 101);
    CHECK_INT(cuda->graph_after(none, stream, leaves[2], 1, true).native, 101);
    CHECK_INT(finish(&graph, false, &changed).kind, AICF_OK);
    CHECK_INT(cuda->launch_graph(one, stream_at(1), graph).kind, AICF_OK);
    CHECK_TEXT(shim_log(), "node=0 after=- on=0x1");
    CHECK_TEXT(shim_log(), "node=1 after=- on=0x1");
    CHECK_TEXT(shim_log(), "node=2 after=0,1 on=0x1");
    check_rest();
}
