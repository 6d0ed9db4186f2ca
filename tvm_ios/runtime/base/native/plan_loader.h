/* Loads the image of a plan: bytes in which anything is out of bounds are refused, never followed. */
#ifndef TVM_IOS_PLAN_LOADER_H_
#define TVM_IOS_PLAN_LOADER_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi_calls.h"
#include "lane_executor.h"

#define TENSOR_ALIGNMENT 64 /* bytes, which kernels assume */

/* Of the last run, or the last plan to load, of this thread that failed: the position of the launch,
 * and the error. */
static __thread int32_t failed_position;
static __thread char failed_text[ERROR_TEXT_BYTES];

int32_t tvm_ios_failed_position(void) { return failed_position; }
const char* tvm_ios_failed_text(void) { return failed_text; }

/* Note why a plan is refused; 0. */
__attribute__((format(printf, 1, 2))) static int refuse(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(failed_text, sizeof failed_text, format, values);
  va_end(values);
  return 0;
}

static int damaged(const char* what, int64_t number) {
  return refuse("the plan is damaged: %s %lld is out of bounds; export the model again", what,
                (long long)number);
}

static uint32_t checksum(const void* bytes, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const uint8_t *at = bytes, *end = at + size; at < end; ++at) {
    crc ^= *at;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0xEDB88320u & -(crc & 1));
  }
  return ~crc;
}

/* ---- bounds ---- */

static int within(int64_t index, int64_t count) { return index >= 0 && index < count; }

static int is_text(const PlanImage* image, int32_t text) {
  return within(text, image->header->text_bytes);
}

/* Numbers that ascend from 0 to the last one. */
static int are_rows(const int32_t* rows, int32_t count, int32_t last) {
  for (int32_t i = 0; i < count; ++i)
    if (rows[i] > rows[i + 1]) return 0;
  return rows[0] == 0 && rows[count] <= last;
}

static int is_buffer(const PlanImage* image, const PlanBuffer* buffer) {
  if (!within(buffer->kind, BUFFER_OUTPUT + 1) || buffer->size_bytes < 0) return 0;
  return buffer->kind != BUFFER_ARENA ||
         (buffer->arena_offset >= 0 && buffer->arena_offset % TENSOR_ALIGNMENT == 0 &&
          buffer->size_bytes <= image->header->arena_bytes &&
          buffer->arena_offset <= image->header->arena_bytes - buffer->size_bytes);
}

static int is_tensor(const PlanImage* image, const PlanTensor* tensor) {
  const PlanHeader* header = image->header;
  int64_t bytes = (tensor->bits * tensor->vector_lanes + 7) / 8;
  if (!within(tensor->buffer, header->num_buffers) || !is_text(image, tensor->dtype) ||
      tensor->ndim < 0 || tensor->extents < 0 ||
      (int64_t)tensor->extents + tensor->ndim > header->num_extents)
    return 0;
  for (int32_t axis = 0; axis < tensor->ndim; ++axis) {
    int64_t extent = image->extents[tensor->extents + axis];
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) return 0;
  }
  int64_t room = image->buffers[tensor->buffer].size_bytes;
  return bytes == tensor->size_bytes && bytes <= room && tensor->byte_offset >= 0 &&
         tensor->byte_offset <= room - bytes && tensor->byte_offset % TENSOR_ALIGNMENT == 0;
}

static int is_launch(const PlanImage* image, const PlanLaunch* launch) {
  const PlanHeader* header = image->header;
  return is_text(image, launch->operator_name) && is_text(image, launch->kernel) &&
         launch->arguments >= 0 && launch->num_inputs >= 0 && launch->num_outputs >= 0 &&
         (int64_t)launch->arguments + launch->num_inputs + launch->num_outputs <=
             header->num_arguments &&
         (launch->call == -1 ||
          (within(launch->call, header->num_calls) && is_text(image, launch->call_data)));
}

/* A group has launches, and only groups behind it wait for it, so each is reached once. */
static int is_group(const PlanImage* image, int32_t group) {
  for (int32_t i = image->successor_rows[group]; i < image->successor_rows[group + 1]; ++i)
    if (image->successors[i] <= group || image->successors[i] >= image->header->num_groups)
      return 0;
  return image->rows[group] < image->rows[group + 1] && image->groups[group].home >= 0;
}

