/* The state space of a schedule block of at most 64 operators: the compiled twin of
 * PythonStateSpace in python_space.py, with the same orders, so that both give the same answers.
 *
 * Sets are 64-bit masks. States are predecessor-closed sets, ascending as numbers; state 0 is the
 * empty one. Stages are numbered merges first, then concurrent stages as they are found.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_LIMBS 7 /* 448 bits: more than the ordered partitions of 64 operators, merges and all */
/* The weight of a stage is its price, or a bound of it, in nanoseconds, shifted, plus 1: of equal
 * ways the one with fewer stages is best. A bound adds UNPRICED: of equal ways a priced one is. */
#define WEIGHT_SHIFT 20
#define UNPRICED 1024

typedef uint64_t set;

typedef struct {
  int64_t length, capacity;
  set *data;
} sets;

typedef struct {
  int n, max_group_size, max_num_groups, complete, concurrent;
  const set *successors, *descendants;
  int64_t max_transitions;
  int failed; /* 1: out of memory, 2: too many transitions */

  int64_t num_states, num_transitions, num_stages, num_merges, num_sinks;
  set *states;
  int64_t *first; /* transitions of state i are first[i] .. first[i + 1] */
  int32_t *stage_of, *next_of;
  int64_t transition_capacity;
  sets stage_masks, group_masks;
  int64_t *group_first; /* groups of stage i are group_first[i] .. group_first[i + 1] */
  int64_t group_capacity;

  int64_t *weights, *values, *best;
  uint8_t *priced, *changed, *moved;

  /* Hash tables with open addressing: keys are nonzero masks, 0 is an empty slot. */
  set *stage_keys;
  int32_t *stage_slots;
  int64_t stage_table_size;
  set *state_keys;
  int32_t *state_slots;
  int64_t state_table_size;

  sets cones, groups, seen, pool;
  set chosen[64];
} space;

static int count(set mask) { return __builtin_popcountll(mask); }
static int lowest(set mask) { return __builtin_ctzll(mask); }
/* The low bits of a product depend on the low bits of the mask alone, so they are shifted out. */
static uint64_t hash(set mask) { return (mask * 0x9E3779B97F4A7C15ull) >> 20; }

static int push(space *p, sets *list, set mask) {
  if (list->length == list->capacity) {
    int64_t capacity = list->capacity ? 2 * list->capacity : 64;
    set *data = realloc(list->data, capacity * sizeof(set));
    if (!data) {
      p->failed = 1;
      return 0;
    }
    list->data = data;
    list->capacity = capacity;
  }
  list->data[list->length++] = mask;
  return 1;
}

static int build_table(space *p, const set *masks, int64_t length, int64_t size, set **keys,
                       int32_t **slots) {
  free(*keys);
  free(*slots);
  *keys = calloc(size, sizeof(set));
  *slots = malloc(size * sizeof(int32_t));
  if (!*keys || !*slots) {
    p->failed = 1;
    return 0;
  }
  for (int64_t i = 0; i < length; i++) {
    if (!masks[i]) continue;
    uint64_t at = hash(masks[i]) & (size - 1);
    while ((*keys)[at]) at = (at + 1) & (size - 1);
    (*keys)[at] = masks[i];
    (*slots)[at] = (int32_t)i;
  }
  return 1;
}

static int32_t state_index(const space *p, set mask) {
  if (!mask) return 0;
  uint64_t at = hash(mask) & (p->state_table_size - 1);
  while (p->state_keys[at] != mask) at = (at + 1) & (p->state_table_size - 1);
  return p->state_slots[at];
}

static int add_stage(space *p, set mask, const set *groups, int num_groups) {
  if (p->num_stages + 2 > p->group_capacity) {
    int64_t capacity = p->group_capacity ? 2 * p->group_capacity : 256;
    int64_t *first = realloc(p->group_first, capacity * sizeof(int64_t));
    if (!first) {
      p->failed = 1;
      return 0;
    }
    p->group_first = first;
    p->group_capacity = capacity;
  }
  if (!push(p, &p->stage_masks, mask)) return 0;
  p->group_first[p->num_stages] = p->group_masks.length;
  /* Sort the groups by their lowest operator; by insertion, for there are few. */
  for (int i = 0; i < num_groups; i++) {
    if (!push(p, &p->group_masks, groups[i])) return 0;
    set *begin = p->group_masks.data + p->group_first[p->num_stages];
    for (int j = i; j > 0 && lowest(begin[j - 1]) > lowest(begin[j]); j--) {
      set other = begin[j];
      begin[j] = begin[j - 1];
      begin[j - 1] = other;
    }
  }
  p->num_stages++;
  p->group_first[p->num_stages] = p->group_masks.length;
  return 1;
}

