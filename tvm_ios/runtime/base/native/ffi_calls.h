/* Calls of kernels of TVM-FFI from launches, which are packed, and the errors that they raise. */
#ifndef TVM_IOS_FFI_CALLS_H_
#define TVM_IOS_FFI_CALLS_H_

#include <stdatomic.h>
#include <stdio.h>

#include "lane_executor.h"

/* TVMFFIErrorMoveFromRaised and TVMFFIObjectDecRef, once a library of such kernels is loaded. */
static _Atomic(FFITakeError) ffi_take_error;
static _Atomic(FFIRelease) ffi_release;

void tvm_ios_set_ffi(FFITakeError take_error, FFIRelease release) {
  atomic_store(&ffi_take_error, take_error);
  atomic_store(&ffi_release, release);
}

/* The text of the last error that a kernel raised on this thread, once; "" where there is none. It is
 * valid until the next call on this thread. */
const char* tvm_ios_ffi_error(void) {
  static __thread char text[ERROR_TEXT_BYTES];
  FFIError* error = NULL;
  FFITakeError take_error = atomic_load(&ffi_take_error);
  if (take_error) take_error(&error);
  if (!error) return "";
  snprintf(text, sizeof text, "%.*s: %.*s", (int)error->kind.size, error->kind.data,
           (int)error->message.size, error->message.data);
  atomic_load(&ffi_release)(error);
  return text;
}

/* A launch of TVM-FFI in the form of a packed one: `resource` is the function, `type_codes` its self,
 * and the arguments are FFIAny. Packed launches so pay nothing, not even a branch. */
int32_t tvm_ios_call_ffi(TVMValue* args, int32_t* type_codes, int32_t num_args,
                         TVMValue* ret_value, int32_t* ret_tcode, void* resource) {
  (void)ret_value, (void)ret_tcode;
  FFIAny result = {0}; /* a result that is an object would be released; kernels give none */
  return ((FFIFunction)resource)(type_codes, (const FFIAny*)args, num_args, &result);
}

#endif
