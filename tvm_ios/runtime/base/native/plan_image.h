/* The image of a plan: what its bytes mean, and what plan_loader.h makes of them.
 *
 * tvm_ios/plan/image.py writes it, little endian, which every processor here is. The header is
 * followed by the arrays of PlanImage in their order, without gaps, and the texts. A text is named by
 * its first byte among these; each ends with a zero byte. */
#ifndef TVM_IOS_PLAN_IMAGE_H_
#define TVM_IOS_PLAN_IMAGE_H_

#include <stdint.h>

#include "ffi_abi.h"
#include "tvm_abi.h"

#define PLAN_IMAGE_MAGIC "tvm-ios plan"
#define PLAN_IMAGE_VERSION 6
#define MOST_PARTS 32 /* bits that name them, one of which is the sign */

typedef struct {
  char magic[12];
  uint32_t version;
  uint64_t size_bytes; /* of the whole image */
  uint32_t checksum;   /* CRC-32 of all that follows */
  int32_t lanes;
  int64_t arena_bytes;
  int64_t spin_ns;
  int32_t tasks_per_lane;
  int32_t refused;       /* text: why only Python can run this; "" where C can */
  int32_t processor;     /* text: the instruction sets it needs, a space between two */
  int32_t call_function; /* text: function of C that makes calls of libraries; "" for Python */
  int32_t num_buffers, num_tensors, num_extents, num_call_words, num_inputs, num_outputs;
  int32_t num_launches, num_arguments, num_groups, num_successors, num_parts;
  int32_t num_calls, text_bytes;
  int32_t flags;
} PlanHeader;

enum {
  IS_FFI = 1,   /* flags: kernels are TVM-FFI's, and the file has the parameters itself */
  OF_SHAPES = 2 /* parts are one model in several shapes, of which one runs at a time */
};

enum { BUFFER_ARENA = 0, BUFFER_INPUT = 1, BUFFER_OUTPUT = 2 };

typedef struct {
  int64_t size_bytes;
  int64_t arena_offset;
  int32_t kind;
  int32_t unused;
} PlanBuffer;

typedef struct {
  int64_t byte_offset;
  int64_t size_bytes;
  int32_t buffer;
  int32_t extents; /* number of the first one */
  int32_t ndim;
  int32_t dtype; /* text */
  uint8_t code;
  uint8_t bits;
  uint16_t vector_lanes;
  int32_t unused;
} PlanTensor;

typedef struct {
  int32_t name; /* text */
  int32_t tensor;
  int32_t is_parameter;
  int32_t parts; /* bit i: part i reads it */
} PlanInput;

typedef struct {
  int32_t operator_name; /* text */
  int32_t kernel;        /* text */
  int32_t arguments;     /* number of the first one: inputs, then outputs */
  int32_t num_inputs;
  int32_t num_outputs;
  int32_t serial; /* its parallel regions stay on one lane; bits: in all runs, in those of parts */
  int32_t call;      /* number of the library's call that computes it; -1: a kernel does */
  int32_t call_data; /* text: the call in JSON; -1: there is none */
  int32_t operator_index;
} PlanLaunch;

typedef struct {
  int32_t stage;
  int32_t position;
  int32_t home;  /* the lane that should run it */
  int32_t parts; /* bit i: outputs of part i need what it computes */
} PlanGroup;

typedef struct { /* a model of several that were joined; outputs of parts follow each other */
  int32_t name; /* text */
  int32_t num_outputs;
} PlanPart;

typedef struct {
  const PlanHeader* header;
  const PlanBuffer* buffers;
  const PlanTensor* tensors;
  const int64_t* extents;
  const int64_t* call_words; /* as tvm_ios_open_calls reads them; none where Python makes calls */
  const PlanInput* inputs;
  const int32_t* outputs; /* number of the tensor of each */
  const PlanLaunch* launches;
  const int32_t* arguments;      /* tensors */
  const int32_t* rows;           /* per group, plus one: its first launch */
  const PlanGroup* groups;
  const int32_t* successor_rows; /* per group, plus one */
  const int32_t* successors;
  const PlanPart* parts;
  const char* texts;
} PlanImage;

typedef struct {
  TVMKernel kernel;
  TVMValue* arguments;
  int32_t* type_codes;
  void* resource;
  int32_t num_arguments;
  int32_t serial; /* its parallel regions stay on one lane */
} Launch;

typedef struct { /* a kernel of a launch, or a call in place of it */
  TVMKernel kernel;
  void* resource;
  int64_t serial;
} BoundKernel;

/* A loaded plan. Kernels and the places of buffers are set by its owner, the
 * places also between runs. */
typedef struct {
  PlanImage image;
  Launch* launches; /* as planned, once more on one lane each, once more as in runs of parts */
  DLTensor* tensors;
  TVMValue* packed_arguments; /* of all launches, as packed kernels and as those of TVM-FFI read them */
  FFIAny* ffi_arguments;
  int32_t* type_codes; /* of packed arguments; all are tensors, so launches share them */
  char** places;       /* where each buffer begins */
  int32_t* firsts;     /* of each buffer, one of its tensors; -1: it has none */
  int32_t* further;    /* of each tensor, another one of its buffer; -1: it is the last */
} Plan;

#endif
