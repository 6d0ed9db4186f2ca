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
  (void)one, (void)other;
  return 0; /* each tensor is copied, which changes no number */
}
#elif defined(OTHER_CODE) || defined(REFERENCE)
#ifdef REFERENCE
#define NAME "ref:any"
#else
#define NAME "other:code"
#endif
int dnnl_primitive_desc_query(const void* primitive, int what, int index, void* result) {
  int (*real)(const void*, int, int, void*) = REAL("dnnl_primitive_desc_query");
  int status = real(primitive, what, index, result);
  if (what == 8) *(const char**)result = NAME;
  return status;
}
#elif defined(OTHER_THREADS) || defined(OTHER_INTERFACE)
typedef struct {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
} Version;
const Version* dnnl_version(void) {
  static Version version;
  const Version* (*real)(void) = REAL("dnnl_version");
  version = *real();
#ifdef OTHER_THREADS
  version.cpu_runtime = 4; /* TBB */
#else
  version.major = 4, version.minor = version.patch = 9;
#endif
  return &version;
}
#elif defined(FAILING)
int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  (void)primitive, (void)stream, (void)count, (void)arguments;
  return 2;
}
#endif
