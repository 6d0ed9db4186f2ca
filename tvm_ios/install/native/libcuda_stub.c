/* Stands in for the CUDA driver where there is none: the Relay TVM, and the CUDA runtime of TVM 0.27,
 * are linked against libcuda.so.1 and do not load without it. Every function answers CUDA_ERROR_NO_DEVICE. */
enum { CUDA_ERROR_NO_DEVICE = 100 };

#define NO_DEVICE(name) \
  int name(void) { return CUDA_ERROR_NO_DEVICE; }

NO_DEVICE(cuDeviceGetName)
NO_DEVICE(cuFuncSetAttribute)
NO_DEVICE(cuGetErrorName)
NO_DEVICE(cuGetErrorString)
NO_DEVICE(cuLaunchKernel)
NO_DEVICE(cuLaunchKernelEx)
NO_DEVICE(cuMemsetD32_v2)
NO_DEVICE(cuModuleGetFunction)
NO_DEVICE(cuModuleGetGlobal_v2)
NO_DEVICE(cuModuleLoadData)
NO_DEVICE(cuModuleUnload)
NO_DEVICE(cuTensorMapEncodeIm2col)
NO_DEVICE(cuTensorMapEncodeTiled)
