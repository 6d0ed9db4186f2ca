/* Issues a stream program: kernels, event records and waits, with no Python in between.
 *
 * A kernel is the host function of an operator. It launches device code on the stream that TVM has
 * set for this thread, and takes workspace where it needs any. TVM's pool hands the bytes of one
 * operator to the next while the first may still run, which only a single stream makes right. So
 * kernels get the workspace of their own stream here, and so do calls of libraries, which have the
 * signature of kernels.
 */
#include <string.h>

#include "../../base/native/lane_executor.h"

#define CUDA_DEVICE_TYPE 2
#define CUDA_ERROR_OUT_OF_MEMORY 2
#define CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED 900
#define CAPTURE_MODE_THREAD_LOCAL 1
#define MAX_BLOCKS 64

enum { STEP_LAUNCH = 0, STEP_RECORD = 1, STEP_WAIT = 2 };
enum { NO_STEP = -1, BEGIN_CAPTURE = -2, END_CAPTURE = -3 };
enum { ALLOCATE = 0, SYNCHRONIZE = 1, FREE = 2 }; /* what growing a workspace calls */

typedef struct {
  int32_t kind;
  int32_t stream; /* 0 is the caller's */
  int32_t index;  /* launch or event */
  int32_t unused;
} Step;

/* A kernel frees what it took before it returns, so the i-th block serves the i-th buffer that is
 * open at a time, of whichever kernel the stream runs. */
typedef struct {
  uint64_t address;
  uint64_t size_bytes;
  int64_t busy;
} Block;

typedef struct {
  void* stream;
  uint64_t wanted_bytes; /* when it could not grow */
  int32_t status;        /* why it could not; 0: it could */
  int32_t failed_call;
  int64_t fixed; /* no growth: the stream is being captured */
  Block blocks[MAX_BLOCKS];
} Workspace;

typedef struct {
  /* TVM-FFI writes the stream before to `old`, if that is not null. TVM of the packed convention
   * takes three arguments and never looks at the fourth. */
  int (*set_stream)(int device_type, int device_id, void* stream, void** old);
  void* (*take_workspace)(int device_type, int device_id, uint64_t size, int code, int bits);
  int (*give_workspace)(int device_type, int device_id, void* address);
  int (*record)(void* event, void* stream);
  int (*wait)(void* stream, void* event, unsigned flags);
  int (*synchronize)(void* stream);
  int (*allocate)(uint64_t* address, size_t size);
  int (*free)(uint64_t address);
  int (*begin_capture)(void* stream, int mode);
  int (*end_capture)(void* stream, void** graph);
} Functions;

typedef struct {
  const Step* steps;
  Launch* launches;
  void** streams; /* the first is set by each run */
  void** events;
  Workspace* workspaces; /* by stream */
  int32_t num_steps;
  int32_t device_id;
} StreamProgram;

typedef struct {
  int32_t step;             /* that failed, or one of the enum above */
  int32_t status;           /* of the driver, or what the kernel returned */
  int32_t end_status;       /* of the end of a capture in which a step failed */
  int32_t workspace_status; /* of the driver, if the kernel failed for want of workspace */
  int32_t workspace_call;
  int32_t unused;
  uint64_t workspace_bytes;
} Outcome;

/* Goes up with the structures above: an exported model brings this code along. */
#define STREAMS_ABI 2

static Functions call;
static _Thread_local Workspace* current;

int32_t tvm_ios_cuda_abi(void) { return STREAMS_ABI; }

void tvm_ios_cuda_bind(const Functions* functions) { call = *functions; }

static int grow(Workspace* workspace, Block* block, uint64_t size) {
  workspace->failed_call = ALLOCATE;
  if (workspace->fixed) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (block->address) {
    workspace->failed_call = SYNCHRONIZE; /* earlier kernels may still use it */
    int status = call.synchronize(workspace->stream);
    if (status) return status;
    workspace->failed_call = FREE;
    status = call.free(block->address);
    if (status) return status;
    block->address = block->size_bytes = 0;
  }
  workspace->failed_call = ALLOCATE;
  int status = call.allocate(&block->address, size);
  if (!status) block->size_bytes = size;
  return status;
}

