/* Calls of oneDNN, with the signature of TVM's kernels.
 *
 * The resource is the call as it was prepared for one executor: the whole as one sequence of
 * primitives, and the same cut into parts, each a sequence of its own. The parts are the tasks of a
 * parallel region: any idle lane may take one. Where a region is not split, the whole runs. A
 * launch runs once in a run, so no part is ever executed twice at a time. */
#include <sched.h>

#include "onednn_prepare.h"

#define CPU_DEVICE_TYPE 1

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

static int fail(OnednnCall* call, const char* what, int status) {
  __atomic_store_n(&call->failed, what, __ATOMIC_RELAXED);
  __atomic_store_n(&call->status, status, __ATOMIC_RELEASE);
  return -1;
}

static char* address_in(const Running* running, const OnednnPart* part, char* workspace,
                        const Place* place) {
  char* base = place->position == WORKSPACE    ? workspace
               : place->position == CONSTANTS  ? part->constants->memory
               : place->position == ZERO_POINT ? (char*)running->call->zero_points
                                               : address_of(running, place->position);
  return base + place->offset;
}

static int execute_some(const Running* running, const OnednnPart* part, char* workspace,
                        int64_t first, int64_t last) {
  const Onednn* onednn = running->call->onednn;
  for (int64_t i = first; i < last; ++i) {
    const OnednnPrimitive* each = &part->primitives[i];
    for (int64_t k = 0; k < each->count; ++k) {
      char* address = address_in(running, part, workspace, &each->places[k]);
      int status = onednn->memory_set_data_handle(each->arguments[k].memory, address);
      if (status) return fail(running->call, "dnnl_memory_set_data_handle", status);
    }
    int status = onednn->primitive_execute(each->primitive, part->stream, (int)each->count,
                                           each->arguments);
    if (status) return fail(running->call, "dnnl_primitive_execute", status);
  }
  return 0;
}

/* Constants that lie elsewhere than before are others. Whoever makes them clears made_from first
 * and stale second; they are read the other way round. */
static int is_made(const Constants* constants, const void* source) {
  return !__atomic_load_n(&constants->stale, __ATOMIC_ACQUIRE) &&
         __atomic_load_n(&constants->made_from, __ATOMIC_ACQUIRE) == source;
}

