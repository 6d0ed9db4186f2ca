/* List scheduling of tasks on lanes: the compiled twin of PythonListDecoder in list_decoder.py, with
 * the same orders, so that both give the same answers.
 *
 * Of all tasks whose sources are placed the one with the highest key is placed next, on the lane
 * where it is done first (HEFT; Topcuoglu et al., 2002). A task that the list has helped runs on all
 * lanes together where that is sooner: each of them fetches all that it reads, and what it writes
 * lies on all of them.
 */
#include <stdint.h>
#include <stdlib.h>

typedef struct {
  int32_t num_tasks, num_lanes;
  int64_t signal_ns;        /* until a lane learns what another one has done */
  const int64_t *alone_ns;  /* by task: time on one lane */
  const int64_t *helped_ns; /* by task: time on all lanes together; that on one where none helps */
  const int32_t *first;     /* sources of task i are those from first[i] to first[i + 1] */
  const int32_t *sources;
  const int64_t *fetch_ns;  /* by source: time to read what it wrote on another lane */
  const int64_t *due_ns;    /* by task: time until which it should be done, INT64_MAX for none */
} list_problem;

/* Nanoseconds that a list counts as longer for each that it is late, at the latest of its tasks. */
enum { LATE = 16 };

typedef struct {
  int32_t *first_reader, *readers, *waiting, *heap, *lanes, *spread;
  int64_t *ends, *free_ns, *begins, *fetches;
  void *memory;
} workspace;

static int make_workspace(const list_problem *p, workspace *w) {
  size_t n = (size_t)p->num_tasks, edges = (size_t)p->first[n], lanes = (size_t)p->num_lanes;
  size_t wide = n + 3 * lanes, narrow = (n + 1) + edges + 4 * n;
  w->memory = malloc(wide * sizeof(int64_t) + narrow * sizeof(int32_t));
  if (!w->memory) return 0;
  /* The wide numbers come first, so that all are aligned. */
  w->ends = w->memory;
  w->free_ns = w->ends + n;
  w->begins = w->free_ns + lanes;
  w->fetches = w->begins + lanes;
  w->first_reader = (int32_t *)(w->fetches + lanes);
  w->readers = w->first_reader + n + 1;
  w->waiting = w->readers + edges;
  w->heap = w->waiting + n;
  w->lanes = w->heap + n;
  w->spread = w->lanes + n;
  for (size_t i = 0; i <= n; ++i) w->first_reader[i] = 0;
  for (size_t edge = 0; edge < edges; ++edge) ++w->first_reader[p->sources[edge] + 1];
  for (size_t i = 0; i < n; ++i) {
    w->first_reader[i + 1] += w->first_reader[i];
    w->waiting[i] = 0;
  }
  for (size_t i = 0; i < n; ++i)
    for (int32_t edge = p->first[i]; edge < p->first[i + 1]; ++edge) {
      int32_t source = p->sources[edge];
      w->readers[w->first_reader[source] + w->waiting[source]++] = (int32_t)i;
    }
  return 1;
}

/* ---- the tasks that may be placed: a heap, highest key first, then lowest task ---- */

static int goes_before(const double *keys, int32_t a, int32_t b) {
  return keys[a] > keys[b] || (keys[a] == keys[b] && a < b);
}

static void push(int32_t *heap, int32_t *size, const double *keys, int32_t task) {
  int32_t place = (*size)++;
  while (place && goes_before(keys, task, heap[(place - 1) / 2])) {
    heap[place] = heap[(place - 1) / 2];
    place = (place - 1) / 2;
  }
  heap[place] = task;
}

static int32_t pop(int32_t *heap, int32_t *size, const double *keys) {
  int32_t top = heap[0], last = heap[--*size], place = 0;
  for (;;) {
    int32_t child = 2 * place + 1;
    if (child >= *size) break;
    if (child + 1 < *size && goes_before(keys, heap[child + 1], heap[child])) ++child;
    if (!goes_before(keys, heap[child], last)) break;
    heap[place] = heap[child];
    place = child;
  }
  if (*size) heap[place] = last;
  return top;
}

/* Place all tasks; `keys` has one for each, then what is above 0 for those that may be helped. The
 * outputs may be NULL. Returns when the last one is done, and more where some task is late. */
