/* Calls of oneDNN, with the signature of TVM's kernels.
 *
 * The resource is the call as it was prepared for one executor: the whole as one sequence of
 * primitives, and the same cut into parts, each a sequence of its own. The parts are the tasks of a
 * parallel region: any idle lane may take one. Where a region is not split, the whole runs. A launch
 * runs once in a run, so no part is ever executed twice at a time. libdnnl is not linked: Python
 * finds it and hands in its functions.
 */
#include <stddef.h>
#include <stdint.h>

#include "../../../base/native/tvm_abi.h"

#define CPU_DEVICE_TYPE 1
enum { WORKSPACE = -1, OUTPUT = -2, CONSTANTS = -3 }; /* in place of the position of an input */

typedef struct {
  int (*execute)(void* primitive, void* stream, int count, const void* arguments);
  int (*set_address)(void* memory, void* address);
  int (*get_threads)(void);        /* of OpenMP; NULL: there is none */
  void (*set_threads)(int number); /* of the calling thread */
} OnednnFunctions;

enum { SET_ADDRESS = 1, EXECUTE = 2 }; /* what failed */

typedef struct { /* dnnl_exec_arg_t */
  int argument;
  void* memory;
} ExecutedArgument;

typedef struct {
  void* primitive;
  void* stream;
  const ExecutedArgument* arguments;
  const int64_t* positions; /* of each argument among the inputs of the launch, or one of the above */
  const int64_t* offsets;   /* bytes, of each */
  int64_t count;
} OnednnPrimitive;

typedef struct {
  const OnednnPrimitive* primitives;
  int64_t count;
  int64_t once;             /* the first so many only make something of constants */
  uint64_t workspace_bytes; /* of the lane that runs it */
  char* constants;          /* what was made of them; the part's own */
  const void* made_from;    /* where they lay then; NULL: it is to be made, says Python */
} OnednnPart;

typedef struct {
  const OnednnFunctions* functions;
  void* (*take_workspace)(int device_type, int device_id, uint64_t size, int code, int bits);
  int (*give_workspace)(int device_type, int device_id, void* address);
  FTVMParallelLaunch launch; /* NULL: nobody helps */
  OnednnPart* whole;
  OnednnPart* parts;
  int64_t num_parts;
  int32_t status; /* of oneDNN, where it failed; read and cleared by Python */
  int32_t failed; /* what failed then */
} OnednnCall;

typedef struct {
  OnednnCall* call;
  const TVMValue* arguments;
  int32_t num_arguments;
} Running;

static char* address_of(const Running* running, int64_t position) {
  int64_t last = running->num_arguments - 1;
  const DLTensor* tensor = running->arguments[position == OUTPUT ? last : position].v_handle;
  return (char*)tensor->data + tensor->byte_offset;
}

static int fail(OnednnCall* call, int what, int status) {
  __atomic_store_n(&call->failed, what, __ATOMIC_RELAXED);
  __atomic_store_n(&call->status, status, __ATOMIC_RELAXED);
  return -1;
}

static char* base_of(const Running* running, const OnednnPart* part, char* workspace,
                     int64_t position) {
  if (position == WORKSPACE) return workspace;
  return position == CONSTANTS ? part->constants : address_of(running, position);
}

/* Runs of a launch follow each other, whichever lanes they are on, so a part's own memory needs no
 * lock. Constants that lie elsewhere than before are others. */
static int execute_from(const Running* running, OnednnPart* part, char* workspace, int64_t first) {
  const OnednnFunctions* functions = running->call->functions;
  for (int64_t i = first; i < part->count; ++i) {
    const OnednnPrimitive* each = &part->primitives[i];
    for (int64_t k = 0; k < each->count; ++k) {
      char* base = base_of(running, part, workspace, each->positions[k]);
      int status = functions->set_address(each->arguments[k].memory, base + each->offsets[k]);
      if (status) return fail(running->call, SET_ADDRESS, status);
    }
    int status =
        functions->execute(each->primitive, each->stream, (int)each->count, each->arguments);
    if (status) return fail(running->call, EXECUTE, status);
  }
  return 0;
}

/* Weights count as those that were reordered from before they are read: whoever writes them
 * meanwhile sets made_from to NULL afterwards, which must last. */
static int execute(const Running* running, OnednnPart* part, char* workspace) {
  if (!part->once) return execute_from(running, part, workspace, 0);
  const void* source = address_of(running, part->primitives[0].positions[0]);
  if (source == part->made_from) return execute_from(running, part, workspace, part->once);
  part->made_from = source;
  int status = execute_from(running, part, workspace, 0);
  if (status) part->made_from = NULL;
  return status;
}

static int run_part(const Running* running, OnednnPart* part) {
  OnednnCall* call = running->call;
  const OnednnFunctions* functions = call->functions;
  char* workspace = NULL;
  if (part->workspace_bytes) {
    workspace = call->take_workspace(CPU_DEVICE_TYPE, 0, part->workspace_bytes, TYPE_FLOAT, 32);
    if (!workspace) return -1;
  }
  /* The primitive was made for one thread; nothing in it may begin a team. The number is that of the
   * calling thread, which may be the user's: it gets its own back. */
  int before = functions->get_threads ? functions->get_threads() : 1;
  if (before != 1) functions->set_threads(1);
  int code = execute(running, part, workspace);
  if (before != 1) functions->set_threads(before);
  if (workspace) call->give_workspace(CPU_DEVICE_TYPE, 0, workspace);
  return code;
}

static int run_task(int task, TVMParallelGroupEnv* env, void* data) {
  const Running* running = data;
  OnednnCall* call = running->call;
  if (env->num_task == 1) return run_part(running, call->whole);
  int code = 0;
  for (int64_t part = task; part < call->num_parts; part += env->num_task)
    code |= run_part(running, &call->parts[part]);
  return code;
}

int32_t tvm_ios_onednn_run_2(TVMValue* arguments, int32_t* type_codes, int32_t num_arguments,
                             TVMValue* value, int32_t* code, void* resource) {
  OnednnCall* call = resource;
  Running running = {call, arguments, num_arguments};
  if (call->num_parts < 2 || !call->launch) return run_part(&running, call->whole) ? -1 : 0;
  return call->launch(run_task, &running, (int)call->num_parts) ? -1 : 0;
}
