/* What TVM hands remote_lanes.c, and how it reads what a host sends. */
#ifndef TVM_IOS_REMOTE_LANES_H_
#define TVM_IOS_REMOTE_LANES_H_

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tvm_abi.h"

typedef struct {
  const char* data;
  size_t size;
} ByteArray;

/* TVM fills these in when it loads this library, as it does for generated kernels. */
void (*__TVMAPISetLastError)(const char* text);
FTVMFuncCall __TVMFuncCall;
int (*__TVMBackendGetFuncFromEnv)(void* module, const char* name, void** function);

__attribute__((format(printf, 1, 2))) static int32_t fail(const char* format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  if (__TVMAPISetLastError) __TVMAPISetLastError(text);
  return -1;
}

/* Rows of little-endian int64; the bytes a host sends need not be aligned. */
typedef struct {
  const char* at;
  size_t left;
} Rows;

static Rows rows_of(TVMValue value) {
  const ByteArray* bytes = value.v_handle;
  return (Rows){bytes->data, bytes->size / sizeof(int64_t)};
}

static int64_t next_row(Rows* rows) {
  int64_t value = 0;
  if (!rows->left) return 0;
  memcpy(&value, rows->at, sizeof value);
  rows->at += sizeof value;
  --rows->left;
  return value;
}

static void* next_address(Rows* rows) { return (void*)(intptr_t)next_row(rows); }

static double next_double(Rows* rows) {
  int64_t bits = next_row(rows);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int32_t give_int(TVMValue* result, int32_t* code, int64_t value) {
  result->v_int64 = value;
  *code = TYPE_INT;
  return 0;
}

/* Copy a text into a tensor of bytes that the host reads back; it is cut where it does not fit. */
static void give_text(TVMValue tensor, const char* text) {
  const DLTensor* into = tensor.v_handle;
  if (into->shape[0] < 1) return;
  strncpy((char*)into->data + into->byte_offset, text, (size_t)into->shape[0] - 1);
  ((char*)into->data + into->byte_offset)[into->shape[0] - 1] = 0;
}

#endif