static int64_t decode(const list_problem *p, workspace *w, const double *keys, int32_t *order,
                      int64_t *starts, int64_t *ends, int32_t *homes, int32_t *helped) {
  int32_t size = 0;
  int64_t makespan = 0, late = 0;
  for (int32_t lane = 0; lane < p->num_lanes; ++lane) w->free_ns[lane] = 0;
  for (int32_t task = 0; task < p->num_tasks; ++task) {
    w->waiting[task] = p->first[task + 1] - p->first[task];
    if (!w->waiting[task]) push(w->heap, &size, keys, task);
  }
  for (int32_t step = 0; step < p->num_tasks; ++step) {
    int32_t task = pop(w->heap, &size, keys), home = 0;
    int64_t end = INT64_MAX, all_ready = 0, all_fetched = 0;
    for (int32_t lane = 0; lane < p->num_lanes; ++lane) {
      w->begins[lane] = w->free_ns[lane];
      w->fetches[lane] = 0;
    }
    for (int32_t edge = p->first[task]; edge < p->first[task + 1]; ++edge) {
      int32_t source = p->sources[edge];
      /* Of what all lanes wrote together, each has its own share already. */
      int64_t part = p->fetch_ns[edge] * (p->num_lanes - 1) / p->num_lanes;
      for (int32_t lane = 0; lane < p->num_lanes; ++lane) {
        int here = w->lanes[source] == lane;
        int64_t ready = w->ends[source] + (here ? 0 : p->signal_ns);
        if (ready > w->begins[lane]) w->begins[lane] = ready;
        w->fetches[lane] += w->spread[source] ? part : here ? 0 : p->fetch_ns[edge];
      }
    }
    for (int32_t lane = 0; lane < p->num_lanes; ++lane) {
      int64_t done = w->begins[lane] + w->fetches[lane] + p->alone_ns[task];
      if (done < end) {
        end = done;
        home = lane;
      }
      if (w->begins[lane] > all_ready) all_ready = w->begins[lane];
      if (w->fetches[lane] > all_fetched) all_fetched = w->fetches[lane];
    }
    int64_t start = w->begins[home];
    int64_t together = all_ready + all_fetched + p->helped_ns[task];
    w->spread[task] = keys[p->num_tasks + task] > 0 &&
                      p->helped_ns[task] < p->alone_ns[task] && together < end;
    if (w->spread[task]) {
      start = all_ready;
      end = together;
      for (int32_t lane = 0; lane < p->num_lanes; ++lane) w->free_ns[lane] = end;
    }
    w->free_ns[home] = end;
    w->ends[task] = end;
    w->lanes[task] = home;
    if (end > makespan) makespan = end;
    if (end - p->due_ns[task] > late) late = end - p->due_ns[task];
    if (order) order[step] = task;
    if (starts) starts[task] = start;
    if (ends) ends[task] = end;
    if (homes) homes[task] = home;
    if (helped) helped[task] = w->spread[task];
    for (int32_t i = w->first_reader[task]; i < w->first_reader[task + 1]; ++i)
      if (!--w->waiting[w->readers[i]]) push(w->heap, &size, keys, w->readers[i]);
  }
  return makespan + LATE * late;
}

/* The length of each of `count` lists; `keys` has 2 * num_tasks for each. Returns 0 if memory runs
 * out. */
int tvm_ios_list_lengths(const list_problem *p, int64_t count, const double *keys,
                         int64_t *lengths) {
  workspace w;
  if (!make_workspace(p, &w)) return 0;
  for (int64_t i = 0; i < count; ++i)
    lengths[i] = decode(p, &w, keys + 2 * i * p->num_tasks, NULL, NULL, NULL, NULL, NULL);
  free(w.memory);
  return 1;
}

/* The order in which one list places its tasks, when each starts and ends, its lane, and whether
 * the other lanes help. */
int tvm_ios_list_timeline(const list_problem *p, const double *keys, int32_t *order,
                          int64_t *starts, int64_t *ends, int32_t *homes, int32_t *helped) {
  workspace w;
  if (!make_workspace(p, &w)) return 0;
  decode(p, &w, keys, order, starts, ends, homes, helped);
  free(w.memory);
  return 1;
}
