/* A pool that is run in a child, forked at the worst moment of another thread of its parent.
 *
 * Usage: fork_main. Exit 0 if every run ends; a run that spins for ever is ended by SIGALRM. */
#include "lane_executor.c"

#include <sys/wait.h>

#define LANES 3
#define PATIENCE_S 20

static int32_t do_nothing(TVMValue* args, int32_t* codes, int32_t count, TVMValue* result,
                          int32_t* result_code, void* resource) {
  (void)args, (void)codes, (void)count, (void)result, (void)result_code, (void)resource;
  return 0;
}

static Pool* pool;
static Program* program;

/* `assemble` waits for every lane, which is what a lane that is missing shows in. */
static void run(void) {
  if (tvm_ios_run(pool, program, 1, 0, 1, NULL, NULL) != RUN_DONE) abort();
}

static void in_child(void (*work)(void)) {
  pid_t child = fork();
  if (!child) {
    alarm(PATIENCE_S);
    work();
    _exit(0);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child || status) abort();
}

/* As while another thread of this process repairs: it is gone in the child, half-way. */
static void fork_in_repair(void) {
  int32_t now = atomic_load(&fork_generation), in_repair = -now;
  if (!atomic_compare_exchange_strong(&pool->generation, &(int32_t){0}, in_repair)) abort();
  in_child(run);
}

int main(void) {
  static Launch launch = {.kernel = do_nothing};
  Launch* launches[] = {&launch};
  int32_t rows[] = {0, 1}, none[] = {0, 0};
  PoolOptions options = {.lanes = LANES, .tasks_per_lane = 1, .spin_ns = 20000};
  pool = tvm_ios_pool_create(&options);
  program = tvm_ios_program_create(1, launches, rows, none, none, none, LANES, NULL);
  in_child(run); /* before the pool has threads */
  run();
  in_child(run);
  in_child(fork_in_repair);
  stop_threads(pool); /* as begin does where threads cannot be started, and then repairs */
  in_child(run);
  return 0;
}
