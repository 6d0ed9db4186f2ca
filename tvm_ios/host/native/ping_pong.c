/* Core-to-core latency: two pinned threads pass one cache line back and forth. */
#define _GNU_SOURCE
#include "../../support/native/threads.h"

static _Alignas(128) _Atomic int64_t ball;
static _Atomic int gave_up;
static int64_t deadline_ns;

typedef struct {
  int core;
  int64_t hops;
} Partner;

static void pin(int32_t core) { keep_on_cores(pthread_self(), &core, 1, -1); }

/* Spins until the ball shows `hop`. Where both threads share a core (pinning refused) a hop costs a
 * time slice, so a player gives up at the deadline and the other one follows. */
static int wait_for(int64_t hop) {
  for (uint32_t spins = 1; atomic_load_explicit(&ball, memory_order_acquire) != hop; ++spins) {
    if ((spins & 0xffff) != 0) continue;
    if (now_ns() > deadline_ns) atomic_store(&gave_up, 1);
    if (atomic_load(&gave_up)) return 0;
  }
  return 1;
}

/* The second thread answers the odd hops. */
static void *answer(void *argument) {
  Partner *partner = argument;
  pin(partner->core);
  for (int64_t hop = 1; hop < partner->hops; hop += 2) {
    if (!wait_for(hop)) break;
    atomic_store_explicit(&ball, hop + 1, memory_order_release);
  }
  return NULL;
}

typedef struct {
  Partner first;
  int64_t batch_hops;
  double best_ns;
} Serve;

/* The first thread plays the even hops, timed in batches: a batch in which the system took a core
 * away is long and loses against the best. */
static void *serve(void *argument) {
  Serve *game = argument;
  pin(game->first.core);
  int64_t batch_start = 0, start = now_ns();
  for (int64_t hop = 0; hop < game->first.hops; hop += 2) {
    if (!wait_for(hop)) break;
    if (hop - batch_start == game->batch_hops) {
      int64_t end = now_ns();
      double ns = (double)(end - start) / (double)game->batch_hops;
      if (batch_start > 0 && (game->best_ns < 0 || ns < game->best_ns)) game->best_ns = ns;
      batch_start = hop;
      start = now_ns();
    }
    atomic_store_explicit(&ball, hop + 1, memory_order_release);
  }
  return NULL;
}

/* Nanoseconds that one hop from core to core takes, best of `batches`, within about `limit_ns`;
 * -1 if it cannot be told. One call at a time. */
double tvm_ios_ping_pong_ns(int first_core, int second_core, int batches, int batch_hops,
                            int64_t limit_ns) {
  int64_t hops = (int64_t)(batches + 1) * batch_hops + 2;
  Serve game = {{first_core, hops}, batch_hops, -1.0};
  Partner second = {second_core, hops};
  pthread_t first_thread, second_thread;
  atomic_store(&ball, 0);
  atomic_store(&gave_up, 0);
  deadline_ns = now_ns() + limit_ns;
  if (pthread_create(&second_thread, NULL, answer, &second) != 0) return -1.0;
  if (pthread_create(&first_thread, NULL, serve, &game) != 0) {
    atomic_store(&gave_up, 1);
    pthread_join(second_thread, NULL);
    return -1.0;
  }
  pthread_join(first_thread, NULL);
  pthread_join(second_thread, NULL);
  return game.best_ns;
}
