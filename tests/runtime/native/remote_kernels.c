/* Kernels for tests of remote lanes: one that works, and ways to go wrong. */
#include "tvm_abi.h"

typedef struct {
  float* data;
} Tensor;

void* __tvm_module_ctx; /* TVM fills these in */
void (*__TVMAPISetLastError)(const char* text);

#define KERNEL(name)                                                                      \
  int32_t name(TVMValue* args, int32_t* codes, int32_t num_args, TVMValue* result,        \
               int32_t* result_code, void* resource)

KERNEL(count) {
  (void)codes, (void)num_args, (void)result, (void)result_code, (void)resource;
  *((Tensor*)args[0].v_handle)->data += 1;
  return 0;
}

KERNEL(refuse) {
  (void)args, (void)codes, (void)num_args, (void)result, (void)result_code, (void)resource;
  __TVMAPISetLastError("the shape is wrong");
  return -1;
}

KERNEL(hang) {
  (void)args, (void)codes, (void)num_args, (void)result, (void)result_code, (void)resource;
  for (;;) __asm__ volatile("");
}

KERNEL(crash) {
  (void)args, (void)codes, (void)num_args, (void)result, (void)result_code, (void)resource;
  __builtin_trap();
}
