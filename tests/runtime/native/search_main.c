/* Searches of random graphs, with random prices: prints what the search and the lists answer.
 *
 * Usage: search_main GRAPHS SEED. Every processor prints the same. */
#include "../../../tvm_ios/search/native/list_decoder.c"
#define push push_set /* both files have one */
#include "../../../tvm_ios/search/native/state_space.c"
#undef push

#include <stdio.h>

#define MOST_OPERATORS 10
#define LANES 3

static uint64_t state;
static uint32_t draw(uint32_t bound) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(state >> 33) % bound;
}

static void search(int n, const set* successors, const set* predecessors) {
  set descendants[MOST_OPERATORS] = {0}, states[1 << MOST_OPERATORS];
  int64_t num_states = 0;
  int failed;
  for (int i = n; i--;) {
    descendants[i] = (set)1 << i; /* an operator is among its own */
    for (int j = i + 1; j < n; ++j)
      if (successors[i] >> j & 1) descendants[i] |= descendants[j];
  }
  for (set mask = 0; mask < (set)1 << n; ++mask) {
    int whole = 1;
    for (int i = 0; i < n; ++i)
      if (mask >> i & 1) whole &= !(predecessors[i] & ~mask);
    if (whole) states[num_states++] = mask;
  }
  space* p = tvm_ios_space_new(n, successors, descendants, num_states, states, 0, states, 3, 8,
                               (int)draw(2), 1, 1 << 20, &failed);
  if (!p) exit(1);
  int64_t stages = tvm_ios_space_stages(p);
  int64_t* prices_ns = malloc(sizeof(int64_t) * (size_t)(stages + 1));
  for (int64_t i = 0; i < stages; ++i) prices_ns[i] = 1000 + draw(100000);
  tvm_ios_space_start(p, prices_ns, 0);
  for (int round = 0; round < 5; ++round) {
    int32_t stage = (int32_t)draw((uint32_t)stages);
    int64_t price_ns = prices_ns[stage] + draw(5000);
    if (!tvm_ios_space_settle(p, 1, &stage, &price_ns, &price_ns)) exit(1);
  }
  int32_t path[MOST_OPERATORS];
  int length = tvm_ios_space_best_path(p, path);
  printf("%lld transitions, %lld stages, %lld:", (long long)tvm_ios_space_transitions(p),
         (long long)stages, (long long)tvm_ios_space_best_weight(p));
  for (int i = 0; i < length; ++i) printf(" %d", path[i]);
  free(prices_ns);
  tvm_ios_space_free(p);
}

static void list(int n, const set* predecessors) {
  int64_t alone_ns[MOST_OPERATORS], helped_ns[MOST_OPERATORS], lengths[4];
  int64_t fetch_ns[MOST_OPERATORS * MOST_OPERATORS];
  int32_t first[MOST_OPERATORS + 1] = {0}, sources[MOST_OPERATORS * MOST_OPERATORS], edges = 0;
  int64_t due_ns[MOST_OPERATORS];
  double keys[4 * 2 * MOST_OPERATORS];
  for (int i = 0; i < n; ++i) {
    alone_ns[i] = 1000 + draw(100000);
    due_ns[i] = draw(2) ? INT64_MAX : draw(200000);
    helped_ns[i] = alone_ns[i] * (LANES - draw(LANES)) / LANES;
    for (int j = 0; j < i; ++j)
      if (predecessors[i] >> j & 1) sources[edges] = j, fetch_ns[edges++] = draw(3000);
    first[i + 1] = edges;
  }
  for (int i = 0; i < 4 * 2 * n; ++i) keys[i] = draw(1000);
  list_problem problem = {n,     LANES,   300,      alone_ns, helped_ns,
                          first, sources, fetch_ns, due_ns};
  if (!tvm_ios_list_lengths(&problem, 4, keys, lengths)) exit(1);
  for (int i = 0; i < 4; ++i) printf(" %lld", (long long)lengths[i]);
}

int main(int count, char** words) {
  if (count != 3) return 2;
  state = (uint64_t)atoll(words[2]);
  for (int graph = atoi(words[1]); graph; --graph) {
    set successors[MOST_OPERATORS] = {0}, predecessors[MOST_OPERATORS] = {0};
    int n = 2 + (int)draw(MOST_OPERATORS - 1);
    for (int i = 0; i < n; ++i)
      for (int j = i + 1; j < n; ++j)
        if (!draw(3)) {
          successors[i] |= (set)1 << j;
          predecessors[j] |= (set)1 << i;
        }
    search(n, successors, predecessors);
    printf(", lists");
    list(n, predecessors);
    printf("\n");
  }
  return 0;
}
