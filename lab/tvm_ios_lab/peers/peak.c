/* Peak of float32 multiply-adds: independent chains in registers, on one pinned thread a core. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define CHAINS 24
#define ANY_REGISTER "+v" /* "x" is the first sixteen only */
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#define CHAINS 12
#define ANY_REGISTER "+x"
#else
#define VECTOR_BYTES 16
#define CHAINS 12
#define ANY_REGISTER "+x"
#endif
#define LANES (VECTOR_BYTES / 4)

/* Names in place of an array, which the compiler would keep in memory. */
#define FIRST(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define SECOND(DO) DO(12) DO(13) DO(14) DO(15) DO(16) DO(17) DO(18) DO(19) DO(20) DO(21) DO(22) DO(23)
#if CHAINS == 24
#define EACH(DO) FIRST(DO) SECOND(DO)
#else
#define EACH(DO) FIRST(DO)
#endif
#define BEGIN(i) Vector sum##i = factor * (float)i;
#define STEP(i)                        \
  sum##i = sum##i * factor + term;     \
  __asm__ volatile("" : ANY_REGISTER(sum##i)); /* every step stays a step */
#define ADD(i) total += sum##i[0];

typedef float Vector __attribute__((vector_size(VECTOR_BYTES)));

typedef struct {
  int core;
  int64_t steps;
  pthread_barrier_t *start;
  int64_t begin_ns, end_ns;
  float keep;
} Job;

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* More chains than latency x ports, fewer than registers. The values tend to 1: no denormals. */
static float multiply_add(int64_t steps) {
  Vector factor, term;
  for (int lane = 0; lane < LANES; ++lane) {
    factor[lane] = 0.5f;
    term[lane] = 0.5f;
  }
  EACH(BEGIN)
  for (int64_t step = 0; step < steps; ++step) {
    EACH(STEP)
  }
  float total = 0.0f;
  EACH(ADD)
  return total;
}

static void *run(void *argument) {
  Job *job = argument;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(job->core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  job->keep = multiply_add(job->steps / 10); /* wide units need some microseconds to wake */
  pthread_barrier_wait(job->start);
  job->begin_ns = now_ns();
  job->keep += multiply_add(job->steps);
  job->end_ns = now_ns();
  return NULL;
}

/* Floating-point operations a nanosecond (GFLOP/s) of `count` cores together; -1 if a thread cannot
 * be made. */
double tvm_ios_peak_gflops(const int *cores, int count, int64_t steps) {
  Job jobs[count];
  pthread_t threads[count];
  pthread_barrier_t start;
  pthread_barrier_init(&start, NULL, (unsigned)count);
  for (int i = 0; i < count; ++i) {
    jobs[i] = (Job){.core = cores[i], .steps = steps, .start = &start};
    if (pthread_create(&threads[i], NULL, run, &jobs[i]) != 0) return -1.0;
  }
  int64_t begin_ns = INT64_MAX, end_ns = 0;
  for (int i = 0; i < count; ++i) {
    pthread_join(threads[i], NULL);
    if (jobs[i].begin_ns < begin_ns) begin_ns = jobs[i].begin_ns;
    if (jobs[i].end_ns > end_ns) end_ns = jobs[i].end_ns;
  }
  pthread_barrier_destroy(&start);
  double operations = 2.0 * LANES * CHAINS * (double)steps * count;
  return operations / (double)(end_ns - begin_ns);
}

/* Bits of the vectors the loop was compiled for. */
int tvm_ios_peak_vector_bits(void) { return VECTOR_BYTES * 8; }
