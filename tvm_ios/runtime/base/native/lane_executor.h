/* Data of the lane executor.
 *
 * A pool owns W lanes: lane 0 is whoever calls run, the others are threads. A program is a set of
 * groups of kernel launches with dependency counts. During a run a lane claims the ready group of
 * the lowest number, or, if there is none, a task of a parallel region another lane has open.
 */
#ifndef TVM_IOS_LANE_EXECUTOR_H_
#define TVM_IOS_LANE_EXECUTOR_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "plan_image.h"

#define CACHE_LINE 128 /* bytes of two lines, since processors fetch adjacent ones together */
#define ERROR_TEXT_BYTES 2048

typedef struct {
  int64_t start_ns;
  int64_t end_ns;
  int32_t lane;
  int32_t unused;
} TraceRow;

typedef struct {
  int32_t num_groups;
  int32_t num_words;
  Launch** launches;       /* by position: group after group */
  int32_t* rows;           /* per group, plus one: its first position */
  int32_t* successor_rows; /* per group, plus one */
  int32_t* successors;
  int32_t* dependencies; /* per group, how many groups it waits for */
  int32_t* homes;        /* per group, the lane that should run it; any lane may */
  int32_t num_homes;
  int32_t words_stride; /* words of the ready set of each home, whole cache lines */
  int32_t has_empty_roots; /* whether a group without launches waits for none */
  uint64_t* roots;         /* per home, groups with launches that wait for none */
  TraceRow* trace;       /* by position; NULL when not traced */
  /* Overwrites outputs before their launch, and buffers of the arena after the last launch that
   * touches them, for tests; NULL when it does not. Its launches are those of the program. */
  const Plan* poisoned;
  int32_t* accesses; /* per buffer of it, as how many arguments it is touched in a run */
  _Atomic int32_t* accesses_left;
  _Alignas(CACHE_LINE) _Atomic int32_t* waiting; /* per group, dependencies not yet complete */
  _Atomic uint64_t* ready; /* per home a set of groups that may be claimed */
  _Alignas(CACHE_LINE) _Atomic int32_t groups_left;
  int32_t is_reset; /* between runs: no group is ready, and each waits for all its dependencies */
} Program;

struct Pool;

/* A parallel region that its owner has open for helpers. The ticket is epoch:32 tasks:16 next:16,
 * one word, so a claim (compare and swap) succeeds only in the region it was read from. */
typedef struct {
  _Alignas(CACHE_LINE) _Atomic uint64_t ticket;
  _Atomic(FTVMParallelLambda) lambda;
  _Atomic(void*) cdata;
  _Atomic int32_t position;
  _Alignas(CACHE_LINE) _Atomic int32_t finished; /* tasks done by helpers */
  _Atomic int32_t failed;
} Region;

typedef struct {
  Region region;
  _Alignas(CACHE_LINE) struct Pool* pool;
  int32_t index;
  int32_t position;  /* launch it runs now */
  int32_t in_region; /* runs a task now: a nested region is not split */
  uint32_t epoch;    /* number of the last region that it opened */
  uint64_t random;
  int32_t barrier_counters[16];
  pthread_t thread;
  _Atomic int32_t thread_id; /* the kernel's number of the thread; 0 before it has begun */
} Lane;

typedef struct {
  int32_t lanes;
  int32_t tasks_per_lane; /* a region is split into this many tasks a lane */
  int64_t spin_ns;        /* how long a lane spins after a run before it sleeps */
  uint64_t jitter_seed;   /* 0: no random delays */
  const char* (*get_last_error)(void);
  const int32_t* cpus; /* processors the threads may use; copied */
  int32_t num_cpus;
} PoolOptions;

typedef struct Pool {
  PoolOptions options;
  Lane* lanes;
  int32_t started;    /* threads that were started; -1 before the first run */
  int32_t caller_cpu; /* where the caller of the last run was; the threads keep off it */
  uint64_t runs;
  /* The job of the run; written while the gate is shut. */
  Program* program;
  int64_t deadline_ns; /* when the run ends early; 0: never */
  int32_t ping_lane;   /* > 0: a ping-pong with this lane in place of a program */
  int32_t ping_rounds;
  _Atomic int64_t iterations_left;
  _Atomic int64_t end_ns;
  _Alignas(CACHE_LINE) _Atomic uint32_t lock; /* 0 free, 1 taken, 2 taken with sleepers */
  _Atomic int32_t generation; /* fork_generation of the threads' process; its negative in repair */
  _Atomic int32_t closing;    /* no run begins any more, not even one that waits for the lock */
  _Atomic int32_t closed;     /* lane threads end instead of waiting for the next run */
  _Alignas(CACHE_LINE) _Atomic uint32_t epoch; /* moves when a run begins; the word that sleepers sleep on */
  _Atomic int32_t sleepers;
  _Alignas(CACHE_LINE) _Atomic uint32_t gate; /* GATE_OPEN | number of threads inside */
  _Alignas(CACHE_LINE) _Atomic int32_t finished;
  _Alignas(CACHE_LINE) _Atomic int32_t error_claimed;
  int32_t error_position;
  char error_text[ERROR_TEXT_BYTES];
  _Alignas(CACHE_LINE) _Atomic uint32_t ping;
  _Alignas(CACHE_LINE) _Atomic uint32_t pong;
} Pool;

#define GATE_OPEN 0x80000000u

enum { RUN_DONE = 0, RUN_FAILED = 1, RUN_CLOSED = 2, RUN_NO_THREADS = 3 };

/* Functions of the executor in an exported file, for programs without Python. */
typedef struct {
  int32_t version;
  Pool* (*pool_create)(const PoolOptions* options);
  void (*pool_free)(Pool* pool);
  Plan* (*plan_load)(const void* bytes, size_t size, int32_t device_type, int32_t device_id);
  size_t (*plan_place_all)(Plan* plan, void* arena, void* const* own);
  void (*plan_bind)(Plan* plan, int32_t number, TVMKernel kernel, void* resource, int32_t serial);
  Program* (*plan_program)(const Plan* plan, int32_t parts, int32_t num_homes, int32_t poison,
                           TraceRow* trace);
  void (*plan_free)(Plan* plan);
  void (*program_free)(Program* program);
  int (*run)(Pool* pool, Program* program, int64_t number, int64_t max_ns, int assemble,
             int64_t* elapsed_ns, int64_t* done);
  int32_t (*failed_position)(void);
  const char* (*failed_text)(void);
  void (*hook)(FTVMParallelLaunch* slot, FTVMParallelLaunch original);
  void (*set_func_call)(FTVMFuncCall function);
  FTVMParallelLaunch parallel_launch;
  TVMKernel call_packed;
  void (*set_ffi)(FFITakeError take_error, FFIRelease release);
  const char* (*ffi_error)(void);
  TVMKernel call_ffi;
} Executor;

/* Goes up with every structure or function that Python or tvm_ios_model.c knows. */
#define EXECUTOR_VERSION 7

static inline void cpu_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

#endif
