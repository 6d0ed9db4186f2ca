/* Host functions of operators that TVM would not make, linked into an exported library; each by the
 * names of both calling conventions, of whose arguments it reads none. */
#include <stddef.h>
#include <stdint.h>

extern int cudaStreamSynchronize(void* stream) __attribute__((weak));
extern int cudaMalloc(void** address, size_t size) __attribute__((weak));
extern int cudaFree(void* address) __attribute__((weak));

static const char* said;

/* What TVM looks up with TVMGetLastError stays as it was; the code alone says that it failed. */
static int answer(int status) {
  said = status ? "failed" : "";
  return status ? -1 : 0;
}

int waiting_kernel(void* args, int* codes, int count, void* value, int* code, void* resource) {
  return answer(cudaStreamSynchronize(NULL));
}

int allocating_kernel(void* args, int* codes, int count, void* value, int* code, void* resource) {
  void* memory = NULL;
  int status = cudaMalloc(&memory, 64);
  return answer(status ? status : cudaFree(memory));
}

int failing_kernel(void* args, int* codes, int count, void* value, int* code, void* resource) {
  return answer(1);
}

int __tvm_ffi_waiting_kernel(void* self, const void* args, int32_t count, void* result) {
  return answer(cudaStreamSynchronize(NULL));
}

int __tvm_ffi_allocating_kernel(void* self, const void* args, int32_t count, void* result) {
  return allocating_kernel(NULL, NULL, 0, NULL, NULL, NULL);
}

int __tvm_ffi_failing_kernel(void* self, const void* args, int32_t count, void* result) {
  return answer(1);
}