static int32_t concurrent_stage(space *p, set mask, int num_groups) {
  int64_t concurrent = p->num_stages - p->num_merges;
  if (2 * concurrent >= p->stage_table_size) {
    int64_t size = p->stage_table_size ? 4 * p->stage_table_size : 1024;
    const set *masks = p->stage_masks.data + p->num_merges;
    if (!build_table(p, masks, concurrent, size, &p->stage_keys, &p->stage_slots)) return -1;
    p->stage_table_size = size;
  }
  uint64_t at = hash(mask) & (p->stage_table_size - 1);
  while (p->stage_keys[at]) {
    if (p->stage_keys[at] == mask) return p->stage_slots[at] + (int32_t)p->num_merges;
    at = (at + 1) & (p->stage_table_size - 1);
  }
  p->stage_keys[at] = mask;
  p->stage_slots[at] = (int32_t)concurrent;
  if (!add_stage(p, mask, p->chosen, num_groups)) return -1;
  return (int32_t)p->num_stages - 1;
}

static int add_transition(space *p, set state, set ending, int32_t stage) {
  if (stage < 0) return 0;
  if (p->num_transitions == p->max_transitions) {
    p->failed = 2;
    return 0;
  }
  if (p->num_transitions == p->transition_capacity) {
    int64_t capacity = p->transition_capacity ? 2 * p->transition_capacity : 4096;
    int32_t *stage_of = realloc(p->stage_of, capacity * sizeof(int32_t));
    /* Each at once: its old address is gone, even if there is no memory for the other. */
    if (stage_of) p->stage_of = stage_of;
    int32_t *next_of = realloc(p->next_of, capacity * sizeof(int32_t));
    if (next_of) p->next_of = next_of;
    if (!stage_of || !next_of) {
      p->failed = 1;
      return 0;
    }
    p->transition_capacity = capacity;
  }
  p->stage_of[p->num_transitions] = stage;
  p->next_of[p->num_transitions++] = state_index(p, state ^ ending);
  return 1;
}

static int ascending(const void *a, const void *b) {
  set x = *(const set *)a, y = *(const set *)b;
  return (x > y) - (x < y);
}

/* Whether a group is new. `seen` is a hash table of what lies in `groups`, with 0 in an empty slot;
 * it doubles as they become more. */
static int insert_seen(space *p, set group) {
  if (2 * p->groups.length >= p->seen.length) {
    int64_t size = p->seen.length ? 2 * p->seen.length : 256;
    if (size > p->seen.capacity) {
      set *data = realloc(p->seen.data, size * sizeof(set));
      if (!data) {
        p->failed = 1;
        return 0;
      }
      p->seen.data = data;
      p->seen.capacity = size;
    }
    memset(p->seen.data, 0, size * sizeof(set));
    p->seen.length = size;
    for (int64_t i = 0; i < p->groups.length; i++) {
      uint64_t at = hash(p->groups.data[i]) & (size - 1);
      while (p->seen.data[at]) at = (at + 1) & (size - 1);
      p->seen.data[at] = p->groups.data[i];
    }
  }
  uint64_t at = hash(group) & (p->seen.length - 1);
  while (p->seen.data[at]) {
    if (p->seen.data[at] == group) return 0;
    at = (at + 1) & (p->seen.length - 1);
  }
  p->seen.data[at] = group;
  return 1;
}

