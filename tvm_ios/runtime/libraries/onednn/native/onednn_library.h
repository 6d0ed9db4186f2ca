/* libdnnl as it was found: its functions, those of its OpenMP, and an engine.
 *
 * It is not linked: Python or the program finds it and hands in the loader's handle. Prototypes and
 * numbers are those of the C interface that all releases 3.x share. */
#ifndef TVM_IOS_ONEDNN_LIBRARY_H_
#define TVM_IOS_ONEDNN_LIBRARY_H_

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { /* dnnl_version_t */
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
} OnednnVersion;

enum { SEQUENTIAL = 1, OPENMP = 2 }; /* dnnl_cpu_runtime: what its threads are made by */
enum { CPU_ENGINE = 1 };

/* Arguments: a place for what is made, numbers by axis, and anything that is only read. */
#define MAKE void**
#define EXTENTS const int64_t*
#define READ const void*
/* Engine, kind, algorithm, tensors, strides (and kernel), dilation, padding, attributes. */
#define CONVOLVE \
  (MAKE, void*, int, int, READ, READ, READ, READ, EXTENTS, EXTENTS, EXTENTS, EXTENTS, READ)
#define POOL \
  (MAKE, void*, int, int, READ, READ, EXTENTS, EXTENTS, EXTENTS, EXTENTS, EXTENTS, READ)

#define ONEDNN_FUNCTIONS(F)                                                                     \
  F(const OnednnVersion*, version, (void))                                                      \
  F(const char*, status2str, (int status))                                                      \
  F(const char*, cpu_isa2str, (int isa))                                                        \
  F(int, get_effective_cpu_isa, (void))                                                         \
  F(int, engine_create, (MAKE, int kind, size_t index))                                         \
  F(int, engine_destroy, (void*))                                                               \
  F(int, stream_create, (MAKE, void* engine, unsigned flags))                                   \
  F(int, stream_destroy, (void*))                                                               \
  F(int, memory_desc_create_with_tag, (MAKE, int axes, EXTENTS, int type, int format))          \
  F(int, memory_desc_create_with_strides, (MAKE, int axes, EXTENTS, int type, EXTENTS))         \
  F(int, memory_desc_equal, (READ, READ))                                                       \
  F(size_t, memory_desc_get_size, (READ))                                                       \
  F(int, memory_desc_destroy, (void*))                                                          \
  F(int, memory_create, (MAKE, READ descriptor, void* engine, void* address))                   \
  F(int, memory_get_memory_desc, (READ, const void** descriptor))                               \
  F(int, memory_set_data_handle, (void*, void* address))                                        \
  F(int, memory_destroy, (void*))                                                               \
  F(int, primitive_attr_create, (MAKE))                                                         \
  F(int, primitive_attr_set_scratchpad_mode, (void*, int mode))                                 \
  F(int, primitive_attr_set_fpmath_mode, (void*, int mode))                                     \
  F(int, primitive_attr_set_post_ops, (void*, READ steps))                                      \
  F(int, primitive_attr_set_zero_points_mask, (void*, int argument, int mask))                  \
  F(int, primitive_attr_destroy, (void*))                                                       \
  F(int, post_ops_create, (MAKE))                                                               \
  F(int, post_ops_append_eltwise, (void*, int algorithm, float alpha, float beta))              \
  F(int, post_ops_append_binary, (void*, int algorithm, READ operand))                          \
  F(int, post_ops_append_prelu, (void*, int axes))                                              \
  F(int, post_ops_destroy, (void*))                                                             \
  F(int, convolution_forward_primitive_desc_create, CONVOLVE)                                   \
  F(int, deconvolution_forward_primitive_desc_create, CONVOLVE)                                 \
  F(int, pooling_forward_primitive_desc_create, POOL)                                           \
  F(int, softmax_forward_primitive_desc_create, (MAKE, void*, int, int, READ, READ, int, READ)) \
  F(int, matmul_primitive_desc_create, (MAKE, void*, READ, READ, READ bias, READ, READ))        \
  F(int, binary_primitive_desc_create, (MAKE, void*, int, READ, READ, READ, READ))              \
  F(int, eltwise_forward_primitive_desc_create,                                                 \
    (MAKE, void*, int, int, READ, READ, float alpha, float beta, READ))                         \
  F(int, reorder_primitive_desc_create, (MAKE, READ from, void*, READ to, void*, READ))         \
  F(int, primitive_desc_query, (READ, int what, int index, void* answer))                       \
  F(const void*, primitive_desc_query_md, (READ, int what, int index))                          \
  F(int, primitive_desc_destroy, (void*))                                                       \
  F(int, primitive_create, (MAKE, READ descriptor))                                             \
  F(int, primitive_execute, (void*, void* stream, int count, READ arguments))                   \
  F(int, primitive_destroy, (void*))

