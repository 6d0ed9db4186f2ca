/* Speeds of a lane, on pinned threads: float32 multiply-adds in registers, moves of memory, and
 * starts of kernels. The widest vectors of the processor are chosen when it runs, since machines of
 * different processors may share a cache of compiled code. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "../../support/native/threads.h"

typedef struct {
  int vector_bytes;
  int sums; /* multiply-adds in a step */
  float (*multiply_add)(int64_t steps);
  void (*move)(void* to, const void* from, int64_t bytes);
} Loops;

/* Names in place of an array, which the compiler would keep in memory. */
#define FIRST(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define SECOND(DO) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#define FEW(DO) FIRST(DO)
#define MANY(DO) FIRST(DO) SECOND(DO)
#if defined(__x86_64__)
#define KEEP(value) __asm__ volatile("" : "+v"(value)); /* every step stays a step */
#elif defined(__aarch64__)
#define KEEP(value) __asm__ volatile("" : "+w"(value));
#else
#define KEEP(value)
#endif
#define BEGIN(i) Vector sum##i = factor * (float)i;
#define STEP(i)                  \
  sum##i = sum##i * factor + term; \
  KEEP(sum##i)
#define ADD(i) total += sum##i[0];
#define JOINED(name, set) name##_##set
#define JOIN(name, set) JOINED(name, set)
#define IN_SET(name) JOIN(name, SET)

#if defined(__x86_64__)
#define SET avx512
#define SET_TARGET __attribute__((target("avx512f")))
#define VECTOR_BYTES 64
#define CHAINS 24
#define EACH MANY
#include "vector_loops.h"

#define SET avx2
#define SET_TARGET __attribute__((target("avx2,fma")))
#define VECTOR_BYTES 32
#define CHAINS 12
#define EACH FEW
#include "vector_loops.h"
#endif

#define SET plain
#define SET_TARGET
#define VECTOR_BYTES 16
#if defined(__aarch64__)
#define CHAINS 24
#define EACH MANY
#else
#define CHAINS 12
#define EACH FEW
#endif
#include "vector_loops.h"

static const Loops* widest(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return &loops_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &loops_avx2;
#endif
  return &loops_plain;
}

static void pin(int32_t core) { keep_on_cores(pthread_self(), &core, 1, -1); }

/* Bits of the vectors that the loops use. */
int tvm_ios_vector_bits(void) { return widest()->vector_bytes * 8; }

/* Bytes of the second cache of a core; 0 where the system does not say. */
int64_t tvm_ios_second_cache_bytes(void) {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  int64_t bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : 0;
#else
  return 0;
#endif
}

typedef struct {
  int core;
  int64_t steps;
  pthread_barrier_t* start;
  int64_t begin_ns, end_ns;
  float keep;
} Job;

static void* multiply(void* argument) {
  Job* job = argument;
  pin(job->core);
  const Loops* loops = widest();
  job->keep = loops->multiply_add(job->steps / 10); /* wide units need some microseconds to wake */
  pthread_barrier_wait(job->start);
  job->begin_ns = now_ns();
  job->keep += loops->multiply_add(job->steps);
  job->end_ns = now_ns();
  return NULL;
}

/* Floating-point operations a nanosecond (GFLOP/s) of `count` cores together; -1 if a thread cannot
 * be made. */
double tvm_ios_peak_gflops(const int* cores, int count, int64_t steps) {
  Job jobs[count];
  pthread_t threads[count];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, (unsigned)count);
  for (int i = 0; i < count; ++i) {
    jobs[i] = (Job){.core = cores[i], .steps = steps, .start = &start};
    if (pthread_create(&threads[i], NULL, multiply, &jobs[i]) != 0) return -1.0;
  }
  int64_t begin_ns = INT64_MAX, end_ns = 0;
  for (int i = 0; i < count; ++i) {
    pthread_join(threads[i], NULL);
    if (jobs[i].begin_ns < begin_ns) begin_ns = jobs[i].begin_ns;
    if (jobs[i].end_ns > end_ns) end_ns = jobs[i].end_ns;
  }
  pthread_barrier_destroy(&start);
  return 2.0 * widest()->sums * (double)steps * count / (double)(end_ns - begin_ns);
}