static int find_groups(space *p, set state) {
  int limit = p->max_group_size ? p->max_group_size : 64;
  p->cones.length = p->groups.length = 0;
  for (set rest = state; rest; rest &= rest - 1) {
    set cone = p->descendants[lowest(rest)] & state;
    if (count(cone) <= limit && !(push(p, &p->cones, cone) && push(p, &p->groups, cone))) return 0;
  }
  if (p->complete && limit > 1) {
    /* Begin small again, so that only what this state uses is cleared: an earlier one may have had
     * many more groups. */
    p->seen.length = 0;
    int64_t cones = p->groups.length;
    p->groups.length = 0;
    for (int64_t i = 0; i < cones; i++) {
      if (insert_seen(p, p->cones.data[i]))
        if (!push(p, &p->groups, p->cones.data[i])) return 0;
      if (p->failed) return 0;
    }
    for (int64_t i = 0; i < p->groups.length; i++) {
      for (int64_t j = 0; j < cones; j++) {
        set group = p->groups.data[i], cone = p->cones.data[j], both = group | cone;
        if (!(group & cone) || both == group || count(both) > limit) continue;
        if (insert_seen(p, both) && !push(p, &p->groups, both)) return 0;
        if (p->failed || p->groups.length > p->max_transitions) {
          if (!p->failed) p->failed = 2;
          return 0;
        }
      }
    }
  }
  qsort(p->groups.data, p->groups.length, sizeof(set), ascending);
  return 1;
}

/* Add the transitions of a state whose stages have the groups chosen[0 .. depth), together `used`,
 * and 1 to `left` more of pool[begin .. end). */
static int extend(space *p, set state, set used, int64_t begin, int64_t end, int depth, int left) {
  for (int64_t i = begin; i < end; i++) {
    /* A copy of the group, since the pool may move where it grows. */
    set group = p->pool.data[i], ending = used | group;
    p->chosen[depth] = group;
    if (!add_transition(p, state, ending, concurrent_stage(p, ending, depth + 1))) return 0;
    if (left == 1) continue;
    p->pool.length = end;
    for (int64_t j = i + 1; j < end; j++)
      if (!(p->pool.data[j] & group) && !push(p, &p->pool, p->pool.data[j])) return 0;
    if (p->pool.length > end &&
        !extend(p, state, ending, end, p->pool.length, depth + 1, left - 1))
      return 0;
  }
  return 1;
}

static set sinks_of(const space *p, set state) {
  set sinks = 0;
  for (set rest = state; rest; rest &= rest - 1)
    if (!(p->successors[lowest(rest)] & state)) sinks |= rest & -rest;
  return sinks;
}

static int enumerate(space *p) {
  p->first[0] = p->first[1] = 0;
  for (int64_t i = 1; i < p->num_states; i++) {
    set state = p->states[i], sinks = sinks_of(p, state);
    p->num_sinks += count(sinks);
    for (int64_t m = 0; m < p->num_merges; m++) {
      set mask = p->stage_masks.data[m];
      if (!(mask & ~sinks) && !add_transition(p, state, mask, (int32_t)m)) return 0;
    }
    if (p->concurrent) {
      if (!find_groups(p, state)) return 0;
      p->pool.length = 0;
      for (int64_t g = 0; g < p->groups.length; g++)
        if (!push(p, &p->pool, p->groups.data[g])) return 0;
      int most = p->max_num_groups ? p->max_num_groups : 64;
      if (!extend(p, state, 0, 0, p->pool.length, 0, most)) return 0;
    } else {
      for (set rest = sinks; rest; rest &= rest - 1) {
        p->chosen[0] = rest & -rest;
        int32_t stage = concurrent_stage(p, p->chosen[0], 1);
        if (!add_transition(p, state, p->chosen[0], stage)) return 0;
      }
    }
    p->first[i + 1] = p->num_transitions;
  }
  return 1;
}

void tvm_ios_space_free(space *p) {
  if (!p) return;
  void *owned[] = {p->states,      p->first,           p->stage_of,         p->next_of,
                   p->group_first, p->weights,         p->values,           p->best,
                   p->priced,      p->changed,         p->moved,            p->stage_keys,
                   p->stage_slots, p->state_keys,      p->state_slots,      p->cones.data,
                   p->groups.data, p->seen.data,       p->pool.data,        p->stage_masks.data,
                   p->group_masks.data};
  for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) free(owned[i]);
  free(p);
}

