/* Kernels in TVM's calling convention, for tests of the lane pool. Arguments are int64 counters. */
#include "tvm_abi.h"

static const char* last_error = "";

const char* get_last_error(void) { return last_error; }

int32_t count(TVMValue* args, int32_t* codes, int32_t num_args, TVMValue* result,
              int32_t* result_code, void* resource) {
  (void)args, (void)codes, (void)num_args, (void)result, (void)result_code;
  __atomic_fetch_add((int64_t*)resource, 1, __ATOMIC_RELAXED);
  return 0;
}

int32_t fail(TVMValue* args, int32_t* codes, int32_t num_args, TVMValue* result,
             int32_t* result_code, void* resource) {
  (void)args, (void)codes, (void)num_args, (void)result, (void)result_code, (void)resource;
  last_error = "the shape is wrong";
  return -1;
}

int32_t linger(TVMValue* args, int32_t* codes, int32_t num_args, TVMValue* result,
               int32_t* result_code, void* resource) {
  for (volatile int i = 0; i < 20000; ++i) continue;
  return count(args, codes, num_args, result, result_code, resource);
}
