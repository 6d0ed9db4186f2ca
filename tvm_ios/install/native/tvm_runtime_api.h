/* What TVM's Cython module calls of the library in the wheel, which comes without headers. Declared as TVM 0.17 has it in
 * c_runtime_api.h, c_backend_api.h, ndarray.h and DLPack. */
#ifndef TVM_IOS_TVM_RUNTIME_API_H
#define TVM_IOS_TVM_RUNTIME_API_H

#include <stdint.h>

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLDevice {
  int device_type;
  int device_id;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

union TVMValue {
  int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
};

extern "C" {
typedef int (*TVMPackedCFunc)(TVMValue* args, int* type_codes, int num_args, void* ret, void* resource_handle);

void TVMAPISetLastError(const char* message);
void TVMAPISetLastPythonError(void* error);
const char* TVMGetLastError(void);
int TVMFuncGetGlobal(const char* name, void** out);
int TVMFuncCall(void* function, TVMValue* args, int* type_codes, int num_args, TVMValue* ret, int* ret_type_code);
int TVMFuncFree(void* function);
int TVMCFuncSetReturn(void* ret, TVMValue* value, int* type_code, int num_ret);
int TVMFuncCreateFromCFunc(TVMPackedCFunc function, void* resource_handle, void (*finalizer)(void*), void** out);
int TVMCbArgToReturn(TVMValue* value, int* code);
int TVMArrayFree(DLTensor* array);
int TVMArrayCopyFromTo(DLTensor* from, DLTensor* to, void* stream);
int TVMArrayFromDLPack(DLManagedTensor* from, DLTensor** out);
int TVMArrayToDLPack(DLTensor* from, DLManagedTensor** out);
void TVMDLManagedTensorCallDeleter(DLManagedTensor* tensor);
int TVMObjectFree(void* object);
int TVMObjectGetTypeIndex(void* object, unsigned* out);
int TVMBackendRegisterEnvCAPI(const char* name, void* function);
}

namespace tvm {
namespace runtime {
/* An NDArray begins with the fields of an object: its type, its references and its deleter. */
inline void* TVMArrayHandleToObjectHandle(DLTensor* array) { return (char*)array - (2 * sizeof(int32_t) + sizeof(void*)); }
}  // namespace runtime
}  // namespace tvm

#endif