/* Returns the space or NULL; *failed then is 1 (out of memory) or 2 (too many transitions). */
space *tvm_ios_space_new(int n, const set *successors, const set *descendants, int64_t num_states,
                         const set *states, int64_t num_merges, const set *merges,
                         int max_group_size, int max_num_groups, int complete, int concurrent,
                         int64_t max_transitions, int *failed) {
  *failed = 1;
  space *p = calloc(1, sizeof(space));
  if (!p) return NULL;
  p->n = n;
  p->successors = successors;
  p->descendants = descendants;
  p->max_group_size = max_group_size;
  p->max_num_groups = max_num_groups;
  p->complete = complete;
  p->concurrent = concurrent;
  p->max_transitions = max_transitions;
  p->num_states = num_states;
  p->states = malloc(num_states * sizeof(set));
  p->first = malloc((num_states + 1) * sizeof(int64_t));
  p->values = malloc(num_states * sizeof(int64_t));
  p->best = malloc(num_states * sizeof(int64_t));
  p->moved = malloc(num_states);
  p->state_table_size = 16;
  while (p->state_table_size < 2 * num_states) p->state_table_size *= 2;
  int ok = p->states && p->first && p->values && p->best && p->moved;
  if (ok) memcpy(p->states, states, num_states * sizeof(set));
  ok = ok && build_table(p, states, num_states, p->state_table_size, &p->state_keys,
                         &p->state_slots);
  for (int64_t m = 0; ok && m < num_merges; m++) {
    int members = 0;
    for (set rest = merges[m]; rest; rest &= rest - 1) p->chosen[members++] = rest & -rest;
    ok = add_stage(p, merges[m], p->chosen, members);
    p->num_merges = m + 1;
  }
  ok = ok && enumerate(p);
  if (ok) {
    p->weights = malloc((p->num_stages + 1) * sizeof(int64_t));
    p->priced = malloc(p->num_stages + 1);
    p->changed = malloc(p->num_stages + 1);
    ok = p->weights && p->priced && p->changed;
  }
  /* These arrays belong to the caller, who may free them once this returns. */
  p->successors = p->descendants = NULL;
  if (ok) {
    *failed = 0;
    return p;
  }
  if (p->failed) *failed = p->failed;
  tvm_ios_space_free(p);
  return NULL;
}

int64_t tvm_ios_space_transitions(const space *p) { return p->num_transitions; }
int64_t tvm_ios_space_stages(const space *p) { return p->num_stages; }
int64_t tvm_ios_space_sinks(const space *p) { return p->num_sinks; }
const set *tvm_ios_space_stage_masks(const space *p) { return p->stage_masks.data; }
const int64_t *tvm_ios_space_group_first(const space *p) { return p->group_first; }
const set *tvm_ios_space_group_masks(const space *p) { return p->group_masks.data; }
int64_t tvm_ios_space_best_weight(const space *p) { return p->values[p->num_states - 1]; }

/* Write the number of ways from the full state to the empty one as COUNT_LIMBS words, the lowest
 * first; returns 0 when out of memory. */
int tvm_ios_space_count_schedules(const space *p, uint64_t *limbs) {
  uint64_t *counts = calloc(p->num_states, COUNT_LIMBS * sizeof(uint64_t));
  if (!counts) return 0;
  counts[0] = 1;
  for (int64_t i = 1; i < p->num_states; i++) {
    uint64_t *sum = counts + i * COUNT_LIMBS;
    for (int64_t t = p->first[i]; t < p->first[i + 1]; t++) {
      const uint64_t *term = counts + (int64_t)p->next_of[t] * COUNT_LIMBS;
      unsigned __int128 carry = 0;
      for (int k = 0; k < COUNT_LIMBS; k++) {
        carry += (unsigned __int128)sum[k] + term[k];
        sum[k] = (uint64_t)carry;
        carry >>= 64;
      }
    }
  }
  memcpy(limbs, counts + (p->num_states - 1) * COUNT_LIMBS, COUNT_LIMBS * sizeof(uint64_t));
  free(counts);
  return 1;
}

static void solve(space *p, int64_t state, int priced_only) {
  int64_t least = INT64_MAX, best = -1;
  for (int64_t t = p->first[state]; t < p->first[state + 1]; t++) {
    if (priced_only && !p->priced[p->stage_of[t]]) continue;
    int64_t value = p->weights[p->stage_of[t]] + p->values[p->next_of[t]];
    if (value < least) {
      least = value;
      best = t;
    }
  }
  p->values[state] = least;
  p->best[state] = best;
}

