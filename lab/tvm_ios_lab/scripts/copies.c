/* Nanoseconds of copies by memcpy, on one thread or on two.
 *
 * Threads take parts of a copy as lanes of the executor take tasks: one from the front and
 * the other from the back, until they meet. So each has the same part in its cache every time, and
 * a core that another process has does not hold up the other. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PARTS 8

typedef struct {
  char* to;
  const char* from;
  size_t bytes;
  int core, parts;
  /* Number of the run, and parts that were taken from the front and from the back. */
  _Atomic int64_t taken;
  _Atomic int64_t done;
  _Atomic int over;
} copies;

#define BACK ((int64_t)1)
#define FRONT ((int64_t)1 << 8)
#define RUN ((int64_t)1 << 16)

static void copy_parts(copies* all, int64_t side) {
  size_t most = (all->bytes / all->parts + 64) / 64 * 64;
  int64_t taken = atomic_load(&all->taken);
  for (;;) {
    int64_t front = taken / FRONT % 256, back = taken / BACK % 256;
    if (front + back >= all->parts) return;
    if (!atomic_compare_exchange_weak(&all->taken, &taken, taken + side)) continue;
    size_t begin = (side == FRONT ? front : all->parts - 1 - back) * most;
    size_t left = begin < all->bytes ? all->bytes - begin : 0;
    memcpy(all->to + begin, all->from + begin, left < most ? left : most);
    atomic_fetch_add(&all->done, 1);
    taken = atomic_load(&all->taken);
  }
}

static void* second_lane(void* argument) {
  copies* all = argument;
  // It would inherit the one core that the executor pinned its first lane to.
  cpu_set_t others;
  CPU_ZERO(&others);
  for (int core = 0; core < sysconf(_SC_NPROCESSORS_CONF); ++core)
    if (core != all->core) CPU_SET(core, &others);
  sched_setaffinity(0, sizeof others, &others);
  while (!atomic_load(&all->over)) {
    copy_parts(all, BACK);
    __builtin_ia32_pause();
  }
  return NULL;
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

int64_t copies_ns(char* to, const char* from, size_t bytes, int lanes, int64_t runs) {
  copies all = {.to = to, .from = from, .bytes = bytes, .core = sched_getcpu()};
  int parts = all.parts = lanes > 1 ? PARTS : 1;
  atomic_store(&all.taken, parts * BACK);
  pthread_t thread;
  if (lanes > 1 && pthread_create(&thread, NULL, second_lane, &all)) return -1;
  int64_t begin = now();
  for (int64_t run = 1; run <= runs; ++run) {
    atomic_store(&all.taken, run * RUN);
    copy_parts(&all, FRONT);
    while (atomic_load(&all.done) < run * parts) __builtin_ia32_pause();
  }
  int64_t elapsed = now() - begin;
  atomic_store(&all.over, 1);
  if (lanes > 1) pthread_join(thread, NULL);
  return elapsed;
}
