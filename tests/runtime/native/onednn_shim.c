/* oneDNN, which this is linked with, but for one answer: as on another machine, or of another build.
 *
 * Which one is chosen when it is compiled. Who looks a function up here finds this file's first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#define REAL(name) dlsym(RTLD_NEXT, name)

#if defined(LARGER)
size_t dnnl_memory_desc_get_size(const void* descriptor) {
  size_t (*real)(const void*) = REAL("dnnl_memory_desc_get_size");
  return real(descriptor) + 1;
}
#elif defined(UNLIKE)
int dnnl_memory_desc_equal(const void* one, const void* other) {
  int (*real)(const void*, const void*) = REAL("dnnl_memory_desc_equal");
  return !real(one, other);
}
#elif defined(OTHER_CODE)
int dnnl_primitive_desc_query(const void* primitive, int what, int index, void* result) {
  int (*real)(const void*, int, int, void*) = REAL("dnnl_primitive_desc_query");
  int status = real(primitive, what, index, result);
  if (what == 8) *(const char**)result = "other:code";
  return status;
}
#elif defined(OTHER_THREADS)
typedef struct {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
} Version;
const Version* dnnl_version(void) {
  static Version version;
  const Version* (*real)(void) = REAL("dnnl_version");
  version = *real();
  version.cpu_runtime = 4; /* TBB */
  return &version;
}
#elif defined(FAILING)
int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  (void)primitive, (void)stream, (void)count, (void)arguments;
  return 2;
}
#endif
