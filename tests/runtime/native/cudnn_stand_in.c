/* Stands in for cuDNN, for tests: it computes nothing and records every call next to those of CUDA.
 *
 * The stand-in for CUDA is preloaded and writes the record, fails calls when told to, and knows
 * streams. A convolution with a window of more than one element takes 500 ns of its handle's stream,
 * any other one 2,000; adding a bias takes 1,000. A search offers algorithm 5 as the fastest, which
 * no call with an activation takes; then 6, if TF32 may be used; then 1 and 0.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, EXECUTION_FAILED = 5000 };
enum { HANDLE = 1, TENSOR, FILTER, CONVOLUTION, ACTIVATION };

extern int stand_in_enter(const char* name, const char* text);
extern int stand_in_stream(void* stream);
extern int stand_in_work(void* stream, int64_t elapsed_ns);
extern int stand_in_quiet(void);
extern void stand_in_hold(int count);

typedef struct {
  int kind;
  int number;
  void* stream; /* of a handle */
  int numbers[12];
} Thing;

typedef struct {
  int number;
  int status;
  float time_ms;
  size_t workspace_bytes;
  int deterministic;
  int math;
  int reserved[3];
} Result;

static int made[ACTIVATION + 1];
static int version = 91002;

static int offers = 1;

EXPORT void cudnn_stand_in_set_version(int number) { version = number; }

/* Whether there is any algorithm. */
EXPORT void cudnn_stand_in_set_offers(int yes) { offers = yes; }

static int enter(const char* name, const char* text) { return stand_in_enter(name, text); }

#define ENTER(...)                                  \
  char text[512];                                   \
  snprintf(text, sizeof(text), __VA_ARGS__);        \
  int status = enter(__func__, text);               \
  if (status) return status

static int make(Thing** place, int kind) {
  Thing* thing = calloc(1, sizeof(Thing));
  thing->kind = kind;
  thing->number = ++made[kind];
  *place = thing;
  stand_in_hold(1);
  return SUCCESS;
}

/* A call that frees something frees it even where it is made to fail. */
static int drop(const char* name, Thing* thing, int kind) {
  char text[64];
  snprintf(text, sizeof(text), "number=%d", thing->number);
  int status = enter(name, text);
  if (thing->kind != kind) abort();
  thing->kind = 0;
  free(thing);
  stand_in_hold(-1);
  return status;
}

EXPORT size_t cudnnGetVersion(void) { return (size_t)version; }

EXPORT const char* cudnnGetErrorString(int status) {
  switch (status) {
    case SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

EXPORT int cudnnCreate(Thing** handle) {
  ENTER("number=%d", made[HANDLE] + 1);
  status = stand_in_quiet(); /* it allocates */
  return status ? EXECUTION_FAILED : make(handle, HANDLE);
}

EXPORT int cudnnDestroy(Thing* handle) { return drop(__func__, handle, HANDLE); }

EXPORT int cudnnSetStream(Thing* handle, void* stream) {
  ENTER("handle=%d stream=%d", handle->number, stand_in_stream(stream));
  if (handle->kind != HANDLE || stand_in_stream(stream) < 0 || stand_in_quiet()) return BAD_PARAM;
  handle->stream = stream;
  return SUCCESS;
}

#define DESCRIPTOR(Name, KIND)                                     \
  EXPORT int cudnnCreate##Name##Descriptor(Thing** thing) {        \
    ENTER("number=%d", made[KIND] + 1);                            \
    return make(thing, KIND);                                      \
  }                                                                \
  EXPORT int cudnnDestroy##Name##Descriptor(Thing* thing) {        \
    return drop(__func__, thing, KIND);                            \
  }

DESCRIPTOR(Tensor, TENSOR)
DESCRIPTOR(Filter, FILTER)
DESCRIPTOR(Convolution, CONVOLUTION)
DESCRIPTOR(Activation, ACTIVATION)

EXPORT int cudnnSetTensor4dDescriptor(Thing* t, int format, int dtype, int n, int c, int h, int w) {
  ENTER("tensor=%d format=%d dtype=%d shape=%d,%d,%d,%d", t->number, format, dtype, n, c, h, w);
  memcpy(t->numbers, (int[]){format, dtype, n, c, h, w}, 6 * sizeof(int));
  return t->kind == TENSOR ? SUCCESS : BAD_PARAM;
}

