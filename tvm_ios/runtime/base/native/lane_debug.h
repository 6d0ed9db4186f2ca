/* Debug knobs of the lane executor: poisoned buffers, random delays, error text. */
#ifndef TVM_IOS_LANE_DEBUG_H_
#define TVM_IOS_LANE_DEBUG_H_

#include <string.h>
#include <time.h>

#include "lane_executor.h"

static inline int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static uint64_t next_random(Lane* lane) {
  uint64_t value = lane->random;
  value ^= value << 13;
  value ^= value >> 7;
  value ^= value << 17;
  return lane->random = value;
}

/* Wait at random, where a seed is given: half of the time not at all, else some microseconds. */
static void jitter(Lane* lane) {
  if (!lane->pool->options.jitter_seed) return;
  uint64_t draw = next_random(lane);
  if (draw & 1) return;
  for (uint64_t left = (draw >> 8) % 128; left; --left) cpu_relax();
}

static void poison_before(const Program* program, int32_t position) {
  const Poison* poison = program->poison;
  for (int32_t i = poison->range_rows[position]; i < poison->range_rows[position + 1]; ++i)
    memset(poison->ranges[i].begin, 0xFF, (size_t)poison->ranges[i].size_bytes);
}

/* Overwrite a buffer after the last launch that touches it: by the acq_rel count of launches that
 * are left, that one comes after all others. */
static void poison_after(const Program* program, int32_t position) {
  const Poison* poison = program->poison;
  for (int32_t i = poison->buffer_rows[position]; i < poison->buffer_rows[position + 1]; ++i) {
    int32_t buffer = poison->touched[i];
    if (atomic_fetch_sub_explicit(&program->accesses_left[buffer], 1, memory_order_acq_rel) == 1)
      memset(poison->buffers[buffer].begin, 0xFF, (size_t)poison->buffers[buffer].size_bytes);
  }
}

/* Keep the first failure of a run. TVM has a last error for each thread, so it is read by the one
 * whose launch failed. */
static void report_failure(Lane* lane, int32_t position) {
  Pool* pool = lane->pool;
  if (atomic_exchange_explicit(&pool->error_claimed, 1, memory_order_acq_rel)) return;
  const char* text = pool->options.get_last_error ? pool->options.get_last_error() : "";
  strncpy(pool->error_text, text ? text : "", ERROR_TEXT_BYTES - 1);
  pool->error_text[ERROR_TEXT_BYTES - 1] = 0;
  pool->error_position = position;
}

#endif
