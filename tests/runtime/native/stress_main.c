/* Random programs on real lanes: every launch checks that what it waits for has run, exactly once.
 *
 * Usage: stress_main LANES PROGRAMS SEED. Exit 0 if all is well. Built plain, and with the thread
 * sanitizer where there is one. */
#include "lane_executor.c"

#include <stdio.h>

#define MAX_GROUPS 200
#define MAX_LENGTH 4

typedef struct {
  int64_t run; /* the run it last took part in; written without atomics on purpose */
  int32_t count;
  const int32_t* before;
  int32_t num_before;
  int32_t fails;
  int32_t tasks[64];
} Node;

static Node nodes[MAX_GROUPS * MAX_LENGTH];

static int count_task(int task, TVMParallelGroupEnv* env, void* cdata) {
  Node* node = cdata;
  for (int i = task; i < 64; i += env->num_task) node->tasks[i]++;
  return 0;
}

static int32_t check_node(TVMValue* args, int32_t* codes, int32_t count, TVMValue* result,
                          int32_t* result_code, void* resource) {
  Node* node = resource;
  (void)args, (void)codes, (void)count, (void)result, (void)result_code;
  if (node->fails) return -1;
  for (int32_t i = 0; i < node->num_before; ++i)
    if (nodes[node->before[i]].run != node->run + 1) abort();
  if (tvm_ios_parallel_launch(count_task, node, 0)) abort();
  node->run++;
  return 0;
}

static uint64_t state;
static uint32_t draw(uint32_t bound) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(state >> 33) % bound;
}

static void run_random_program(Pool* pool, int with_failure) {
  static Launch launches[MAX_GROUPS * MAX_LENGTH];
  static Launch* order[MAX_GROUPS * MAX_LENGTH];
  static int32_t rows[MAX_GROUPS + 1], first[MAX_GROUPS];
  static int32_t successor_rows[MAX_GROUPS + 1], successors[MAX_GROUPS * 8];
  static int32_t before[MAX_GROUPS * MAX_LENGTH][8], from[MAX_GROUPS * 8], to[MAX_GROUPS * 8];
  int32_t groups = 1 + (int32_t)draw(MAX_GROUPS), total = 0, edges = 0;
  memset(nodes, 0, sizeof(nodes));
  for (int32_t group = 0; group < groups; ++group) {
    int32_t length = 1 + (int32_t)draw(MAX_LENGTH);
    first[group] = rows[group] = total;
    for (int32_t i = 0; i < length; ++i, ++total) {
      launches[total] = (Launch){check_node, NULL, NULL, &nodes[total], 0, draw(4) == 0};
      order[total] = &launches[total];
      nodes[total].before = before[total];
      if (i) before[total][nodes[total].num_before++] = total - 1;
    }
    for (uint32_t i = draw(4); i && group; --i) {
      int32_t earlier = group - 1 - (int32_t)draw(group < 8 ? (uint32_t)group : 8);
      Node* head = &nodes[first[group]];
      int32_t last = rows[earlier + 1] - 1, known = 0;
      for (int32_t k = 0; k < head->num_before; ++k) known |= before[first[group]][k] == last;
      if (known) continue;
      before[first[group]][head->num_before++] = last;
      from[edges] = earlier;
      to[edges++] = group;
    }
    rows[group + 1] = total;
  }
  int32_t filled = 0;
  for (int32_t group = 0; group < groups; ++group) {
    successor_rows[group] = filled;
    for (int32_t edge = 0; edge < edges; ++edge)
      if (from[edge] == group) successors[filled++] = to[edge];
  }
  successor_rows[groups] = filled;
  int32_t homes[MAX_GROUPS], num_homes = 1 + (int32_t)draw((uint32_t)pool->options.lanes);
  for (int32_t group = 0; group < groups; ++group) homes[group] = (int32_t)draw((uint32_t)num_homes);
  Program* program = tvm_ios_program_create(groups, order, rows, successor_rows, successors, homes,
                                            num_homes, NULL);
  int64_t elapsed_ns, done;
  if (with_failure) {
    int32_t victim = (int32_t)draw((uint32_t)total);
    nodes[victim].fails = 1;
    if (tvm_ios_run(pool, program, 3, 0, 0, NULL, NULL) != RUN_FAILED) abort();
    if (tvm_ios_failed_position() != victim) abort();
    for (int32_t i = 0; i < total; ++i) {
      nodes[i].fails = nodes[i].count = 0;
      nodes[i].run = 0;
      memset(nodes[i].tasks, 0, sizeof(nodes[i].tasks));
    }
  }
  int64_t number = 0;
  for (int run = 0; run < 2; ++run) { /* the second one begins with what the first has left */
    int64_t times = 1 + draw(10);
    if (tvm_ios_run(pool, program, times, 0, (int)draw(2), &elapsed_ns, &done) != RUN_DONE) abort();
    if (done != times) abort();
    number += times;
  }
  for (int32_t i = 0; i < total; ++i) {
    if (nodes[i].run != number) abort();
    for (int task = 0; task < 64; ++task)
      if (nodes[i].tasks[task] != number) abort();
  }
  tvm_ios_program_free(program);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  PoolOptions options = {.lanes = atoi(argv[1]), .tasks_per_lane = 2, .spin_ns = 20000};
  int programs = atoi(argv[2]);
  state = (uint64_t)atoll(argv[3]);
  for (int round = 0; round < programs; round += 50) {
    options.jitter_seed = round % 100 ? 0 : (uint64_t)round + 1;
    Pool* pool = tvm_ios_pool_create(&options);
    for (int i = 0; i < 50; ++i) {
      run_random_program(pool, draw(8) == 0);
      if (draw(4) == 0) usleep(draw(200)); /* lets lanes fall asleep */
    }
    double latency_ns;
    if (tvm_ios_ping_pong(pool, 20, &latency_ns) != RUN_DONE) abort();
    tvm_ios_pool_free(pool);
  }
  puts("ok");
  return 0;
}