static void solve_all(space *p, int priced_only) {
  p->values[0] = 0;
  for (int64_t i = 1; i < p->num_states; i++) solve(p, i, priced_only);
}

void tvm_ios_space_start(space *p, const int64_t *prices_ns, int priced) {
  memset(p->priced, priced, p->num_stages);
  for (int64_t i = 0; i < p->num_stages; i++)
    p->weights[i] = (prices_ns[i] << WEIGHT_SHIFT) + 1 + (priced ? 0 : UNPRICED);
  solve_all(p, 0);
}

/* Stages that contain a priced one, each of its groups within a group of its own, cost no less. */
static void raise_containing(space *p, int32_t stage, int64_t weight) {
  set mask = p->stage_masks.data[stage];
  int merged = stage < p->num_merges;
  int64_t num_groups = p->group_first[stage + 1] - p->group_first[stage];
  int64_t begin = merged || count(mask) == 1 ? 0 : p->num_merges;
  int64_t end = merged ? p->num_merges : p->num_stages;
  for (int64_t other = begin; other < end; other++) {
    if ((mask & p->stage_masks.data[other]) != mask || p->weights[other] >= weight ||
        p->priced[other])
      continue;
    if (num_groups > 1 && !merged) {
      int64_t touched = 0;
      for (int64_t g = p->group_first[other]; g < p->group_first[other + 1]; g++)
        touched += (p->group_masks.data[g] & mask) != 0;
      if (touched != num_groups) continue;
    }
    p->weights[other] = weight;
    p->changed[other] = 1;
  }
}

/* Solve again the states that changed weights reach: those whose best way uses a changed stage or
 * a moved state, and those that hold a stage that became cheaper. */
static void update(space *p, const set *cheaper, int64_t num_cheaper) {
  memset(p->moved, 0, p->num_states);
  for (int64_t i = 1; i < p->num_states; i++) {
    int64_t best = p->best[i];
    int dirty = p->changed[p->stage_of[best]] || p->moved[p->next_of[best]];
    for (int64_t k = 0; !dirty && k < num_cheaper; k++)
      dirty = (cheaper[k] & ~p->states[i]) == 0;
    if (!dirty) continue;
    int64_t before = p->values[i];
    solve(p, i, 0);
    p->moved[i] = p->values[i] != before;
  }
}

/* Give stages their prices, raise the bounds of those that contain them, and solve again what that
 * reaches; returns 0 when out of memory. */
int tvm_ios_space_settle(space *p, int64_t num, const int32_t *stages, const int64_t *prices_ns,
                         const int64_t *floors_ns) {
  set *cheaper = malloc((num + 1) * sizeof(set));
  if (!cheaper) return 0;
  int64_t num_cheaper = 0;
  memset(p->changed, 0, p->num_stages);
  for (int64_t i = 0; i < num; i++) {
    int32_t stage = stages[i];
    if (prices_ns[i] < p->weights[stage] >> WEIGHT_SHIFT)
      cheaper[num_cheaper++] = p->stage_masks.data[stage];
    p->weights[stage] = (prices_ns[i] << WEIGHT_SHIFT) + 1;
    p->priced[stage] = 1;
    p->changed[stage] = 1;
  }
  for (int64_t i = 0; i < num; i++)
    raise_containing(p, stages[i], (floors_ns[i] << WEIGHT_SHIFT) + 1 + UNPRICED);
  update(p, cheaper, num_cheaper);
  free(cheaper);
  return 1;
}

void tvm_ios_space_keep_priced_only(space *p) { solve_all(p, 1); }

/* Writes the stages of the best way in the order they run; returns how many. */
int tvm_ios_space_best_path(const space *p, int32_t *path) {
  int length = 0;
  for (int64_t state = p->num_states - 1; state;) {
    int64_t t = p->best[state];
    path[length++] = p->stage_of[t];
    state = p->next_of[t];
  }
  for (int i = 0; i < length / 2; i++) {
    int32_t other = path[i];
    path[i] = path[length - 1 - i];
    path[length - 1 - i] = other;
  }
  return length;
}
