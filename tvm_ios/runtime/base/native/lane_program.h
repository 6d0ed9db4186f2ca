/* Programs: groups of launches with dependency counts, how lanes claim and complete them. */
#ifndef TVM_IOS_LANE_PROGRAM_H_
#define TVM_IOS_LANE_PROGRAM_H_

#include <stdlib.h>

#include "lane_region.h"

static _Atomic uint64_t* ready_of(Program* program, int32_t home) {
  return program->ready + (size_t)home * (size_t)program->words_stride;
}

/* Take a ready group of one home lane; -1 if it has none.
 *
 * The load is only a hint. Of several lanes that clear a bit one sees it set, and its acquire meets
 * the release that set it: it sees what the group's dependencies wrote. */
static int claim_from(Program* program, int32_t home) {
  _Atomic uint64_t* ready = ready_of(program, home);
  for (int32_t word = 0; word < program->num_words; ++word) {
    uint64_t bits = atomic_load_explicit(&ready[word], memory_order_relaxed);
    while (bits) {
      uint64_t lowest = bits & -bits;
      bits = atomic_fetch_and_explicit(&ready[word], ~lowest, memory_order_acq_rel);
      if (bits & lowest) return word * 64 + __builtin_ctzll(lowest);
    }
  }
  return -1;
}

/* A lane's own groups come first: what they read lies in its cache. It takes those of others only
 * when it has been idle for a while, since moving their data costs time, too. */
static int claim_group(Lane* lane, Program* program, uint32_t idle) {
  int32_t homes = idle > SPINS_BEFORE_STEAL ? program->num_homes : 1;
  for (int32_t step = 0; step < homes; ++step) {
    int group = claim_from(program, (lane->index + step) % program->num_homes);
    if (group >= 0) return group;
  }
  return -1;
}

static int release_group(Lane* lane, Program* program, int32_t group, int next);

/* Set the count of a released group for the next iteration; nobody touches it in this one any more. The
 * lane that releases it has its line, so an iteration begins without taking lines from other lanes.
 * From a count of 1 nobody has taken anything. */
static void reset_waiting(Program* program, int32_t group) {
  if (program->dependencies[group] > 1)
    atomic_store_explicit(&program->waiting[group], program->dependencies[group],
                          memory_order_relaxed);
}

/* One dependency less for every successor; the last one to arrive releases it.
 *
 * A released group of this lane is not published but handed on as `next`, which is what the lane
 * runs at once: a chain of groups then touches no line that other lanes poll. */
static int release_successors(Lane* lane, Program* program, int32_t group, int next) {
  for (int32_t i = program->successor_rows[group]; i < program->successor_rows[group + 1]; ++i) {
    int32_t successor = program->successors[i];
    /* Only its last dependency sees 1, and then nobody else touches the count. All others took
     * theirs off by acq_rel, one after the other, so acquiring the last value acquires them all. */
    if (atomic_load_explicit(&program->waiting[successor], memory_order_acquire) == 1 ||
        atomic_fetch_sub_explicit(&program->waiting[successor], 1, memory_order_acq_rel) == 1)
      next = release_group(lane, program, successor, next);
  }
  return next;
}

/* A group without launches is a point of order only: it completes at once. */
static int release_group(Lane* lane, Program* program, int32_t group, int next) {
  reset_waiting(program, group);
  if (program->rows[group] == program->rows[group + 1]) {
    next = release_successors(lane, program, group, next);
    atomic_fetch_sub_explicit(&program->groups_left, 1, memory_order_acq_rel);
    return next;
  }
  int32_t home = program->homes[group];
  if (next < 0 && lane && home == lane->index) return group;
  atomic_fetch_or_explicit(&ready_of(program, home)[group / 64], 1ull << (group % 64),
                           memory_order_release);
  return next;
}