typedef struct {
  int core;
  int64_t bytes, part_bytes, laps;
  double best;
} Moves;

static void* move_all(void* argument) {
  Moves* moves = argument;
  pin(moves->core);
  const Loops* loops = widest();
  char* from = aligned_alloc(4096, (size_t)(2 * moves->bytes));
  if (!from) return NULL;
  memset(from, 0, (size_t)(2 * moves->bytes));
  char* to = from + moves->bytes;
  for (int64_t lap = 0; lap < moves->laps; ++lap)
    for (int64_t at = 0; at + moves->part_bytes <= moves->bytes; at += moves->part_bytes) {
      int64_t begin_ns = now_ns();
      loops->move(to + at, from + at, moves->part_bytes);
      double rate = 2.0 * (double)moves->part_bytes / (double)(now_ns() - begin_ns);
      if (rate > moves->best) moves->best = rate;
    }
  free(from);
  return NULL;
}

/* Bytes that a core reads or writes in a nanosecond, the most of all parts of all laps: two buffers
 * of `bytes` bytes, a multiple of 4096, are walked through in parts, a multiple of 256 bytes each.
 * -1 if there is no thread or no memory. */
double tvm_ios_moved_bytes_per_ns(int core, int64_t bytes, int64_t part_bytes, int64_t laps) {
  Moves moves = {core, bytes, part_bytes, laps, -1.0};
  pthread_t thread;
  if (pthread_create(&thread, NULL, move_all, &moves) != 0) return -1.0;
  pthread_join(thread, NULL);
  return moves.best;
}

#define LAUNCHES 1000

typedef int32_t (*Kernel)(void* args, int32_t* codes, int32_t count, void* result, int32_t* code,
                          void* resource);

static int32_t no_kernel(void* args, int32_t* codes, int32_t count, void* result, int32_t* code,
                         void* resource) {
  (void)args, (void)codes, (void)count, (void)result, (void)code, (void)resource;
  __asm__ volatile("" ::: "memory");
  return 0;
}

typedef struct {
  int core;
  int64_t samples;
  double best_ns;
} Starts;

/* What a lane does between two kernels of a chain: it counts one dependency down, sees that nobody
 * has stopped the run, and calls through a pointer. */
static void* start_all(void* argument) {
  Starts* starts = argument;
  pin(starts->core);
  static _Atomic int32_t waiting, stopped;
  Kernel volatile kernel = no_kernel;
  int32_t codes[4] = {0}, code = 0;
  void* args[4] = {0};
  for (int64_t sample = 0; sample < starts->samples; ++sample) {
    int64_t begin_ns = now_ns();
    for (int i = 0; i < LAUNCHES; ++i) {
      if (atomic_load_explicit(&stopped, memory_order_acquire)) break;
      if (kernel(args, codes, 4, &codes[0], &code, NULL)) break;
      atomic_fetch_sub_explicit(&waiting, 1, memory_order_acq_rel);
    }
    double ns = (double)(now_ns() - begin_ns) / LAUNCHES;
    if (starts->best_ns < 0 || ns < starts->best_ns) starts->best_ns = ns;
  }
  return NULL;
}

/* Nanoseconds from one kernel to the next on a lane, least of some samples; -1 without a thread. */
double tvm_ios_launch_ns(int core, int64_t samples) {
  Starts starts = {core, samples, -1.0};
  pthread_t thread;
  if (pthread_create(&thread, NULL, start_all, &starts) != 0) return -1.0;
  pthread_join(thread, NULL);
  return starts.best_ns;
}
