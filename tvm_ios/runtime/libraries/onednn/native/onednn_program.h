/* Makes calls of oneDNN ready in programs without Python.
 *
 * Included by the source that is written for a model, behind onednn_calls.c: what it makes, and of
 * what, was noted when the model was exported. Decisions that were taken then (formats, reorders,
 * workspace) hold where oneDNN chooses as it did there: that takes the very version and instruction
 * sets, and may take caches of the same sizes, so its choices are asked for again.
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

static const void* (*dnnl_primitive_desc_query_md)(const void*, int, int);
static int (*dnnl_primitive_desc_query)(const void*, int, int, void*);
static int (*dnnl_memory_desc_equal)(const void*, const void*);
static size_t (*dnnl_memory_desc_get_size)(const void*);
static const WantedFunction telling[] = {
    {"dnnl_primitive_desc_query_md", (void**)&dnnl_primitive_desc_query_md},
    {"dnnl_primitive_desc_query", (void**)&dnnl_primitive_desc_query},
    {"dnnl_memory_desc_equal", (void**)&dnnl_memory_desc_equal},
    {"dnnl_memory_desc_get_size", (void**)&dnnl_memory_desc_get_size}};

enum { SEQUENTIAL = 1, OPENMP = 2 }; /* dnnl_cpu_runtime: what its threads are made by */
enum { QUERY_NAME = 8 };             /* dnnl_query_impl_info_str */

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
  if (strcmp(text, version) || !name || strcmp(name, isa))
    return refuse("it was exported for oneDNN %s with %s, and here is %s with %s; export the model "
                  "on a machine like this one", version, isa, text, name ? name : "nothing known");
  /* A primitive has to run in the thread that executes it, which OpenMP can be told. */
  int held = onednn_functions.get_threads && onednn_functions.set_threads;
  if (found->cpu_runtime == SEQUENTIAL || (found->cpu_runtime == OPENMP && held)) return 0;
  return refuse("the threads of libdnnl.so.3 cannot be held back (runtime %u); a build for OpenMP "
                "or a sequential one is needed", found->cpu_runtime);
}

static int find_functions(void* library, const WantedFunction* wanted, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (!(*wanted[i].function = dlsym(library, wanted[i].name)))
      return refuse("libdnnl.so.3 has no %s", wanted[i].name);
  return 0;
}

/* TVM_IOS_ONEDNN names the file, as in Python; else the loader finds it. */
static int open_onednn(const char* version, const char* isa, const WantedFunction* wanted,
                       size_t count) {
  const char* named = getenv("TVM_IOS_ONEDNN");
  void* library = dlopen(named && *named ? named : "libdnnl.so.3", RTLD_LAZY | RTLD_LOCAL);
  if (!library)
    return refuse("oneDNN %s computes operators of it, and there is none: let LD_LIBRARY_PATH name "
                  "the folder of libdnnl.so.3, or TVM_IOS_ONEDNN the file (%s)", version, dlerror());
  onednn_functions.execute = dlsym(library, "dnnl_primitive_execute");
  onednn_functions.set_address = dlsym(library, "dnnl_memory_set_data_handle");
  /* Of the very OpenMP that it is linked with; a sequential build has none. */
  onednn_functions.get_threads = dlsym(library, "omp_get_max_threads");
  onednn_functions.set_threads = dlsym(library, "omp_set_num_threads");
  return require_version(library, version, isa) || find_functions(library, wanted, count) ||
                 find_functions(library, telling, sizeof telling / sizeof *telling)
             ? -1
             : 0;
}

static int failed_call(const char* name, int status) {
  return refuse("%s failed with status %d of oneDNN", name, status);
}

static int chosen_otherwise(void) {
  return refuse("oneDNN chooses other code or formats on this processor than on the one it was "
                "exported on; export the model on a machine like this one");
}

/* Each tells whether oneDNN says something else than it did there, which stands last. */
static int is_larger(const void* descriptor, size_t size_bytes) {
  /* Less is no difference: the memory was laid out for as much as stands last. */
  return dnnl_memory_desc_get_size(descriptor) > size_bytes;
}

static int is_unlike(const void* one, const void* other, int equal) {
  return !dnnl_memory_desc_equal(one, other) == equal;
}

static int is_there(const void* primitive, int query, int index, int there) {
  return !dnnl_primitive_desc_query_md(primitive, query, index) == there;
}

static int is_other_code(const void* primitive, const char* expected) {
  const char* name = NULL;
  return dnnl_primitive_desc_query(primitive, QUERY_NAME, 0, &name) || !name ||
         strcmp(name, expected);
}

void tvm_ios_explain_call(void* resource, char* text, size_t size) {
  OnednnCall* call = resource;
  int status = __atomic_exchange_n(&call->status, 0, __ATOMIC_RELAXED);
  if (!status) return;
  snprintf(text, size, "%s failed with status %d of oneDNN",
           call->failed == EXECUTE ? "dnnl_primitive_execute" : "dnnl_memory_set_data_handle",
           status);
}

/* Memory for what is made of constants: the part's own, untouched until it runs. */
static int take_constants(OnednnPart* part, size_t size_bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, LINE_BYTES, size_bytes))
    return refuse("no memory for %zu bytes of weights", size_bytes);
  part->constants = memory;
  return 0;
}
