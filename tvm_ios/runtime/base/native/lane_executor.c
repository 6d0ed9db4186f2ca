/* The lane executor: threads, programs and runs. See lane_executor.h for the data.
 *
 * One source file, compiled either to a shared library (pricing, tests) or to an object that is
 * linked into an exported model. Every exported name begins with tvm_ios_.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

#include "../../../support/native/threads.h"
#include "lane_executor.h"
#include "lane_program.h"

/* ---- fork: a child has none of its parent's threads, which each pool notices by itself ---- */

static _Atomic int32_t fork_generation;

static void after_fork_in_child(void) {
  atomic_fetch_add(&fork_generation, 1);
  forget_sleepers();
}

__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* ---- sleeping ---- */

/* Whoever had to wait takes the lock as 2, since others may wait still: at worst a wake too many. */
static void lock_pool(Pool* pool) {
  uint32_t seen = 0;
  if (atomic_compare_exchange_strong(&pool->lock, &seen, 1)) return;
  while (atomic_exchange(&pool->lock, 2)) sleep_on(&pool->lock, 2);
}

static void unlock_pool(Pool* pool) {
  if (atomic_exchange(&pool->lock, 0) == 2) wake(&pool->lock, 0);
}

/* ---- jobs ---- */

static void answer_pings(Pool* pool) {
  for (uint32_t round = 1; round <= (uint32_t)pool->ping_rounds; ++round) {
    uint32_t spins = 0;
    while (atomic_load_explicit(&pool->ping, memory_order_acquire) != round) {
      /* A thread that saw the epoch late comes in twice, and nobody pings it the second time. */
      if (atomic_load_explicit(&pool->finished, memory_order_relaxed)) return;
      if (++spins > 10 * SPINS_BEFORE_YIELD) sched_yield();
    }
    atomic_store_explicit(&pool->pong, round, memory_order_release);
  }
}

static void do_job(Lane* lane) {
  Lane* outer = current_lane;
  current_lane = lane;
  lane->random = (lane->pool->options.jitter_seed + lane->pool->runs * 64 + (uint64_t)lane->index) *
                     0x9E3779B97F4A7C15ull |
                 1;
  if (!lane->pool->ping_lane) {
    run_program(lane);
  } else if (lane->index == lane->pool->ping_lane) {
    answer_pings(lane->pool);
  } else {
    while (!atomic_load_explicit(&lane->pool->finished, memory_order_acquire)) sched_yield();
  }
  current_lane = outer;
}

/* ---- threads ---- */

/* Acquire, for the release of open_gate: who is inside sees the job. Who is outside (a thread that
 * woke late) touches nothing of it, so the caller need not wait for every thread, only for those. */
static int enter_gate(Pool* pool) {
  uint32_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
  while (gate & GATE_OPEN)
    if (atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1, memory_order_acquire,
                                              memory_order_relaxed))
      return 1;
  return 0;
}