void* tvm_ios_cuda_take_workspace(int device_type, int device_id, uint64_t size, int code,
                                  int bits) {
  Workspace* workspace = current;
  if (!workspace || device_type != CUDA_DEVICE_TYPE) {
    return call.take_workspace(device_type, device_id, size, code, bits);
  }
  int status = CUDA_ERROR_OUT_OF_MEMORY;
  for (Block* block = workspace->blocks; block < workspace->blocks + MAX_BLOCKS; ++block) {
    if (block->busy) continue;
    status = block->size_bytes < size ? grow(workspace, block, size) : 0;
    if (status) break;
    block->busy = 1;
    return (void*)(uintptr_t)block->address;
  }
  workspace->status = status;
  workspace->wanted_bytes = size;
  return NULL;
}

int tvm_ios_cuda_give_workspace(int device_type, int device_id, void* address) {
  if (current && device_type == CUDA_DEVICE_TYPE) {
    for (Block* block = current->blocks; block < current->blocks + MAX_BLOCKS; ++block) {
      if (block->busy && block->address == (uint64_t)(uintptr_t)address) {
        block->busy = 0;
        return 0;
      }
    }
  }
  return call.give_workspace(device_type, device_id, address);
}

/* Frees the blocks of a workspace that nobody uses any more; the first error, or 0. */
int tvm_ios_cuda_free_workspace(Workspace* workspace) {
  int first = 0;
  for (Block* block = workspace->blocks; block < workspace->blocks + MAX_BLOCKS; ++block) {
    int status = block->address ? call.free(block->address) : 0;
    if (status && !first) first = status;
  }
  memset(workspace->blocks, 0, sizeof(workspace->blocks));
  return first;
}

static int launch(const StreamProgram* program, const Step* step, Outcome* outcome) {
  Launch* kernel = &program->launches[step->index];
  TVMValue value;
  int32_t code = 0;
  int status = kernel->kernel(kernel->arguments, kernel->type_codes, kernel->num_arguments, &value,
                              &code, kernel->resource);
  if (status) {
    outcome->workspace_status = current->status;
    outcome->workspace_call = current->failed_call;
    outcome->workspace_bytes = current->wanted_bytes;
    current->status = 0;
    for (int i = 0; i < MAX_BLOCKS; ++i) current->blocks[i].busy = 0;
  }
  return status;
}

static void issue(const StreamProgram* program, void* caller, int32_t fixed, Outcome* outcome) {
  int32_t stream = 0; /* that TVM launches on */
  memset(outcome, 0, sizeof(*outcome));
  outcome->step = NO_STEP;
  program->streams[0] = caller;
  for (int32_t i = 0; i < program->num_steps; ++i) {
    const Step* step = &program->steps[i];
    int status;
    if (step->kind == STEP_RECORD) {
      status = call.record(program->events[step->index], program->streams[step->stream]);
    } else if (step->kind == STEP_WAIT) {
      status = call.wait(program->streams[step->stream], program->events[step->index], 0);
    } else {
      if (step->stream != stream) {
        stream = step->stream;
        call.set_stream(CUDA_DEVICE_TYPE, program->device_id, program->streams[stream], NULL);
        current = &program->workspaces[stream];
        current->fixed = fixed;
      }
      status = launch(program, step, outcome);
    }
    if (status) {
      outcome->step = i;
      outcome->status = status;
      break;
    }
  }
  current = NULL;
}

/* Issues every step, forked from and joined to the stream that TVM has set for this thread. After a
 * step that failed nothing is issued. */
void tvm_ios_cuda_issue(const StreamProgram* program, void* caller, Outcome* outcome) {
  issue(program, caller, 0, outcome);
  call.set_stream(CUDA_DEVICE_TYPE, program->device_id, caller, NULL);
}

/* Captures every step, forked from and joined to the origin. The capture is always ended. Nothing
 * else runs on this thread meanwhile: Python might free memory, which ends a capture badly. */
void* tvm_ios_cuda_capture(const StreamProgram* program, void* origin, void* caller,
                           Outcome* outcome) {
  void* graph = NULL;
  int status = call.begin_capture(origin, CAPTURE_MODE_THREAD_LOCAL);
  if (status) {
    *outcome = (Outcome){.step = BEGIN_CAPTURE, .status = status};
    return NULL;
  }
  issue(program, origin, 1, outcome);
  call.set_stream(CUDA_DEVICE_TYPE, program->device_id, caller, NULL);
  status = call.end_capture(origin, &graph);
  outcome->end_status = status;
  if (status && outcome->step == NO_STEP) {
    outcome->step = END_CAPTURE;
    outcome->status = status;
  }
  return graph;
}
