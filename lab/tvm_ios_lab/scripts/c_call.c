/* Nanoseconds of a run by tvm_ios_model_run, and by the executor's own loop over as many runs.
 *
 *   c_call MODEL.so LANES ROUNDS RUNS
 *
 * A line a round: the nanoseconds of a run in the loop, then by calls. The insides of
 * tvm_ios_model.c are included, since only they can ask the executor for many runs at once. */
#include "tvm_ios_model.c"

#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int complain(void) {
  fprintf(stderr, "c_call: %s\n", tvm_ios_last_error());
  return 1;
}

static int in_loop(tvm_ios_model* model, int runs, double* ns) {
  double begin = now();
  int status = model->executor->run(model->pool, model->program, runs, 0, 0, NULL, NULL);
  *ns = (now() - begin) / runs;
  return status;
}

static int by_calls(tvm_ios_model* model, int runs, double* ns) {
  int status = 0;
  double begin = now();
  for (int i = 0; i < runs; ++i) status |= tvm_ios_model_run(model);
  *ns = (now() - begin) / runs;
  return status;
}

int main(int count, char** words) {
  if (count != 5) {
    fprintf(stderr, "usage: c_call MODEL.so LANES ROUNDS RUNS\n");
    return 2;
  }
  tvm_ios_model* model = tvm_ios_model_open(words[1], atoi(words[2]));
  if (!model) return complain();
  int rounds = atoi(words[3]), runs = atoi(words[4]);
  double loop = 0, calls = 0;
  if (in_loop(model, runs, &loop) || by_calls(model, runs, &calls)) return complain(); /* warm-up */
  for (int round = 0; round < rounds; ++round) {
    /* By turns, and each first in every other round. */
    int status = round % 2 ? by_calls(model, runs, &calls) | in_loop(model, runs, &loop)
                           : in_loop(model, runs, &loop) | by_calls(model, runs, &calls);
    if (status) return complain();
    printf("%.1f %.1f\n", loop, calls);
  }
  tvm_ios_model_close(model);
  return 0;
}
