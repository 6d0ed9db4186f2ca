/* A convolution as a call of cuDNN, with the signature of TVM's kernels.
 *
 * The resource is the call as it was prepared for the stream that it is issued to: that stream's
 * handle, and functions that serve workspace of that stream. So one call is never made from two
 * threads at a time, and what failed can be written into it. libcudnn is not linked: Python finds
 * it and hands in its functions.
 */
#include <stddef.h>
#include <stdint.h>

#include "../../../base/native/tvm_abi.h"

#define CUDA_DEVICE_TYPE 2

typedef struct {
  int (*convolve)(void* handle, const void* alpha, void* x, const void* x_data, void* w,
                  const void* w_data, void* convolution, int algorithm, void* workspace,
                  size_t workspace_bytes, const void* beta, void* y, void* y_data);
  int (*convolve_and_activate)(void* handle, const void* alpha, void* x, const void* x_data,
                               void* w, const void* w_data, void* convolution, int algorithm,
                               void* workspace, size_t workspace_bytes, const void* z_scale,
                               void* z, const void* z_data, void* bias, const void* bias_data,
                               void* activation, void* y, void* y_data);
  int (*add)(void* handle, const void* alpha, void* bias, const void* bias_data, const void* beta,
             void* y, void* y_data);
} CudnnFunctions;

enum { CONVOLVE = 0, CONVOLVE_AND_ACTIVATE = 1, ADD = 2 }; /* what a call calls */

typedef struct {
  const CudnnFunctions* functions;
  void* handle; /* of cuDNN, on the stream */
  void* (*take_workspace)(int device_type, int device_id, uint64_t size, int code, int bits);
  int (*give_workspace)(int device_type, int device_id, void* address);
  void *x, *w, *y, *bias, *convolution, *activation; /* descriptors */
  const void* no_bias; /* zeros on the GPU, where there is an activation and no bias */
  uint64_t workspace_bytes;
  int32_t algorithm;
  int32_t activates; /* one call for all of it */
  int32_t data, weight, bias_argument; /* positions; -1: none. The output comes last. */
  int32_t status;      /* of cuDNN, where it failed; read and cleared by Python */
  int32_t failed_call; /* what failed then */
  int32_t unused;
} CudnnCall;

static const void* address_of(const TVMValue* arguments, int32_t position) {
  const DLTensor* tensor = arguments[position].v_handle;
  return (const char*)tensor->data + tensor->byte_offset;
}

/* What cuDNN returned; `failed_call` is the call it was. */
static int convolve(CudnnCall* call, void* workspace, const TVMValue* arguments,
                    int32_t num_arguments) {
  static const float one = 1.0f, zero = 0.0f;
  const CudnnFunctions* functions = call->functions;
  void* handle = call->handle;
  const void* x = address_of(arguments, call->data);
  const void* w = address_of(arguments, call->weight);
  void* y = (void*)address_of(arguments, num_arguments - 1);
  const void* bias =
      call->bias_argument < 0 ? call->no_bias : address_of(arguments, call->bias_argument);
  if (call->activates) {
    call->failed_call = CONVOLVE_AND_ACTIVATE;
    return functions->convolve_and_activate(handle, &one, call->x, x, call->w, w,
                                            call->convolution, call->algorithm, workspace,
                                            call->workspace_bytes, &zero, call->y, y, call->bias,
                                            bias, call->activation, call->y, y);
  }
  call->failed_call = CONVOLVE;
  int status =
      functions->convolve(handle, &one, call->x, x, call->w, w, call->convolution, call->algorithm,
                          workspace, call->workspace_bytes, &zero, call->y, y);
  if (status || call->bias_argument < 0) return status;
  call->failed_call = ADD;
  return functions->add(handle, &one, call->bias, bias, &one, call->y, y);
}

int32_t tvm_ios_cudnn_convolve(TVMValue* arguments, int32_t* type_codes, int32_t num_arguments,
                               TVMValue* value, int32_t* code, void* resource) {
  CudnnCall* call = resource;
  void* workspace = NULL;
  if (call->workspace_bytes) {
    workspace = call->take_workspace(CUDA_DEVICE_TYPE, 0, call->workspace_bytes, 0, 0);
    if (!workspace) return -1;
  }
  call->status = convolve(call, workspace, arguments, num_arguments);
  if (workspace) call->give_workspace(CUDA_DEVICE_TYPE, 0, workspace);
  return call->status ? -1 : 0;
}