typedef struct {
#define FIELD(result, name, arguments) result(*name) arguments;
  ONEDNN_FUNCTIONS(FIELD)
#undef FIELD
  int (*get_threads)(void);        /* of OpenMP; NULL: there is none */
  void (*set_threads)(int number); /* of the calling thread */
  void* engine;
  char name[32]; /* with its version */
} Onednn;

__attribute__((format(printf, 3, 4))) static int say(char* text, size_t size, const char* format,
                                                     ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(text, size, format, values);
  va_end(values);
  return -1;
}

static int find_functions(Onednn* onednn, void* library, char* text, size_t size) {
#define FIND(result, name, arguments)                                   \
  if (!(*(void**)&onednn->name = dlsym(library, "dnnl_" #name)))        \
    return say(text, size, "it has no dnnl_" #name);
  ONEDNN_FUNCTIONS(FIND)
#undef FIND
  /* Of the very OpenMP that it is linked with: a process may have several. */
  onednn->get_threads = dlsym(library, "omp_get_max_threads");
  onednn->set_threads = dlsym(library, "omp_set_num_threads");
  return 0;
}

/* A primitive has to run in the thread that executes it, which OpenMP can be told. */
static int require_fit(Onednn* onednn, char* text, size_t size) {
  const OnednnVersion* found = onednn->version();
  snprintf(onednn->name, sizeof onednn->name, "oneDNN %d.%d.%d", found->major, found->minor,
           found->patch);
  if (found->major != 3)
    return say(text, size, "it is %s, whose interface is another one; oneDNN 3 is needed",
               onednn->name);
  if (found->cpu_runtime == SEQUENTIAL) onednn->get_threads = NULL;
  else if (found->cpu_runtime != OPENMP || !onednn->get_threads || !onednn->set_threads)
    return say(text, size, "its threads cannot be held to one (runtime %u); a build for OpenMP or "
               "a sequential one is needed", found->cpu_runtime);
  return 0;
}

static void say_failed(const Onednn* onednn, const char* what, int status, char* text,
                       size_t size) {
  say(text, size, "%s failed: %s (%s)", what, onednn->status2str(status), onednn->name);
}

/* NULL where it does not fit; the text says why then. */
Onednn* tvm_ios_onednn_open(void* library, char* text, size_t size) {
  Onednn* onednn = calloc(1, sizeof *onednn);
  if (onednn && !find_functions(onednn, library, text, size) && !require_fit(onednn, text, size)) {
    int status = onednn->engine_create(&onednn->engine, CPU_ENGINE, 0);
    if (!status) return onednn;
    say_failed(onednn, "dnnl_engine_create", status, text, size);
  }
  free(onednn);
  return NULL;
}

void tvm_ios_onednn_close(Onednn* onednn) {
  if (onednn) onednn->engine_destroy(onednn->engine);
  free(onednn);
}

/* Nothing in a primitive may begin a team, neither when it is made nor when it runs. The number is
 * that of the calling thread, which may be the user's: it gets its own back. */
static int hold_threads(const Onednn* onednn) {
  int before = onednn->get_threads ? onednn->get_threads() : 1;
  if (before != 1) onednn->set_threads(1);
  return before;
}

static void give_threads_back(const Onednn* onednn, int before) {
  if (before != 1) onednn->set_threads(before);
}

#endif
