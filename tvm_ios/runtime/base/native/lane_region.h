/* Parallel regions: what a kernel's TVMBackendParallelLaunch does while the lane executor runs it. */
#ifndef TVM_IOS_LANE_REGION_H_
#define TVM_IOS_LANE_REGION_H_

#include <sched.h>

#include "lane_debug.h"

#define TICKET_NEXT(ticket) ((uint32_t)(ticket) & 0xFFFFu)
#define TICKET_TASKS(ticket) ((uint32_t)((ticket) >> 16) & 0xFFFFu)
#define MAX_TASKS 0xFFFF
#define SPINS_BEFORE_YIELD 2000
#define SPINS_BEFORE_STEAL 32 /* 1 to 3 microseconds */

/* The lane this thread runs kernels for; NULL outside a run, and then TVM's own launch is used. */
static __thread Lane* current_lane;
static _Atomic(FTVMParallelLaunch) original_launch;

static int run_task(Lane* lane, FTVMParallelLambda lambda, void* cdata, int task, int num_task) {
  TVMParallelGroupEnv env = {lane->barrier_counters, num_task};
  int32_t outer = lane->in_region;
  lane->in_region = 1;
  int code = lambda(task, &env, cdata);
  lane->in_region = outer;
  return code;
}

/* Take one task of a region; 0 if it has none left. */
static int claim_task(Region* region, uint64_t* ticket) {
  *ticket = atomic_load_explicit(&region->ticket, memory_order_acquire);
  while (TICKET_NEXT(*ticket) < TICKET_TASKS(*ticket)) {
    if (atomic_compare_exchange_weak_explicit(&region->ticket, ticket, *ticket + 1,
                                              memory_order_acq_rel, memory_order_acquire))
      return 1;
  }
  return 0;
}

/* Help any other lane; 0 if nobody has a task to give. */
static int help_others(Lane* lane) {
  Pool* pool = lane->pool;
  for (int32_t step = 1; step < pool->options.lanes; ++step) {
    Region* region = &pool->lanes[(lane->index + step) % pool->options.lanes].region;
    uint64_t ticket;
    if (!claim_task(region, &ticket)) continue;
    /* The region stays open until this task is finished, so these cannot change; the acquire of the
     * ticket, for the release of open_region, makes relaxed loads enough. */
    FTVMParallelLambda lambda = atomic_load_explicit(&region->lambda, memory_order_relaxed);
    void* cdata = atomic_load_explicit(&region->cdata, memory_order_relaxed);
    jitter(lane);
    int code =
        run_task(lane, lambda, cdata, (int)TICKET_NEXT(ticket), (int)TICKET_TASKS(ticket));
    if (code) {
      report_failure(lane, atomic_load_explicit(&region->position, memory_order_relaxed));
      atomic_store_explicit(&region->failed, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&region->finished, 1, memory_order_release);
    return 1;
  }
  return 0;
}

/* Task 0 is the owner's. A helper that holds a ticket of the region before cannot claim by it: the
 * epoch differs. */
static void open_region(Lane* lane, FTVMParallelLambda lambda, void* cdata, int num_task) {
  Region* region = &lane->region;
  atomic_store_explicit(&region->lambda, lambda, memory_order_relaxed);
  atomic_store_explicit(&region->cdata, cdata, memory_order_relaxed);
  atomic_store_explicit(&region->position, lane->position, memory_order_relaxed);
  atomic_store_explicit(&region->finished, 0, memory_order_relaxed);
  atomic_store_explicit(&region->failed, 0, memory_order_relaxed);
  uint64_t ticket = (uint64_t)++lane->epoch << 32 | (uint64_t)num_task << 16 | 1;
  atomic_store_explicit(&region->ticket, ticket, memory_order_release);
}

/* Replaces TVMBackendParallelLaunch in a kernel library. */
int tvm_ios_parallel_launch(FTVMParallelLambda lambda, void* cdata, int num_task) {
  Lane* lane = current_lane;
  if (!lane)
    return atomic_load_explicit(&original_launch, memory_order_relaxed)(lambda, cdata, num_task);
  const PoolOptions* options = &lane->pool->options;
  if (options->lanes == 1 || lane->in_region ||
      lane->pool->program->launches[lane->position]->serial)
    return run_task(lane, lambda, cdata, 0, 1); /* one task computes all of a region */
  int64_t wanted = num_task > 0 ? num_task : (int64_t)options->tasks_per_lane * options->lanes;
  int tasks = wanted < MAX_TASKS ? (int)wanted : MAX_TASKS;
  open_region(lane, lambda, cdata, tasks);
  Region* region = &lane->region;
  int own = 0, failed = 0;
  uint64_t ticket = 0;
  do {
    failed |= run_task(lane, lambda, cdata, (int)TICKET_NEXT(ticket), tasks);
    ++own;
    jitter(lane);
  } while (claim_task(region, &ticket));
  /* Acquire, for the release of each helper: what they wrote is seen by whatever reads it next, and
   * none of them still runs the lambda, whose closure lies on this stack. */
  for (uint32_t spins = 0;
       atomic_load_explicit(&region->finished, memory_order_acquire) != tasks - own; ++spins) {
    cpu_relax();
    if (spins > SPINS_BEFORE_YIELD) sched_yield();
  }
  return failed || atomic_load_explicit(&region->failed, memory_order_relaxed) ? -1 : 0;
}

#endif
