/* How kernels of TVM-FFI (TVM 0.27) are called, and how they tell of errors. The twin for Python is
 * ffi_abi.py; packed kernels are tvm_abi.h's. */
#ifndef TVM_IOS_FFI_ABI_H_
#define TVM_IOS_FFI_ABI_H_

#include <stddef.h>
#include <stdint.h>

#include "tvm_abi.h"

typedef struct {
  int32_t type_index;
  uint32_t padding; /* 0 */
  void* object;
} FFIAny;

#define FFI_PREFIX "__tvm_ffi_" /* of the symbol of a kernel */

enum { FFI_TENSOR = 7 }; /* type index of the address of a DLTensor */

typedef int32_t (*FFIFunction)(void* self, const FFIAny* args, int32_t num_args, FFIAny* result);

typedef struct {
  const char* data;
  size_t size;
} FFIBytes;

typedef struct { /* an object's header, and what an error has behind it */
  uint64_t references;
  int32_t type_index;
  uint32_t padding;
  void* deleter;
  FFIBytes kind;
  FFIBytes message;
} FFIError;

typedef void (*FFITakeError)(FFIError** error);
typedef int (*FFIRelease)(void* object);

#endif
