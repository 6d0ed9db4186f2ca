/* A plan as constants of C: what an exported file holds for tvm_ios_model.c. */
#ifndef TVM_IOS_MODEL_IMAGE_H_
#define TVM_IOS_MODEL_IMAGE_H_

#include <stddef.h>
#include <stdint.h>

#include "library_calls.h"

#define MODEL_IMAGE_VERSION 3

typedef struct {
  int32_t kind; /* IMAGE_… */
  int64_t size_bytes;
  int64_t arena_offset;
} ImageBuffer;

enum { IMAGE_ARENA = 0, IMAGE_INPUT = 1, IMAGE_OUTPUT = 2 };

typedef struct {
  int32_t buffer;
  int32_t ndim;
  int64_t byte_offset;
  int64_t size_bytes;
  const int64_t* shape;
  const char* dtype;
  uint8_t code;
  uint8_t bits;
  uint16_t vector_lanes;
} ImageTensor;

typedef struct {
  const char* name;
  int32_t tensor;
  int32_t is_parameter;
} ImageInput;

typedef struct {
  const char* operator_name;
  const char* kernel;
  const int32_t* tensors; /* inputs, then outputs */
  int32_t num_tensors;
  int32_t serial; /* its parallel regions stay on one lane */
  int32_t call;   /* number of the library's call that computes it; -1: TVM's kernel does */
} ImageLaunch;

typedef struct {
  int32_t version;
  int32_t lanes;
  const char* refused;   /* why only Python can run this; "" where C can */
  const char* processor; /* the instruction sets it needs, a space between two */
  int64_t arena_bytes;
  int32_t num_buffers, num_tensors, num_inputs, num_outputs, num_launches, num_groups, num_calls;
  int32_t tasks_per_lane;
  int64_t spin_ns;
  const ImageBuffer* buffers;
  const ImageTensor* tensors;
  const ImageInput* inputs;
  const int32_t* outputs; /* number of the tensor of each */
  const ImageLaunch* launches;
  const int32_t* positions; /* launches, group after group */
  const int32_t* rows;      /* per group, plus one: its first position */
  const int32_t* successor_rows;
  const int32_t* successors;
  const int32_t* homes;
} ModelImage;

#endif