/* The number of calls, and each one's data after their number of bytes. */
static int are_calls(const PlanImage* image) {
  const int64_t *at = image->call_words, *end = at + image->header->num_call_words;
  if (at == end) return 1;
  int64_t count = *at++;
  if (count != image->header->num_calls) return 0;
  for (; count; --count, at += 1 + *at / 8)
    if (at == end || *at < 0 || *at % 8 || *at / 8 > end - at - 1) return 0;
  return at == end;
}

/* Parts have names, and together the outputs of the network. */
static int are_parts(const PlanImage* image) {
  int64_t outputs = 0;
  for (int32_t i = 0; i < image->header->num_parts; ++i) {
    const PlanPart* part = &image->parts[i];
    if (!is_text(image, part->name) || part->num_outputs < 0) return 0;
    outputs += part->num_outputs;
  }
  return !image->header->num_parts ||
         (image->header->num_parts < MOST_PARTS && outputs == image->header->num_outputs);
}

#define REQUIRE_EACH(what, count, holds) \
  for (int32_t i = 0; i < (count); ++i)  \
    if (!(holds)) return damaged(what, i)

static int is_sound(const PlanImage* image) {
  const PlanHeader* header = image->header;
  if (header->lanes < 1 || header->tasks_per_lane < 1 || header->spin_ns < 0 ||
      header->arena_bytes < 0 || header->num_calls < 0 || !is_text(image, header->refused) ||
      !is_text(image, header->processor) || !is_text(image, header->call_function) ||
      image->texts[header->text_bytes - 1] || !are_calls(image) || !are_parts(image) ||
      !are_rows(image->rows, header->num_groups, header->num_launches) ||
      !are_rows(image->successor_rows, header->num_groups, header->num_successors))
    return damaged("table", 0);
  REQUIRE_EACH("buffer", header->num_buffers, is_buffer(image, &image->buffers[i]));
  REQUIRE_EACH("tensor", header->num_tensors, is_tensor(image, &image->tensors[i]));
  REQUIRE_EACH("input", header->num_inputs,
               is_text(image, image->inputs[i].name) &&
                   within(image->inputs[i].tensor, header->num_tensors));
  REQUIRE_EACH("output", header->num_outputs, within(image->outputs[i], header->num_tensors));
  REQUIRE_EACH("launch", header->num_launches, is_launch(image, &image->launches[i]));
  REQUIRE_EACH("argument", header->num_arguments,
               within(image->arguments[i], header->num_tensors));
  REQUIRE_EACH("group", header->num_groups, is_group(image, i));
  return 1;
}

/* ---- reading ---- */

/* The next array of an image, which may be past its end. */
static const void* next_array(const char** at, int64_t count, size_t size) {
  const void* array = *at;
  *at += (size_t)count * size;
  return array;
}

