/* What threads ask of the operating system: the clock, sleep and wake, cores and names.
 *
 * By system calls of Linux, or by POSIX alone: then threads run where the system puts them, and
 * nobody knows which core that is. TVM_IOS_PLAIN takes the second on Linux, too, for tests.
 * _GNU_SOURCE has to be defined before the first header. */
#ifndef TVM_IOS_THREADS_H_
#define TVM_IOS_THREADS_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define MOST_CORES 16384 /* that own_cores may tell */

static inline int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#if defined(__linux__) && !defined(TVM_IOS_PLAIN)

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>

/* Sleep until somebody wakes the word; not at all where it is another one than `expected`. */
static inline void sleep_on(_Atomic uint32_t* word, uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

/* Wake one thread, or all, that sleep on the word. Who changes a word wakes afterwards. */
static inline void wake(_Atomic uint32_t* word, int all) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, all ? INT_MAX : 1, NULL, NULL, 0);
}

/* In a forked child, whose other threads are gone: nobody sleeps. */
static inline void forget_sleepers(void) {}

/* The system's number of this thread, by which it counts its run delay; 0 if it has none. */
static inline int32_t thread_number(void) { return (int32_t)syscall(SYS_gettid); }

/* The core that this thread runs on; -1 if nobody knows. */
static inline int32_t current_core(void) { return sched_getcpu(); }

/* Keep a thread on some cores, or on those of them that are not `without`. */
static inline void keep_on_cores(pthread_t thread, const int32_t* cores, int32_t count,
                                 int32_t without) {
  cpu_set_t set[MOST_CORES / CPU_SETSIZE];
  CPU_ZERO_S(sizeof set, set);
  for (int32_t i = 0; i < count; ++i)
    if (cores[i] != without) CPU_SET_S((size_t)cores[i], sizeof set, set);
  pthread_setaffinity_np(thread, sizeof set, set);
}

/* The cores that this thread may use, at most MOST_CORES; 0 where they cannot be told. */
static inline int32_t own_cores(int32_t* cores) {
  cpu_set_t set[MOST_CORES / CPU_SETSIZE];
  int32_t count = 0;
  if (sched_getaffinity(0, sizeof set, set)) return 0;
  for (int32_t core = 0; core < MOST_CORES; ++core)
    if (CPU_ISSET_S((size_t)core, sizeof set, set)) cores[count++] = core;
  return count;
}

static inline void name_thread(pthread_t thread, const char* name) {
  pthread_setname_np(thread, name);
}

#else

static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t awake = PTHREAD_COND_INITIALIZER; /* one for all words: all sleepers look */

static inline void sleep_on(_Atomic uint32_t* word, uint32_t expected) {
  pthread_mutex_lock(&sleep_lock);
  if (atomic_load(word) == expected) pthread_cond_wait(&awake, &sleep_lock);
  pthread_mutex_unlock(&sleep_lock);
}

static inline void wake(_Atomic uint32_t* word, int all) {
  (void)word, (void)all;
  pthread_mutex_lock(&sleep_lock);
  pthread_cond_broadcast(&awake);
  pthread_mutex_unlock(&sleep_lock);
}

static inline void forget_sleepers(void) {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t nobody = PTHREAD_COND_INITIALIZER;
  sleep_lock = lock;
  awake = nobody;
}

static inline int32_t thread_number(void) { return 0; }

static inline int32_t current_core(void) { return -1; }

static inline void keep_on_cores(pthread_t thread, const int32_t* cores, int32_t count,
                                 int32_t without) {
  (void)thread, (void)cores, (void)count, (void)without;
}

static inline int32_t own_cores(int32_t* cores) {
  int64_t online = sysconf(_SC_NPROCESSORS_ONLN);
  int32_t count = online < 1 ? 0 : online < MOST_CORES ? (int32_t)online : MOST_CORES;
  for (int32_t core = 0; core < count; ++core) cores[core] = core;
  return count;
}

static inline void name_thread(pthread_t thread, const char* name) { (void)thread, (void)name; }

#endif

#endif