EXPORT int cudnnSetFilter4dDescriptor(Thing* t, int dtype, int format, int k, int c, int h, int w) {
  ENTER("filter=%d format=%d dtype=%d shape=%d,%d,%d,%d", t->number, format, dtype, k, c, h, w);
  memcpy(t->numbers, (int[]){format, dtype, k, c, h, w}, 6 * sizeof(int));
  return t->kind == FILTER ? SUCCESS : BAD_PARAM;
}

EXPORT int cudnnSetConvolution2dDescriptor(Thing* t, int ph, int pw, int sh, int sw, int dh, int dw,
                                           int mode, int dtype) {
  ENTER("convolution=%d padding=%d,%d strides=%d,%d dilation=%d,%d mode=%d dtype=%d", t->number, ph,
        pw, sh, sw, dh, dw, mode, dtype);
  memcpy(t->numbers, (int[]){ph, pw, sh, sw, dh, dw, mode, dtype, 1, 0}, 10 * sizeof(int));
  return t->kind == CONVOLUTION ? SUCCESS : BAD_PARAM;
}

EXPORT int cudnnSetConvolutionGroupCount(Thing* t, int groups) {
  ENTER("convolution=%d groups=%d", t->number, groups);
  t->numbers[8] = groups;
  return SUCCESS;
}

EXPORT int cudnnSetConvolutionMathType(Thing* t, int math) {
  ENTER("convolution=%d math=%d", t->number, math);
  t->numbers[9] = math;
  return SUCCESS;
}

EXPORT int cudnnSetActivationDescriptor(Thing* t, int mode, int nan, double bound) {
  ENTER("activation=%d mode=%d nan=%d bound=%g", t->number, mode, nan, bound);
  t->numbers[0] = mode;
  return t->kind == ACTIVATION ? SUCCESS : BAD_PARAM;
}

/* Whether shapes belong together, as cuDNN would find out. */
static int fits(const Thing* x, const Thing* w, const Thing* c, const Thing* y) {
  if (x->kind != TENSOR || w->kind != FILTER || c->kind != CONVOLUTION || y->kind != TENSOR) return 0;
  const int *in = x->numbers + 2, *kernel = w->numbers + 2, *out = y->numbers + 2, *n = c->numbers;
  if (in[0] != out[0] || in[1] != kernel[1] * n[8] || kernel[0] != out[1]) return 0;
  for (int axis = 0; axis < 2; ++axis) {
    int reach = n[4 + axis] * (kernel[2 + axis] - 1) + 1;
    if ((in[2 + axis] + 2 * n[axis] - reach) / n[2 + axis] + 1 != out[2 + axis]) return 0;
  }
  return x->numbers[1] == w->numbers[1] && w->numbers[1] == y->numbers[1];
}

static size_t needed(const Thing* y, int algorithm) {
  const int* out = y->numbers + 2;
  return algorithm ? (size_t)4 * (size_t)(out[0] * out[1] * out[2] * out[3]) : 0;
}

EXPORT int cudnnGetConvolutionForwardWorkspaceSize(Thing* handle, Thing* x, Thing* w, Thing* c,
                                                   Thing* y, int algorithm, size_t* size) {
  ENTER("handle=%d algorithm=%d", handle->number, algorithm);
  *size = needed(y, algorithm);
  return fits(x, w, c, y) ? SUCCESS : BAD_PARAM;
}

static int rank(const Thing* c, const Thing* y, int* count, Result* results, size_t bytes) {
  const Result all[] = {
      {.number = 7, .status = NOT_SUPPORTED, .time_ms = -1, .deterministic = 1},
      {.number = 4, .time_ms = 0.01f, .deterministic = 0, .math = c->numbers[9]},
      {.number = 6, .time_ms = 0.02f, .deterministic = 1, .math = 0}, /* by TF32 */
      {.number = 5, .time_ms = 0.03f, .deterministic = 1, .math = c->numbers[9]},
      {.number = 1, .time_ms = 0.04f, .deterministic = 1, .math = c->numbers[9]},
      {.number = 0, .time_ms = 0.04f, .deterministic = 1, .math = c->numbers[9]},
  };
  *count = 0;
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); ++i) {
    Result result = all[i];
    result.workspace_bytes = needed(y, result.number);
    if (offers && result.workspace_bytes <= bytes) results[(*count)++] = result;
  }
  return SUCCESS;
}

EXPORT int cudnnFindConvolutionForwardAlgorithmEx(Thing* handle, Thing* x, const void* x_data,
                                                  Thing* w, const void* w_data, Thing* c, Thing* y,
                                                  void* y_data, int wanted, int* count,
                                                  Result* results, void* workspace, size_t size) {
  ENTER("handle=%d stream=%d wanted=%d size=%zu", handle->number, stand_in_stream(handle->stream),
        wanted, size);
  if (!fits(x, w, c, y) || !x_data || !w_data || !y_data || !workspace) return BAD_PARAM;
  if (stand_in_quiet()) return EXECUTION_FAILED; /* it waits */
  return rank(c, y, count, results, size);
}

EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(Thing* handle, Thing* x, Thing* w, Thing* c,
                                                  Thing* y, int wanted, int* count,
                                                  Result* results) {
  ENTER("handle=%d wanted=%d", handle->number, wanted);
  return fits(x, w, c, y) ? rank(c, y, count, results, SIZE_MAX) : BAD_PARAM;
}

static int convolve(const char* name, Thing* handle, Thing* x, const void* x_data, Thing* w,
                    const void* w_data, Thing* c, int algorithm, const void* workspace, size_t size,
                    Thing* y, const void* y_data, const Thing* activation, const void* bias) {
  const int *in = x->numbers + 2, *kernel = w->numbers + 2, *n = c->numbers;
  char text[512], last[32] = "";
  if (workspace && needed(y, algorithm)) snprintf(last, sizeof(last), ",%p", workspace);
  snprintf(text, sizeof(text),
           "stream=%d kernel=%s handle=%d arguments=%p,%p,%p%s algorithm=%d size=%zu "
           "x=%d,%d,%d,%d w=%d,%d,%d,%d padding=%d,%d strides=%d,%d dilation=%d,%d groups=%d "
           "math=%d dtype=%d activation=%d bias=%p",
           stand_in_stream(handle->stream), name, handle->number, x_data, w_data, y_data, last,
           algorithm, size, in[0], in[1], in[2], in[3], kernel[0], kernel[1], kernel[2], kernel[3],
           n[0], n[1], n[2], n[3], n[4], n[5], n[8], n[9], x->numbers[1],
           activation ? activation->numbers[0] : 0, bias);
  int status = enter(name, text);
  if (status) return status;
  if (handle->kind != HANDLE || !fits(x, w, c, y) || size < needed(y, algorithm)) return BAD_PARAM;
  if (needed(y, algorithm) && !workspace) return BAD_PARAM;
  if (activation && algorithm == 5) return NOT_SUPPORTED;
  if (activation && activation->numbers[0] == 5 && algorithm != 1) return NOT_SUPPORTED;
  status = stand_in_work(handle->stream, kernel[2] * kernel[3] > 1 ? 500 : 2000);
  return status ? EXECUTION_FAILED : SUCCESS;
}

EXPORT int cudnnConvolutionForward(Thing* handle, const float* alpha, Thing* x, const void* x_data,
                                   Thing* w, const void* w_data, Thing* c, int algorithm,
                                   void* workspace, size_t size, const float* beta, Thing* y,
                                   void* y_data) {
  if (*alpha != 1.0f || *beta != 0.0f) return BAD_PARAM;
  return convolve(__func__, handle, x, x_data, w, w_data, c, algorithm, workspace, size, y, y_data,
                  NULL, NULL);
}

EXPORT int cudnnConvolutionBiasActivationForward(Thing* handle, const float* alpha, Thing* x,
                                                 const void* x_data, Thing* w, const void* w_data,
                                                 Thing* c, int algorithm, void* workspace,
                                                 size_t size, const float* z_scale, Thing* z,
                                                 const void* z_data, Thing* bias,
                                                 const void* bias_data, Thing* activation, Thing* y,
                                                 void* y_data) {
  if (*alpha != 1.0f || *z_scale != 0.0f || z != y || z_data != y_data || !bias_data) return BAD_PARAM;
  if (bias->kind != TENSOR || activation->kind != ACTIVATION) return BAD_PARAM;
  if (bias->numbers[3] != w->numbers[2] || bias->numbers[2] * bias->numbers[4] != 1) return BAD_PARAM;
  return convolve(__func__, handle, x, x_data, w, w_data, c, algorithm, workspace, size, y, y_data,
                  activation, bias_data);
}

EXPORT int cudnnAddTensor(Thing* handle, const float* alpha, Thing* bias, const void* bias_data,
                          const float* beta, Thing* y, void* y_data) {
  ENTER("stream=%d kernel=%s handle=%d arguments=%p,%p", stand_in_stream(handle->stream), __func__,
        handle->number, bias_data, y_data);
  if (*alpha != 1.0f || *beta != 1.0f || bias->numbers[3] != y->numbers[3]) return BAD_PARAM;
  return stand_in_work(handle->stream, 1000) ? EXECUTION_FAILED : SUCCESS;
}