/* Find the arrays of an image; 1 if all bytes are what they should be. */
static int read_image(PlanImage* image, const char* bytes, size_t size) {
  const PlanHeader* header = image->header = (const PlanHeader*)bytes;
  if (size < sizeof *header || memcmp(header->magic, PLAN_IMAGE_MAGIC, sizeof header->magic))
    return refuse("there is no plan in %zu bytes; export the model again", size);
  if (header->version != PLAN_IMAGE_VERSION)
    return refuse("the plan was exported by another version of tvm-ios (image %u), and this one "
                  "reads image %d; export the model again", header->version, PLAN_IMAGE_VERSION);
  size_t begin = offsetof(PlanHeader, checksum) + sizeof header->checksum;
  if (header->size_bytes != size || header->checksum != checksum(bytes + begin, size - begin))
    return refuse("the plan is damaged: its %zu bytes do not match their checksum; export the model "
                  "again", size);
  const int32_t counts[] = {header->num_buffers,    header->num_tensors,   header->num_extents,    header->num_call_words,
                            header->num_inputs,     header->num_outputs,   header->num_launches,
                            header->num_arguments,  header->num_groups,    header->num_successors,
                            header->num_parts,      header->text_bytes};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i)
    if (!within(counts[i], (int64_t)size + 1)) return damaged("number", (int64_t)i);
  const char* at = bytes + sizeof *header;
  int64_t groups = header->num_groups;
  image->buffers = next_array(&at, header->num_buffers, sizeof *image->buffers);
  image->tensors = next_array(&at, header->num_tensors, sizeof *image->tensors);
  image->extents = next_array(&at, header->num_extents, sizeof *image->extents);
  image->call_words = next_array(&at, header->num_call_words, sizeof *image->call_words);
  image->inputs = next_array(&at, header->num_inputs, sizeof *image->inputs);
  image->outputs = next_array(&at, header->num_outputs, sizeof *image->outputs);
  image->launches = next_array(&at, header->num_launches, sizeof *image->launches);
  image->arguments = next_array(&at, header->num_arguments, sizeof *image->arguments);
  image->rows = next_array(&at, groups + 1, sizeof *image->rows);
  image->groups = next_array(&at, groups, sizeof *image->groups);
  image->successor_rows = next_array(&at, groups + 1, sizeof *image->successor_rows);
  image->successors = next_array(&at, header->num_successors, sizeof *image->successors);
  image->parts = next_array(&at, header->num_parts, sizeof *image->parts);
  image->texts = next_array(&at, header->text_bytes, 1);
  if (at != bytes + size || !header->text_bytes) return damaged("end", at - bytes);
  return is_sound(image);
}

/* ---- loading ---- */

static void describe_tensor(Plan* plan, int32_t number, int32_t device_type, int32_t device_id) {
  const PlanTensor* from = &plan->image.tensors[number];
  plan->tensors[number] = (DLTensor){.device_type = device_type,
                                     .device_id = device_id,
                                     .ndim = from->ndim,
                                     .code = from->code,
                                     .bits = from->bits,
                                     .vector_lanes = from->vector_lanes,
                                     .shape = (int64_t*)plan->image.extents + from->extents};
}

static void describe_launch(Plan* plan, int32_t number) {
  const PlanLaunch* from = &plan->image.launches[number];
  Launch launch = {.arguments = plan->packed_arguments + from->arguments,
                   .type_codes = plan->type_codes,
                   .num_arguments = from->num_inputs + from->num_outputs,
                   .serial = from->serial & 1};
  int32_t count = plan->image.header->num_launches;
  plan->launches[number] = launch;
  launch.serial = 1;
  plan->launches[count + number] = launch;
  launch.serial = from->serial >> 1 & 1;
  plan->launches[2 * count + number] = launch;
}

/* An image in memory of our own: the caller's bytes may lie anywhere, and end anywhere. */
static int copy_image(PlanImage* image, const void* bytes, size_t size) {
  char* copy = malloc(size + 1);
  if (!copy) return refuse("no memory for %zu bytes of a plan", size);
  memcpy(copy, bytes, size);
  if (read_image(image, copy, size)) return 1;
  free(copy);
  return 0;
}

void tvm_ios_plan_free(Plan* plan) {
  if (plan) free((void*)plan->image.header);
  free(plan);
}

/* A plan for a device of DLPack's type and number. NULL where the bytes are damaged, and
 * tvm_ios_failed_text then says what is wrong. */