/* Whoever writes weights while they are read here sets stale afterwards, which must last. */
static int make_constants(const Running* running, const OnednnPart* part, char* workspace) {
  Constants* made = part->constants;
  const void* source = address_of(running, part->primitives[0].places[0].position);
  if (is_made(made, source)) return 0;
  int status = 0;
  while (__atomic_exchange_n(&made->held, 1, __ATOMIC_ACQUIRE)) sched_yield();
  if (!is_made(made, source)) {
    __atomic_store_n(&made->made_from, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&made->stale, 0, __ATOMIC_RELEASE);
    status = execute_some(running, part, workspace, 0, part->once);
    if (!status) __atomic_store_n(&made->made_from, source, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&made->held, 0, __ATOMIC_RELEASE);
  return status;
}

/* Runs of a launch follow each other, whichever lanes they are on, so a part's primitives and
 * workspace need no lock; constants do, as parts share them. */
static int execute(const Running* running, const OnednnPart* part, char* workspace) {
  if (part->once && make_constants(running, part, workspace)) return -1;
  return execute_some(running, part, workspace, part->once, part->count);
}

static int run_part(const Running* running, const OnednnPart* part) {
  OnednnCall* call = running->call;
  char* workspace = NULL;
  if (part->workspace_bytes) {
    workspace =
        call->host.take_workspace(CPU_DEVICE_TYPE, 0, part->workspace_bytes, TYPE_FLOAT, 32);
    if (!workspace) return -1;
  }
  int before = hold_threads(call->onednn);
  int code = execute(running, part, workspace);
  give_threads_back(call->onednn, before);
  if (workspace) call->host.give_workspace(CPU_DEVICE_TYPE, 0, workspace);
  return code;
}

static int run_task(int task, TVMParallelGroupEnv* env, void* data) {
  const Running* running = data;
  OnednnCall* call = running->call;
  if (env->num_task == 1) return run_part(running, call->parts);
  int code = 0;
  for (int64_t part = 1 + task; part < call->num_parts; part += env->num_task)
    code |= run_part(running, &call->parts[part]);
  return code;
}

/* The number is that of everything Python calls here. */
int32_t tvm_ios_onednn_run_3(TVMValue* arguments, int32_t* type_codes, int32_t num_arguments,
                             TVMValue* value, int32_t* code, void* resource) {
  OnednnCall* call = resource;
  Running running = {call, arguments, num_arguments};
  int tasks = (int)call->num_parts - 1;
  if (tasks < 2 || !call->host.launch) return run_part(&running, call->parts) ? -1 : 0;
  return call->host.launch(run_task, &running, tasks) ? -1 : 0;
}

/* Have the next run reorder constants again. */
void tvm_ios_onednn_forget_constants(OnednnCall* call) {
  for (int64_t i = 0; i < call->num_parts; ++i)
    if (call->parts[i].constants)
      __atomic_store_n(&call->parts[i].constants->stale, 1, __ATOMIC_RELEASE);
}

/* ---- programs without Python ---- */

static Onednn* opened;
static OnednnCall** calls;
static int64_t num_calls;

/* TVM_IOS_ONEDNN names the file, as in Python; else the loader finds it. */
Onednn* tvm_ios_onednn_find(char* text, size_t size) {
  const char* named = getenv("TVM_IOS_ONEDNN");
  if (!named || !*named) named = "libdnnl.so.3";
  char reason[256] = "no memory";
  void* library = dlopen(named, RTLD_LAZY | RTLD_LOCAL);
  Onednn* found = library ? tvm_ios_onednn_open(library, reason, sizeof reason) : NULL;
  if (!library)
    say(text, size, "there is none: let LD_LIBRARY_PATH name the folder of libdnnl.so.3, or "
        "TVM_IOS_ONEDNN the file (%s)", dlerror());
  else if (!found)
    say(text, size, "%s cannot be used: %s", named, reason);
  return found;
}

/* Version, and instruction sets in use by oneDNN's name, a space between. */
void tvm_ios_onednn_tell(const Onednn* onednn, char* text, size_t size) {
  const OnednnVersion* found = onednn->version();
  say(text, size, "%d.%d.%d %s", found->major, found->minor, found->patch,
      onednn->cpu_isa2str(onednn->get_effective_cpu_isa()));
}

int tvm_ios_open_calls(const CallHost* host, const int64_t* data, void** resources, char* text,
                       size_t size) {
  char reason[512];
  if (!(opened = tvm_ios_onednn_find(reason, sizeof reason)))
    return say(text, size, "oneDNN 3 computes operators of it, and %s", reason);
  const int64_t* next = data;
  int64_t count = *next++;
  if (!(calls = calloc(count + 1, sizeof *calls)))
    return say(text, size, "there is no memory for its calls");
  for (; num_calls < count; ++num_calls) {
    int64_t size_bytes = *next++;
    OnednnCall** made = &calls[num_calls];
    if (tvm_ios_onednn_prepare(opened, host, (const CallData*)next, size_bytes, made, reason,
                               sizeof reason))
      return say(text, size, "call %lld of oneDNN: %s; export the model on a machine like this one",
                 (long long)num_calls, reason);
    resources[num_calls] = *made;
    next += size_bytes / sizeof *next;
  }
  return 0;
}

void tvm_ios_close_calls(void) {
  while (num_calls) tvm_ios_onednn_drop(calls[--num_calls]);
  free(calls);
  calls = NULL;
  tvm_ios_onednn_close(opened);
  opened = NULL;
}

void tvm_ios_explain_call(void* resource, char* text, size_t size) {
  OnednnCall* call = resource;
  int status = __atomic_exchange_n(&call->status, 0, __ATOMIC_ACQUIRE);
  if (status) say_failed(call->onednn, call->failed, status, text, size);
}
