/* Calls of kernels one after the other, timed: for separable.py. */
#include <stdint.h>
#include <time.h>

typedef int32_t (*Kernel)(void*, void*, int32_t, void*, void*, void*);
typedef struct {
  Kernel kernel;
  void *values, *codes;
  int64_t count;
  void* resource;
} Step;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Nanoseconds of all steps, repeated; -1 where one fails. */
int64_t run_steps(const Step* steps, int64_t count, int64_t repeats) {
  int64_t begin = now_ns(), value;
  int32_t code;
  for (int64_t repeat = 0; repeat < repeats; ++repeat)
    for (const Step* step = steps; step < steps + count; ++step)
      if (step->kernel(step->values, step->codes, step->count, &value, &code, step->resource))
        return -1;
  return (now_ns() - begin) / repeats;
}
