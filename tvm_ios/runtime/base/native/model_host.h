/* What tvm_ios_model.c needs of TVM: functions of its runtime, found by name, or with TVM-FFI those of
 * its library and a few of ours. And where errors are told. */
#ifndef TVM_IOS_MODEL_HOST_H_
#define TVM_IOS_MODEL_HOST_H_

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ffi_abi.h"
#include "tvm_abi.h"
#include "tvm_ios.h"

#define ALIGNMENT_BYTES 64

static _Thread_local char error_text[2048];

const char* tvm_ios_last_error(void) { return error_text; }

/* Every other function of tvm_ios.h begins with it, so that an error is one of the last call. */
static void clear_error(void) { *error_text = 0; }

__attribute__((format(printf, 1, 2))) static int fail(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(error_text, sizeof error_text, format, values);
  va_end(values);
  return -1;
}

enum { CODE_OBJECT = 8, CODE_MODULE = 9, CODE_PACKED = 10, CODE_STRING = 11, CODE_ARRAY = 13 };

typedef struct {
  int (*load)(const char* path, const char* format, void** module);
  int (*free_module)(void* module);
  int (*get_function)(void* module, const char* name, int query_imports, void** function);
  int (*get_global)(const char* name, void** function);
  FTVMFuncCall call;
  int (*free_function)(void* function);
  int (*free_array)(DLTensor* array);
  int (*free_object)(void* object);
  FTVMParallelLaunch parallel_launch;
  void* (*take_workspace)(int device_type, int device_id, uint64_t size, int code, int bits);
  int (*give_workspace)(int device_type, int device_id, void* address);
  const char* (*last_error)(void);
  FFITakeError take_error; /* these two of TVM-FFI only */
  FFIRelease release;
} Tvm;

static int find_in_tvm(void* library, const char* name, void** function) {
  *function = dlsym(library, name);
  return *function ? 0 : fail("TVM's runtime has no %s: it is none of TVM 0.11 to 0.19", name);
}

/* The runtime that the program is linked with, else one that the loader finds by its name. */
static int find_tvm(Tvm* tvm) {
  void* library = dlsym(RTLD_DEFAULT, "TVMFuncCall") ? dlopen(NULL, RTLD_LAZY) : NULL;
  if (!library) library = dlopen("libtvm_runtime.so", RTLD_LAZY | RTLD_GLOBAL);
  if (!library)
    return fail("there is no TVM runtime: link with -ltvm_runtime, or let LD_LIBRARY_PATH name its "
                "folder (%s)", dlerror());
  struct {
    const char* name;
    void** function;
  } wanted[] = {{"TVMModLoadFromFile", (void**)&tvm->load},
                {"TVMModFree", (void**)&tvm->free_module},
                {"TVMModGetFunction", (void**)&tvm->get_function},
                {"TVMFuncGetGlobal", (void**)&tvm->get_global},
                {"TVMFuncCall", (void**)&tvm->call},
                {"TVMFuncFree", (void**)&tvm->free_function},
                {"TVMArrayFree", (void**)&tvm->free_array},
                {"TVMObjectFree", (void**)&tvm->free_object},
                {"TVMBackendParallelLaunch", (void**)&tvm->parallel_launch},
                {"TVMBackendAllocWorkspace", (void**)&tvm->take_workspace},
                {"TVMBackendFreeWorkspace", (void**)&tvm->give_workspace},
                {"TVMGetLastError", (void**)&tvm->last_error}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; ++i)
    if (find_in_tvm(library, wanted[i].name, wanted[i].function)) return -1;
  return 0;
}

static void* take_workspace(int device_type, int device_id, uint64_t size, int code, int bits) {
  (void)device_type, (void)device_id, (void)code, (void)bits;
  void* memory = NULL;
  return posix_memalign(&memory, ALIGNMENT_BYTES, size ? size : 1) ? NULL : memory;
}

static int give_workspace(int device_type, int device_id, void* address) {
  (void)device_type, (void)device_id;
  free(address);
  return 0;
}

/* Kernels with barriers inside regions run on one lane, where nobody has to be waited for. */
static int pass_barrier(int task, TVMParallelGroupEnv* env) {
  (void)task, (void)env;
  return 0;
}

/* What kernels of TVM-FFI need: its library, in which they raise errors; all else is ours. */
static int find_ffi(Tvm* tvm) {
  void* library = dlsym(RTLD_DEFAULT, "TVMFFIErrorMoveFromRaised") ? dlopen(NULL, RTLD_LAZY) : NULL;
  /* Global, since kernels name its functions. */
  if (!library) library = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_GLOBAL);
  if (!library)
    return fail("there is no libtvm_ffi.so, which kernels of this TVM need: link with -ltvm_ffi, or "
                "let LD_LIBRARY_PATH name its folder (%s)", dlerror());
  tvm->take_error = (FFITakeError)dlsym(library, "TVMFFIErrorMoveFromRaised");
  tvm->release = (FFIRelease)dlsym(library, "TVMFFIObjectDecRef");
  tvm->take_workspace = take_workspace;
  tvm->give_workspace = give_workspace;
  return tvm->take_error && tvm->release ? 0
                                         : fail("libtvm_ffi.so is none of TVM 0.27: it lacks "
                                                "TVMFFIErrorMoveFromRaised or TVMFFIObjectDecRef");
}

static int tvm_failed(const Tvm* tvm, const char* what) {
  return fail("%s: %s", what, tvm->last_error());
}

#endif
