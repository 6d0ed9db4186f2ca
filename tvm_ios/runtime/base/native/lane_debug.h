/* Debug knobs of the lane executor: poisoned buffers, random delays, error text. */
#ifndef TVM_IOS_LANE_DEBUG_H_
#define TVM_IOS_LANE_DEBUG_H_

#include <string.h>

#include "../../../support/native/threads.h"
#include "plan_loader.h"

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

static const PlanLaunch* planned(const Plan* plan, const Launch* launch) {
  return &plan->image.launches[(launch - plan->launches) % plan->image.header->num_launches];
}

static void poison_before(const Program* program, const Launch* launch) {
  const Plan* plan = program->poisoned;
  const PlanLaunch* from = planned(plan, launch);
  for (int32_t i = from->num_inputs; i < launch->num_arguments; ++i) {
    int32_t tensor = plan->image.arguments[from->arguments + i];
    memset(plan->tensors[tensor].data, 0xFF, (size_t)plan->image.tensors[tensor].size_bytes);
  }
}

/* The buffer of an argument of a launch; NULL where it is not of the arena, which others read. */
static const PlanBuffer* arena_buffer(const Plan* plan, const PlanLaunch* launch, int32_t place,
                                      int32_t* number) {
  *number = plan->image.tensors[plan->image.arguments[launch->arguments + place]].buffer;
  const PlanBuffer* buffer = &plan->image.buffers[*number];
  return buffer->kind == BUFFER_ARENA ? buffer : NULL;
}

static void count_accesses(Program* program, const Launch* launch) {
  int32_t number;
  for (int32_t i = 0; i < launch->num_arguments; ++i)
    if (arena_buffer(program->poisoned, planned(program->poisoned, launch), i, &number))
      ++program->accesses[number];
}

/* By the acq_rel count of arguments that are left, the last launch that touches a buffer comes after
 * all others. */
static void poison_after(const Program* program, const Launch* launch) {
  const Plan* plan = program->poisoned;
  int32_t number;
  for (int32_t i = 0; i < launch->num_arguments; ++i) {
    const PlanBuffer* buffer = arena_buffer(plan, planned(plan, launch), i, &number);
    if (buffer && atomic_fetch_sub_explicit(&program->accesses_left[number], 1,
                                            memory_order_acq_rel) == 1)
      memset(plan->places[number], 0xFF, (size_t)buffer->size_bytes);
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
