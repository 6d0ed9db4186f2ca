/* A call of oneDNN: as Python encodes it (call_data.py), and as it is made ready. */
#ifndef TVM_IOS_ONEDNN_CALL_H_
#define TVM_IOS_ONEDNN_CALL_H_

#include <stddef.h>
#include <stdint.h>

#include "../../../base/native/library_calls.h"
#include "onednn_library.h"

/* ---- as data: a CallData, then for the whole and for each part a PartData and its steps ---- */

#define CALL_DATA_VERSION 4
#define MOST_AXES 6
#define MOST_STEPS 32 /* as oneDNN has it */
#define ZEROS 2       /* zero points: of data, of weights */
enum { WORKSPACE = -1, OUTPUT = -2, CONSTANTS = -3, ZERO_POINT = -4 }; /* for an input's position */
enum { PRODUCT = 0, CONVOLUTION = 1, TRANSPOSED = 10, SOFTMAX = 0x30000 }; /* or a pooling */
enum { SLOPES = 0, FIRST_BINARY = 131056 };

typedef struct {
  int32_t axes;     /* 0: there is no such tensor */
  int32_t position; /* among the inputs of the launch, or OUTPUT */
  int32_t format;   /* dnnl_format_tag_t; 0: the strides say it */
  int32_t columns;  /* of a block of a packed matrix; 0: it is not packed */
  int32_t constant; /* not 0: the same values in every run */
  int32_t type;     /* dnnl_data_type_t */
  int64_t offset;   /* bytes */
  int64_t extents[MOST_AXES];
  int64_t strides[MOST_AXES];
} TensorData;

typedef struct {
  int32_t kind; /* dnnl_alg_kind_t, or SLOPES */
  int32_t axes; /* of the operand, along which it has several elements, as a bit mask */
  double alpha, beta;
  TensorData operand;
} StepData;

typedef struct {
  int64_t strides[3], kernel[3], dilation[3], begins[3], ends[3];
  TensorData data, weight, bias, result;
} PartData;

typedef struct {
  int32_t version;
  int32_t primitive; /* dnnl_alg_kind_t, or PRODUCT */
  int32_t parts;     /* the whole counts, too */
  int32_t steps; /* of each part; the first one adds the bias where there is one */
  int32_t zero_points[ZEROS]; /* whole numbers that stand for 0 */
} CallData;

static const StepData* steps_of(const PartData* data) { return (const StepData*)(data + 1); }

/* ---- ready ---- */

typedef struct Made { /* something that goes with its list */
  struct Made* before;
  void* object;
  int (*destroy)(void* object);
} Made;

typedef struct { /* dnnl_exec_arg_t */
  int number;
  void* memory;
} ExecutedArgument;

typedef struct {
  int64_t position; /* among the inputs of the launch, or one of the above */
  int64_t offset;   /* bytes */
} Place;

typedef struct {
  void* primitive;
  ExecutedArgument* arguments;
  Place* places; /* of each argument */
  int64_t count;
} OnednnPrimitive;

typedef struct { /* what is made of constants, for all parts that would make the same */
  char* memory;
  const void* made_from; /* where they lay then; NULL: it is to be made */
  int32_t stale;         /* not 0: they have changed since */
  int32_t held;          /* not 0: a lane makes it, and others wait */
} Constants;

typedef struct {
  OnednnPrimitive* primitives;
  int64_t count;
  int64_t once;            /* the first so many only make something of constants */
  int64_t workspace_bytes; /* of the lane that runs it */
  int64_t constant_bytes;
  Constants* constants;
  void* stream;
} OnednnPart;

typedef struct {
  OnednnPart* parts; /* the whole first */
  int64_t num_parts;
  const Onednn* onednn;
  CallHost host; /* without launch nobody helps */
  Made* made;
  const char* failed; /* function of oneDNN that failed last */
  int32_t status;     /* that it returned; 0 once it was told */
  int32_t zero_points[ZEROS];
} OnednnCall;

#endif