/* Relaxed: the release that publishes the first ready group, or opens the gate, comes after. */
static void begin_iteration(Program* program) {
  atomic_store_explicit(&program->groups_left, program->num_groups, memory_order_relaxed);
  if (program->poisoned)
    for (int32_t buffer = 0; buffer < program->poisoned->image.header->num_buffers; ++buffer)
      atomic_store_explicit(&program->accesses_left[buffer], program->accesses[buffer],
                            memory_order_relaxed);
}

/* Before the first run, and after one that failed and left groups claimed or waiting. */
static void reset_program(Program* program) {
  for (int32_t word = 0; word < program->num_homes * program->words_stride; ++word)
    atomic_store_explicit(&program->ready[word], 0, memory_order_relaxed);
  for (int32_t group = 0; group < program->num_groups; ++group)
    atomic_store_explicit(&program->waiting[group], program->dependencies[group],
                          memory_order_relaxed);
}

/* One write for up to 64 groups: other lanes poll these words, and each write takes a line from them.
 * No plain store: a lane may have run a group of another word, and released one of this. */
static void release_roots(Program* program) {
  for (int32_t word = 0; word < program->num_homes * program->words_stride; ++word)
    if (program->roots[word])
      atomic_fetch_or_explicit(&program->ready[word], program->roots[word], memory_order_release);
  for (int32_t group = 0; program->has_empty_roots && group < program->num_groups; ++group)
    if (!program->dependencies[group] && program->rows[group] == program->rows[group + 1])
      release_group(NULL, program, group, -1);
}

/* Called by the lane that counted the last group: every other lane only polls now. The acq_rel count
 * of groups that are left has brought it here, so it sees the whole iteration. */
static void end_iteration(Pool* pool) {
  int64_t left = atomic_fetch_sub_explicit(&pool->iterations_left, 1, memory_order_relaxed) - 1;
  int late = pool->deadline_ns && left % 8 == 0 && now_ns() > pool->deadline_ns;
  if (left > 0 && !late) {
    begin_iteration(pool->program);
    release_roots(pool->program);
    return;
  }
  atomic_store_explicit(&pool->end_ns, now_ns(), memory_order_relaxed);
  atomic_store_explicit(&pool->finished, 1, memory_order_release);
}

static int run_launch(Lane* lane, Program* program, int32_t position) {
  Launch* launch = program->launches[position];
  TVMValue result;
  int32_t result_code = 0;
  int64_t start_ns = 0;
  lane->position = position;
  jitter(lane);
  if (program->poisoned) poison_before(program, launch);
  if (program->trace) start_ns = now_ns();
  int32_t code = launch->kernel(launch->arguments, launch->type_codes, launch->num_arguments,
                                &result, &result_code, launch->resource);
  if (program->trace) program->trace[position] = (TraceRow){start_ns, now_ns(), lane->index, 0};
  if (program->poisoned) poison_after(program, launch);
  if (code) report_failure(lane, position);
  return code;
}

/* Returns the group this lane should run next, -1 for none in particular. */
static int run_group(Lane* lane, Program* program, int32_t group) {
  Pool* pool = lane->pool;
  for (int32_t position = program->rows[group]; position < program->rows[group + 1]; ++position) {
    if (run_launch(lane, program, position)) {
      atomic_store_explicit(&pool->finished, 1, memory_order_release);
      return -1;
    }
    if (atomic_load_explicit(&pool->finished, memory_order_relaxed)) return -1;
  }
  return release_successors(lane, program, group, -1);
}

/* Groups that a lane has completed. It counts them when it has no other one to run: a count after each
 * would take the line from the other lanes, which costs more than a small operator. */
static void count_completed(Pool* pool, int32_t completed) {
  if (atomic_fetch_sub_explicit(&pool->program->groups_left, completed, memory_order_acq_rel) ==
      completed)
    end_iteration(pool);
}

static void run_program(Lane* lane) {
  Pool* pool = lane->pool;
  Program* program = pool->program;
  uint32_t idle = 0;
  int32_t completed = 0;
  int group = -1;
  while (!atomic_load_explicit(&pool->finished, memory_order_acquire)) {
    if (group < 0) group = claim_group(lane, program, idle);
    if (group >= 0) {
      jitter(lane);
      group = run_group(lane, program, group);
      ++completed;
      idle = 0;
    } else if (completed) {
      count_completed(pool, completed);
      completed = 0;
    } else if (help_others(lane)) {
      idle = 0;
    } else {
      cpu_relax();
      if (++idle > SPINS_BEFORE_YIELD) sched_yield();
    }
  }
}