/* Spin for a while, then sleep, until the epoch is another one than `seen`. */
static uint32_t await_epoch(Pool* pool, uint32_t seen) {
  int64_t deadline_ns = now_ns() + pool->options.spin_ns;
  uint32_t epoch, spins = 0;
  while ((epoch = atomic_load_explicit(&pool->epoch, memory_order_acquire)) == seen) {
    cpu_relax();
    if (++spins % 64 || now_ns() < deadline_ns) continue;
    /* Sequentially consistent: either we see the new epoch, or the caller sees a sleeper. */
    atomic_fetch_add(&pool->sleepers, 1);
    while ((epoch = atomic_load(&pool->epoch)) == seen) sleep_on(&pool->epoch, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
    break;
  }
  return epoch;
}

static void* lane_thread(void* argument) {
  Lane* lane = argument;
  Pool* pool = lane->pool;
  uint32_t seen = 0;
  atomic_store(&lane->thread_id, thread_number());
  while (!atomic_load(&pool->closed)) {
    seen = await_epoch(pool, seen);
    if (!enter_gate(pool)) continue;
    do_job(lane);
    /* Release, for the acquire of shut_gate: the caller sees all that this thread wrote. */
    atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
  }
  return NULL;
}

/* Keep the threads off the caller's core. A thread that is woken often begins on the core of whoever
 * woke it and stays for milliseconds, while both spin. With a lane for every core each thread has
 * one of its own. Does nothing as long as the caller stays on its core. */
static void place_threads(Pool* pool) {
  const PoolOptions* options = &pool->options;
  int32_t caller = current_core();
  if (caller == pool->caller_cpu || options->num_cpus < 2) return;
  pool->caller_cpu = caller;
  int32_t next = 0;
  for (int32_t lane = 1; lane <= pool->started; ++lane) {
    pthread_t thread = pool->lanes[lane].thread;
    if (options->lanes == options->num_cpus) {
      if (options->cpus[next] == caller) ++next;
      keep_on_cores(thread, &options->cpus[next++ % options->num_cpus], 1, -1);
    } else {
      keep_on_cores(thread, options->cpus, options->num_cpus,
                    options->lanes > options->num_cpus ? -1 : caller);
    }
  }
}

/* Threads start with every signal blocked, so Ctrl-C reaches the interpreter's own thread. */
static int start_threads(Pool* pool) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (pool->started = 0; pool->started < pool->options.lanes - 1; ++pool->started) {
    Lane* lane = &pool->lanes[pool->started + 1];
    if (pthread_create(&lane->thread, NULL, lane_thread, lane)) break;
    name_thread(lane->thread, "tvm-ios lane");
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return pool->started == pool->options.lanes - 1;
}

static void stop_threads(Pool* pool) {
  atomic_store(&pool->closed, 1);
  atomic_fetch_add(&pool->epoch, 1);
  wake(&pool->epoch, 1);
  for (int32_t i = 0; i < pool->started; ++i) pthread_join(pool->lanes[i + 1].thread, NULL);
  pool->started = 0;
}

static void clear_state(Pool* pool) {
  atomic_store(&pool->lock, 0);
  atomic_store(&pool->epoch, 0);
  atomic_store(&pool->sleepers, 0);
  atomic_store(&pool->gate, 0);
  atomic_store(&pool->closed, 0); /* a thread of the parent may have been about to join the lanes */
  for (int32_t i = 0; i < pool->options.lanes; ++i) {
    atomic_store(&pool->lanes[i].region.ticket, 0);
    atomic_store(&pool->lanes[i].thread_id, 0);
    pool->lanes[i].in_region = 0;
    pool->lanes[i].index = i;
    pool->lanes[i].pool = pool;
  }
  pool->started = -1; /* threads start with the first run */
  pool->caller_cpu = -1;
}

/* In a forked child: forget the threads and whatever they held. One thread repairs, by making the
 * pool's generation negative first; others spin. Minus the generation of another process is a
 * repair that a fork cut off, to be done again. No lock is taken: a thread that is gone may have
 * held it. */
static void repair_after_fork(Pool* pool) {
  int32_t now = atomic_load(&fork_generation);
  int32_t seen = atomic_load(&pool->generation);
  while (seen != now) {
    if (seen != -now && atomic_compare_exchange_strong(&pool->generation, &seen, -now)) {
      clear_state(pool);
      atomic_store(&pool->generation, now);
      return;
    }
    sched_yield();
    seen = atomic_load(&pool->generation);
  }
}

/* ---- runs ---- */

static void open_gate(Pool* pool) {
  ++pool->runs;
  atomic_store_explicit(&pool->finished, 0, memory_order_relaxed);
  atomic_store_explicit(&pool->error_claimed, 0, memory_order_relaxed);
  atomic_fetch_or_explicit(&pool->gate, GATE_OPEN, memory_order_release);
  /* Epoch before sleepers, both sequentially consistent: the other half of await_epoch. */
  atomic_fetch_add(&pool->epoch, 1);
  if (atomic_load(&pool->sleepers)) wake(&pool->epoch, 1);
}

static void shut_gate(Pool* pool) {
  uint32_t spins = 0;
  atomic_fetch_and_explicit(&pool->gate, ~GATE_OPEN, memory_order_acq_rel);
  while (atomic_load_explicit(&pool->gate, memory_order_acquire)) {
    cpu_relax();
    if (++spins > SPINS_BEFORE_YIELD) sched_yield();
  }
}

static void await_lanes(Pool* pool) {
  uint32_t spins = 0;
  while ((atomic_load_explicit(&pool->gate, memory_order_acquire) & ~GATE_OPEN) !=
         (uint32_t)pool->options.lanes - 1) {
    cpu_relax();
    if (++spins > SPINS_BEFORE_YIELD) sched_yield();
  }
}

/* Take the pool for one job; the caller unlocks if this returns RUN_DONE. */
static int begin(Pool* pool) {
  repair_after_fork(pool);
  lock_pool(pool);
  int status = RUN_DONE;
  if (atomic_load(&pool->closing)) {
    status = RUN_CLOSED;
  } else if (pool->started < 0 && !start_threads(pool)) {
    stop_threads(pool);
    atomic_store(&pool->closed, 0); /* the next run tries again */
    pool->started = -1;
    status = RUN_NO_THREADS;
  }
  if (status)
    unlock_pool(pool);
  else
    place_threads(pool);
  return status;
}

/* Run a program `number` times back to back, or until `max_ns` have passed (0: no limit).
 *
 * elapsed_ns and done, either of which may be NULL, get the time and the number of iterations; with
 * `assemble` the clock starts once every lane is awake. Returns a RUN_ code; after RUN_FAILED
 * tvm_ios_failed_position and tvm_ios_failed_text say which launch failed and why. */
int tvm_ios_run(Pool* pool, Program* program, int64_t number, int64_t max_ns, int assemble,
                int64_t* elapsed_ns, int64_t* done) {
  int status = begin(pool);
  if (status) return status;
  pool->program = program;
  pool->ping_lane = 0;
  atomic_store_explicit(&pool->iterations_left, number, memory_order_relaxed);
  if (!program->is_reset) reset_program(program);
  program->is_reset = 0; /* until it has run without failure */
  begin_iteration(program);
  open_gate(pool);
  if (assemble) await_lanes(pool);
  int64_t start_ns = now_ns();
  /* After the gate is open, and not atomic: only a lane that has completed a group reads it, and
   * release_roots comes before that. */
  pool->deadline_ns = max_ns ? start_ns + max_ns : 0;
  if (program->num_groups && number > 0) {
    release_roots(program);
    do_job(&pool->lanes[0]);
  } else {
    atomic_store(&pool->iterations_left, 0);
    atomic_store(&pool->end_ns, start_ns);
    atomic_store(&pool->finished, 1);
  }
  shut_gate(pool);
  if (elapsed_ns)
    *elapsed_ns = atomic_load_explicit(&pool->end_ns, memory_order_relaxed) - start_ns;
  if (done) *done = number - atomic_load_explicit(&pool->iterations_left, memory_order_relaxed);
  if (atomic_load_explicit(&pool->error_claimed, memory_order_acquire)) {
    status = RUN_FAILED;
    failed_position = pool->error_position;
    memcpy(failed_text, pool->error_text, ERROR_TEXT_BYTES);
  }
  program->is_reset = status == RUN_DONE;
  unlock_pool(pool);
  return status;
}

/* The kernel's number of each lane's thread; lane 0 is the caller. 0 for a thread that has not begun. */
void tvm_ios_pool_threads(const Pool* pool, int32_t* ids) {
  ids[0] = thread_number();
  for (int32_t i = 1; i < pool->options.lanes; ++i) ids[i] = atomic_load(&pool->lanes[i].thread_id);
}

/* Nanoseconds one cache line takes from lane 0 to another lane; the worst lane counts. */
int tvm_ios_ping_pong(Pool* pool, int32_t rounds, double* latency_ns) {
  int status = begin(pool);
  if (status) return status;
  *latency_ns = 0;
  for (int32_t lane = 1; lane < pool->options.lanes; ++lane) {
    pool->ping_lane = lane;
    pool->ping_rounds = rounds;
    atomic_store(&pool->ping, 0);
    atomic_store(&pool->pong, 0);
    open_gate(pool);
    await_lanes(pool);
    int64_t start_ns = now_ns();
    for (uint32_t round = 1; round <= (uint32_t)rounds; ++round) {
      uint32_t spins = 0;
      atomic_store_explicit(&pool->ping, round, memory_order_release);
      while (atomic_load_explicit(&pool->pong, memory_order_acquire) != round)
        if (++spins > 10 * SPINS_BEFORE_YIELD) sched_yield();
    }
    double one_way_ns = (double)(now_ns() - start_ns) / (2.0 * rounds);
    if (one_way_ns > *latency_ns) *latency_ns = one_way_ns;
    atomic_store(&pool->finished, 1);
    shut_gate(pool);
  }
  unlock_pool(pool);
  return RUN_DONE;
}

/* ---- making and freeing ---- */

Pool* tvm_ios_pool_create(const PoolOptions* options) {
  Pool* pool = NULL;
  if (posix_memalign((void**)&pool, CACHE_LINE, sizeof(Pool))) return NULL;
  memset((void*)pool, 0, sizeof(Pool));
  pool->options = *options;
  size_t lanes_bytes = sizeof(Lane) * (size_t)options->lanes;
  size_t cpus_bytes = sizeof(int32_t) * (size_t)options->num_cpus;
  int32_t* cpus = malloc(cpus_bytes ? cpus_bytes : 1);
  if (!cpus || posix_memalign((void**)&pool->lanes, CACHE_LINE, lanes_bytes)) {
    free(cpus);
    free(pool);
    return NULL;
  }
  memset((void*)pool->lanes, 0, lanes_bytes);
  if (cpus_bytes) memcpy(cpus, options->cpus, cpus_bytes);
  pool->options.cpus = cpus;
  clear_state(pool);
  atomic_store(&pool->generation, atomic_load(&fork_generation));
  return pool;
}

/* Join the threads; later runs return RUN_CLOSED. The memory stays for callers still waiting. */
void tvm_ios_pool_close(Pool* pool) {
  repair_after_fork(pool);
  atomic_store(&pool->closing, 1); /* who runs in a loop might take the lock again and again */
  lock_pool(pool);
  if (!atomic_load(&pool->closed)) stop_threads(pool);
  unlock_pool(pool);
}

void tvm_ios_pool_free(Pool* pool) {
  tvm_ios_pool_close(pool);
  free((void*)pool->options.cpus);
  free(pool->lanes);
  free(pool);
}

static _Atomic(FTVMFuncCall) func_call;

void tvm_ios_set_func_call(FTVMFuncCall function) { atomic_store(&func_call, function); }

/* A kernel that is a packed function of another module: `resource` is its handle. */
int32_t tvm_ios_call_packed(TVMValue* args, int32_t* type_codes, int32_t num_args,
                            TVMValue* ret_value, int32_t* ret_tcode, void* resource) {
  return atomic_load_explicit(&func_call, memory_order_relaxed)(resource, args, type_codes,
                                                                num_args, ret_value, ret_tcode);
}

/* Send the parallel regions of a kernel library here; `slot` is its launch pointer. */
void tvm_ios_hook(FTVMParallelLaunch* slot, FTVMParallelLaunch original) {
  FTVMParallelLaunch none = NULL;
  atomic_compare_exchange_strong(&original_launch, &none, original);
  __atomic_store_n(slot, tvm_ios_parallel_launch, __ATOMIC_RELEASE);
}

int32_t tvm_ios_abi_version(void) { return EXECUTOR_VERSION; }

const Executor tvm_ios_executor = {EXECUTOR_VERSION,
                                   tvm_ios_pool_create,
                                   tvm_ios_pool_free,
                                   tvm_ios_plan_load,
                                   tvm_ios_plan_place_all,
                                   tvm_ios_plan_bind,
                                   tvm_ios_plan_program,
                                   tvm_ios_plan_free,
                                   tvm_ios_program_free,
                                   tvm_ios_run,
                                   tvm_ios_failed_position,
                                   tvm_ios_failed_text,
                                   tvm_ios_hook,
                                   tvm_ios_set_func_call,
                                   tvm_ios_parallel_launch,
                                   tvm_ios_call_packed,
                                   tvm_ios_set_ffi,
                                   tvm_ios_ffi_error,
                                   tvm_ios_call_ffi};