Plan* tvm_ios_plan_load(const void* bytes, size_t size, int32_t device_type, int32_t device_id) {
  PlanImage image;
  if (!copy_image(&image, bytes, size)) return NULL;
  size_t launches = 3 * (size_t)image.header->num_launches;
  size_t tensors = (size_t)image.header->num_tensors;
  size_t arguments = (size_t)image.header->num_arguments;
  size_t buffers = (size_t)image.header->num_buffers;
  Plan* plan = calloc(1, sizeof *plan + launches * sizeof(Launch) + tensors * sizeof(DLTensor) +
                             arguments * (sizeof(TVMValue) + sizeof(FFIAny) + sizeof(int32_t)) +
                             buffers * sizeof(char*) + (buffers + tensors) * sizeof(int32_t));
  if (!plan) {
    refuse("no memory for a plan of %d launches", image.header->num_launches);
    free((void*)image.header);
    return NULL;
  }
  plan->image = image;
  plan->launches = (Launch*)(plan + 1);
  plan->tensors = (DLTensor*)(plan->launches + launches);
  plan->ffi_arguments = (FFIAny*)(plan->tensors + tensors);
  plan->packed_arguments = (TVMValue*)(plan->ffi_arguments + arguments);
  plan->places = (char**)(plan->packed_arguments + arguments);
  plan->firsts = (int32_t*)(plan->places + buffers);
  plan->further = plan->firsts + buffers;
  plan->type_codes = plan->further + tensors;
  for (size_t i = 0; i < arguments; ++i) {
    DLTensor* tensor = &plan->tensors[image.arguments[i]];
    plan->type_codes[i] = TYPE_TENSOR;
    plan->packed_arguments[i].v_handle = tensor;
    plan->ffi_arguments[i] = (FFIAny){.type_index = FFI_TENSOR, .object = tensor};
  }
  memset(plan->firsts, -1, buffers * sizeof(int32_t));
  for (int32_t i = 0; i < image.header->num_tensors; ++i) {
    describe_tensor(plan, i, device_type, device_id);
    int32_t* first = &plan->firsts[image.tensors[i].buffer];
    plan->further[i] = *first;
    *first = i;
  }
  for (int32_t i = 0; i < image.header->num_launches; ++i) describe_launch(plan, i);
  return plan;
}

static size_t aligned(int64_t size_bytes) {
  return ((size_t)size_bytes + TENSOR_ALIGNMENT - 1) / TENSOR_ALIGNMENT * TENSOR_ALIGNMENT;
}

/* Let a buffer begin at an address. Kernels refuse a tensor whose byte_offset is not 0, so its
 * address has it. */
void tvm_ios_plan_place(Plan* plan, int32_t buffer, void* address) {
  plan->places[buffer] = address;
  for (int32_t i = plan->firsts[buffer]; i >= 0; i = plan->further[i])
    plan->tensors[i].data = plan->places[buffer] + plan->image.tensors[i].byte_offset;
}

/* Place all buffers: where `own` says, else in the arena, or, if they are none of it, behind it. The
 * bytes of the arena and of what is behind it. */
size_t tvm_ios_plan_place_all(Plan* plan, void* arena, void* const* own) {
  size_t bytes = aligned(plan->image.header->arena_bytes);
  for (int32_t i = 0; i < plan->image.header->num_buffers; ++i) {
    const PlanBuffer* buffer = &plan->image.buffers[i];
    int inside = buffer->kind == BUFFER_ARENA;
    uintptr_t place = (uintptr_t)arena + (inside ? (size_t)buffer->arena_offset : bytes);
    if (!inside && !own[i]) bytes += aligned(buffer->size_bytes);
    tvm_ios_plan_place(plan, i, own[i] ? own[i] : (void*)place);
  }
  return bytes;
}

/* Give a launch its kernel, and arguments in the form that it reads; `serial` keeps its parallel
 * regions on one lane in any case. */
void tvm_ios_plan_bind(Plan* plan, int32_t number, TVMKernel kernel, void* resource,
                       int32_t serial) {
  int32_t first = plan->image.launches[number].arguments;
  int is_ffi = kernel == tvm_ios_call_ffi;
  for (int32_t i = number; i < 3 * plan->image.header->num_launches;
       i += plan->image.header->num_launches) {
    plan->launches[i].arguments =
        is_ffi ? (TVMValue*)(plan->ffi_arguments + first) : plan->packed_arguments + first;
    plan->launches[i].type_codes = is_ffi ? NULL : plan->type_codes;
    plan->launches[i].kernel = kernel;
    plan->launches[i].resource = resource;
    plan->launches[i].serial |= serial;
  }
}

/* Give each launch its kernel. */
void tvm_ios_plan_bind_all(Plan* plan, const BoundKernel* kernels) {
  for (int32_t i = 0; i < plan->image.header->num_launches; ++i)
    tvm_ios_plan_bind(plan, i, kernels[i].kernel, kernels[i].resource, kernels[i].serial);
}

/* The first launch as planned; as many again, on one lane each, follow the last, and as many as in
 * runs of parts. */
Launch* tvm_ios_plan_launches(Plan* plan) { return plan->launches; }

DLTensor* tvm_ios_plan_tensors(Plan* plan) { return plan->tensors; }

#endif
