/* The part of TVM's C ABI that generated kernels use; TVM's wheels ship no headers. */
#ifndef TVM_IOS_TVM_ABI_H_
#define TVM_IOS_TVM_ABI_H_

#include <stdint.h>

typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
} TVMValue;

typedef int32_t (*TVMKernel)(TVMValue* args, int32_t* type_codes, int32_t num_args,
                             TVMValue* ret_value, int32_t* ret_tcode, void* resource_handle);

typedef struct {
  void* sync_handle;
  int32_t num_task;
} TVMParallelGroupEnv;

typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv* env, void* cdata);
typedef int (*FTVMParallelLaunch)(FTVMParallelLambda lambda, void* cdata, int num_task);

#endif
