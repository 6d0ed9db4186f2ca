/* A plan as constants of C: what an exported file holds for tvm_ios_model.c. */
#ifndef TVM_IOS_MODEL_IMAGE_H_
#define TVM_IOS_MODEL_IMAGE_H_

#include <stddef.h>
#include <stdint.h>

#include "tvm_abi.h"

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

/* Functions of the program that calls of operator libraries use. */
typedef struct {
  void* (*take_workspace)(int device_type, int device_id, uint64_t size, int code, int bits);
  int (*give_workspace)(int device_type, int device_id, void* address);
  FTVMParallelLaunch launch;
} CallHost;

/* Functions of an exported file with calls of operator libraries. tvm_ios_open_calls makes all of
 * them ready and gives the resource of each. tvm_ios_close_calls may be called whether or not that
 * went well. tvm_ios_explain_call writes the library's error of a call, once; nothing where there is
 * none. */
int tvm_ios_open_calls(const CallHost* host, void** resources, char* text, size_t size);
void tvm_ios_close_calls(void);
void tvm_ios_explain_call(void* resource, char* text, size_t size);

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