void tvm_ios_program_free(Program* program) {
  if (program) free(program->accesses);
  free(program);
}

/* All arrays are copied; the launches themselves must outlive the program.
 *
 * launches, by position; rows and successor_rows have one entry more than there are groups; homes
 * are numbers below num_homes, which is at most the number of lanes. */
Program* tvm_ios_program_create(int32_t num_groups, Launch* const* launches, const int32_t* rows,
                                const int32_t* successor_rows, const int32_t* successors,
                                const int32_t* homes, int32_t num_homes, TraceRow* trace) {
  size_t groups = (size_t)num_groups, count = (size_t)rows[num_groups];
  size_t edges = (size_t)successor_rows[num_groups], words = groups / 64 + 1;
  size_t stride = (words * 8 + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE / 8;
  size_t bytes = sizeof(Program) + 2 * (size_t)num_homes * stride * 8 + count * sizeof(Launch*) +
                 sizeof(int32_t) * (5 * groups + edges + 2) + 3 * CACHE_LINE;
  Program* program = NULL;
  if (posix_memalign((void**)&program, CACHE_LINE, bytes)) return NULL;
  memset((void*)program, 0, bytes);
  program->num_groups = num_groups;
  program->num_words = (int32_t)words;
  program->num_homes = num_homes;
  program->words_stride = (int32_t)stride;
  program->ready = (_Atomic uint64_t*)(program + 1);
  program->roots = (uint64_t*)(program->ready + (size_t)num_homes * stride);
  program->launches = (Launch**)(program->roots + (size_t)num_homes * stride);
  program->rows = (int32_t*)(program->launches + count);
  program->successor_rows = program->rows + groups + 1;
  program->dependencies = program->successor_rows + groups + 1;
  program->successors = program->dependencies + groups;
  program->homes = program->successors + edges;
  /* On a line of its own: the counts change all the time, what lies before them never. */
  program->waiting = (_Atomic int32_t*)(((uintptr_t)(program->homes + groups) + CACHE_LINE - 1) /
                                        CACHE_LINE * CACHE_LINE);
  memcpy(program->launches, launches, count * sizeof(Launch*));
  memcpy(program->rows, rows, (groups + 1) * sizeof(int32_t));
  memcpy(program->successor_rows, successor_rows, (groups + 1) * sizeof(int32_t));
  memcpy(program->successors, successors, edges * sizeof(int32_t));
  memcpy(program->homes, homes, groups * sizeof(int32_t));
  for (size_t edge = 0; edge < edges; ++edge) ++program->dependencies[successors[edge]];
  for (int32_t group = 0; group < num_groups; ++group) {
    if (program->dependencies[group]) continue;
    if (rows[group] == rows[group + 1])
      program->has_empty_roots = 1;
    else
      program->roots[(size_t)homes[group] * stride + (size_t)group / 64] |= 1ull << group % 64;
  }
  program->trace = trace;
  return program;
}

/* Let runs of a program of launches of a plan overwrite its memory; 0 without memory. */
static int poison_program(Program* program, const Plan* plan) {
  size_t buffers = (size_t)plan->image.header->num_buffers + 1;
  program->accesses = calloc(2 * buffers, sizeof *program->accesses);
  if (!program->accesses) return 0;
  program->accesses_left = (_Atomic int32_t*)(program->accesses + buffers);
  program->poisoned = plan;
  for (int32_t i = 0; i < program->rows[program->num_groups]; ++i)
    count_accesses(program, program->launches[i]);
  return 1;
}

/* The groups that run and wait for a group, also through groups that do not run; their number.
 *
 * numbers has that of each group in the program, -1 where it does not run; marks are those of groups
 * that were met, of which none is `mark` yet. */
static int32_t running_behind(const PlanImage* image, int32_t group, const int32_t* numbers,
                              int32_t* marks, int32_t mark, int32_t* stack, int32_t* found) {
  int32_t depth = 0, count = 0;
  stack[depth++] = group;
  while (depth) {
    int32_t at = stack[--depth];
    for (int32_t i = image->successor_rows[at]; i < image->successor_rows[at + 1]; ++i) {
      int32_t next = image->successors[i];
      if (marks[next] == mark) continue;
      marks[next] = mark;
      if (numbers[next] < 0) {
        stack[depth++] = next;
      } else {
        if (found) found[count] = numbers[next];
        ++count;
      }
    }
  }
  return count;
}

/* Whether a group is the only one that waits for the group before it, and waits for no other one. */
static int continues(const PlanImage* image, const int32_t* waits, int32_t group) {
  int32_t begin = group ? image->successor_rows[group - 1] : 0;
  return group && waits[group] == 1 && image->successor_rows[group] == begin + 1 &&
         image->successors[begin] == group;
}

/* A program of the groups of some parts of a plan, of all where parts is 0, on as many lanes as
 * there are homes; the plan must outlive it. NULL without memory.
 *
 * Groups keep the order that those of other parts give them: what shares bytes of the arena is never
 * alive together in this order, and would be in one of data alone. A chain of groups of one lane is one
 * group of the program, so sequential order has no counts between operators. */
Program* tvm_ios_plan_program(const Plan* plan, int32_t parts, int32_t num_homes, int32_t poison,
                              TraceRow* trace) {
  const PlanImage* image = &plan->image;
  Launch* from = plan->launches + (parts ? 2 * image->header->num_launches : 0);
  int32_t groups = image->header->num_groups, running = 0, count = 0;
  size_t row = (size_t)groups + 1;
  Launch** launches = malloc(sizeof *launches * ((size_t)image->rows[groups] + 1));
  int32_t* homes = calloc(7 * row, sizeof *homes);
  int32_t *rows = homes + row, *numbers = rows + row, *marks = numbers + row, *stack = marks + row;
  int32_t *successor_rows = stack + row, *waits = successor_rows + row, *successors = NULL;
  Program* program = NULL;
  if (!launches || !homes) goto done;
  for (int32_t i = 0; i < image->successor_rows[groups]; ++i) ++waits[image->successors[i]];
  for (int32_t i = 0; i < groups; ++i) {
    numbers[i] = -1;
    if (parts && !(parts & image->groups[i].parts)) continue;
    /* What was scheduled for more lanes runs on these, too. */
    int32_t home = image->groups[i].home % num_homes;
    if (!continues(image, waits, i) || numbers[i - 1] < 0 || homes[running - 1] != home)
      homes[running++] = home;
    for (int32_t at = image->rows[i]; at < image->rows[i + 1]; ++at) launches[count++] = &from[at];
    numbers[i] = running - 1;
    rows[running] = count;
  }
  numbers[groups] = -1;
  for (int32_t i = 0; i < groups; ++i)
    if (numbers[i] >= 0 && numbers[i + 1] != numbers[i])
      successor_rows[numbers[i] + 1] =
          successor_rows[numbers[i]] +
          running_behind(image, i, numbers, marks, 2 * i + 1, stack, NULL);
  successors = malloc(sizeof *successors * ((size_t)successor_rows[running] + 1));
  if (!successors) goto done;
  for (int32_t i = 0; i < groups; ++i)
    if (numbers[i] >= 0 && numbers[i + 1] != numbers[i])
      running_behind(image, i, numbers, marks, 2 * i + 2, stack,
                     successors + successor_rows[numbers[i]]);
  program = tvm_ios_program_create(running, launches, rows, successor_rows, successors, homes,
                                   num_homes, trace);
done:
  free(launches);
  free(homes);
  free(successors);
  if (program && poison && !poison_program(program, plan)) {
    tvm_ios_program_free(program);
    return NULL;
  }
  return program;
}

#endif
