/* How TVM's kernels are called, and what they call; TVM's wheels ship no headers. The twin for
 * Python is tvm_abi.py. */
#ifndef TVM_IOS_TVM_ABI_H_
#define TVM_IOS_TVM_ABI_H_

#include <stdint.h>

typedef union {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
} TVMValue;

typedef struct { /* a tensor as DLPack lays it out */
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t vector_lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;

enum { TYPE_INT = 0, TYPE_FLOAT = 2, TYPE_TENSOR = 7 }; /* type codes of arguments */

typedef int32_t (*TVMKernel)(TVMValue* args, int32_t* type_codes, int32_t num_args,
                             TVMValue* ret_value, int32_t* ret_tcode, void* resource_handle);

typedef struct {
  void* sync_handle;
  int32_t num_task;
} TVMParallelGroupEnv;

typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv* env, void* cdata);
typedef int (*FTVMFuncCall)(void* function, TVMValue* args, int* type_codes, int num_args,
                            TVMValue* ret_value, int* ret_tcode);
typedef int (*FTVMParallelLaunch)(FTVMParallelLambda lambda, void* cdata, int num_task);

#endif
