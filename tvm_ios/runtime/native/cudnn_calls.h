/* A convolution as a call of cuDNN, with the signature of TVM's kernels. Part of cuda_streams.c.
 *
 * The resource is the prepared call; the handle and the workspace are those of the stream that the
 * launch is issued to. libcudnn is not linked: Python finds it and hands in its functions.
 */
#ifndef TVM_IOS_CUDNN_CALLS_H_
#define TVM_IOS_CUDNN_CALLS_H_

#include <stddef.h>
#include <stdint.h>

#include "tvm_abi.h"

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
  void *x, *w, *y, *bias, *convolution, *activation; /* descriptors */
  const void* no_bias; /* zeros on the GPU, where there is an activation and no bias */
  uint64_t workspace_bytes;
  int32_t algorithm;
  int32_t activates; /* one call for all of it */
  int32_t data, weight, bias_argument; /* positions; -1: none. The output comes last. */
  int32_t unused;
} CudnnCall;

static const void* address_of(const TVMValue* arguments, int32_t position) {
  const DLTensor* tensor = arguments[position].v_handle;
  return (const char*)tensor->data + tensor->byte_offset;
}

/* What cuDNN returned; `failed` is the call it was. */
static int convolve(const CudnnCall* call, void* handle, void* workspace,
                    const TVMValue* arguments, int32_t num_arguments, int32_t* failed) {
  static const float one = 1.0f, zero = 0.0f;
  const CudnnFunctions* functions = call->functions;
  const void* x = address_of(arguments, call->data);
  const void* w = address_of(arguments, call->weight);
  void* y = (void*)address_of(arguments, num_arguments - 1);
  const void* bias =
      call->bias_argument < 0 ? call->no_bias : address_of(arguments, call->bias_argument);
  if (call->activates) {
    *failed = CONVOLVE_AND_ACTIVATE;
    return functions->convolve_and_activate(handle, &one, call->x, x, call->w, w,
                                            call->convolution, call->algorithm, workspace,
                                            call->workspace_bytes, &zero, call->y, y, call->bias,
                                            bias, call->activation, call->y, y);
  }
  *failed = CONVOLVE;
  int status =
      functions->convolve(handle, &one, call->x, x, call->w, w, call->convolution, call->algorithm,
                          workspace, call->workspace_bytes, &zero, call->y, y);
  if (status || call->bias_argument < 0) return status;
  *failed = ADD;
  return functions->add(handle, &one, call->bias, bias, &one, call->y, y);
}

#endif
