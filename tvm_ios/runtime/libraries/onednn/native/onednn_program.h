/* Makes calls of oneDNN ready in programs without Python.
 *
 * Included by the source that is written for a model, behind onednn_calls.c: what it makes, and of
 * what, was noted when the model was exported. Decisions that were taken then (formats, reorders,
 * workspace) hold for that very version and those instruction sets, so others are refused.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_image.h"

#define LINE_BYTES 64

typedef struct {
  const char* name;
  void** function;
} WantedFunction;

static OnednnFunctions onednn_functions;
static char* error_text;
static size_t error_bytes;

__attribute__((format(printf, 1, 2))) static int refuse(const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(error_text, error_bytes, format, values);
  va_end(values);
  return -1;
}

static int require_version(void* library, const char* version, const char* isa) {
  typedef struct {
    int major, minor, patch;
    const char* hash;
    unsigned cpu_runtime, gpu_runtime;
  } Version;
  const Version* (*get_version)(void) = dlsym(library, "dnnl_version");
  int (*get_isa)(void) = dlsym(library, "dnnl_get_effective_cpu_isa");
  const char* (*isa_text)(int) = dlsym(library, "dnnl_cpu_isa2str");
  if (!get_version || !get_isa || !isa_text)
    return refuse("libdnnl.so.3 has no dnnl_version: it is no oneDNN");
  const Version* found = get_version();
  const char* name = isa_text(get_isa());
  if (name && !strncmp(name, "cpu_isa_", 8)) name += 8;
  char text[64];
  snprintf(text, sizeof text, "%d.%d.%d", found->major, found->minor, found->patch);
  if (!strcmp(text, version) && name && !strcmp(name, isa)) return 0;
  return refuse("it was exported for oneDNN %s with %s, and here is %s with %s; export the model "
                "on a machine like this one", version, isa, text, name ? name : "nothing known");
}

/* TVM_IOS_ONEDNN names the file, as in Python; else the loader finds it. */
static int open_onednn(const char* version, const char* isa, const WantedFunction* wanted,
                       size_t count) {
  const char* named = getenv("TVM_IOS_ONEDNN");
  void* library = dlopen(named && *named ? named : "libdnnl.so.3", RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return refuse("oneDNN %s computes operators of it, and there is none: let LD_LIBRARY_PATH name "
                  "the folder of libdnnl.so.3, or TVM_IOS_ONEDNN the file (%s)", version, dlerror());
  if (require_version(library, version, isa)) return -1;
  for (size_t i = 0; i < count; ++i)
    if (!(*wanted[i].function = dlsym(library, wanted[i].name)))
      return refuse("libdnnl.so.3 has no %s", wanted[i].name);
  onednn_functions.execute = dlsym(library, "dnnl_primitive_execute");
  onednn_functions.set_address = dlsym(library, "dnnl_memory_set_data_handle");
  /* Of the very OpenMP that it is linked with; a sequential build has none. */
  onednn_functions.get_threads = dlsym(library, "omp_get_max_threads");
  onednn_functions.set_threads = dlsym(library, "omp_set_num_threads");
  return 0;
}

static int failed_call(const char* name, int status) {
  return refuse("%s failed with status %d of oneDNN", name, status);
}

/* Memory for what is made of constants: the part's own, untouched until it runs. */
static int take_constants(OnednnPart* part, size_t size_bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, LINE_BYTES, size_bytes))
    return refuse("no memory for %zu bytes of weights", size_bytes);
  part->constants = memory;
  return 0;
}
