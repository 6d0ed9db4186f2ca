/* Stands in for the CUDA driver and runtime, for tests: it computes nothing and records every call.
 *
 * Preloaded, it serves TVM (whose libtvm.so is linked against both) and our own bindings. It checks
 * what a GPU would: contexts, handles, what a capture allows, that captured work is joined. Time is
 * simulated: a kernel takes a microsecond of its stream, a wait takes the time of the event, and a
 * graph as long as what it was captured from.
 *
 * The record is one line a call, "cuStreamWaitEvent stream=3 event=5", in the file that
 * CUDA_STAND_IN_LOG names. Streams, events, graphs are numbered as they are made; 0 is the default
 * stream. stand_in_fail() makes a coming call fail; stand_in_live() counts what is not yet freed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  NO_BINARY = 209,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_MERGE = 902,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURE_IMPLICIT = 906,
};

static const struct {
  int code;
  const char* name;
  const char* text;
} ERRORS[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
};

enum { STREAM = 1, EVENT, GRAPH, EXECUTABLE, MODULE, FUNCTION, MEMORY, KINDS };
static const char* const KIND_NAMES[] = {"", "streams", "events", "graphs", "executables",
                                         "modules", "functions", "allocations"};

#define MAX_NODES 8192
#define WORDS (MAX_NODES / 64)

/* The nodes of a capture that come before a point, transitively. */
typedef struct {
  uint64_t words[WORDS];
} NodeSet;

typedef struct Capture {
  struct Object* origin;
  pthread_t thread;
  int nodes;
  int invalid;
  struct Capture* next; /* of those that are open */
} Capture;

typedef struct Object {
  int kind;
  int number;
  int64_t time_ns;   /* of a stream, or when an event was recorded */
  Capture* capture;  /* the stream is being captured, or the event was recorded in a capture */
  NodeSet* before;   /* in that capture */
  int nodes;         /* of a graph */
  int64_t depth_ns;  /* the same as time_ns, since the begin of the capture; of a graph, in all */
  size_t size_bytes; /* of memory */
  void* address;
  struct Object* module;
  char name[256];
  struct Object* next;
} Object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE* record;
static Object* objects;
static int made[KINDS];
static Object default_stream = {.kind = STREAM};
static Capture* captures;
static size_t memory_limit = (size_t)1 << 34, memory_used;
static int held; /* by libraries on top of CUDA */
static int initialized, contexts, runtime_context, devices = 1;
static int capability = 90;
static _Thread_local int context_is_current;
static _Thread_local char returned[64];

static struct {
  char name[64];
  int after; /* calls of this name that still succeed */
  int code;
} failure;

/* ---- What tests call ---- */

EXPORT void stand_in_fail(const char* name, int after, int code) {
  pthread_mutex_lock(&lock);
  snprintf(failure.name, sizeof(failure.name), "%s", name);
  failure.after = after;
  failure.code = code;
  pthread_mutex_unlock(&lock);
}

/* Whether the call that was to fail has not been made. */
EXPORT int stand_in_pending(void) { return failure.name[0] != 0; }

EXPORT void stand_in_set_memory(size_t bytes) { memory_limit = bytes; }
EXPORT void stand_in_set_devices(int count) { devices = count; }
EXPORT void stand_in_set_capability(int major_and_minor) { capability = major_and_minor; }

EXPORT int stand_in_live(const char* what) {
  int count = 0;
  if (!strcmp(what, "contexts")) return contexts;
  if (!strcmp(what, "held")) return held;
  pthread_mutex_lock(&lock);
  for (Object* object = objects; object; object = object->next) {
    count += !strcmp(KIND_NAMES[object->kind], what);
  }
  pthread_mutex_unlock(&lock);
  return count;
}

static void write_line(const char* format, ...) {
  if (!record) {
    const char* path = getenv("CUDA_STAND_IN_LOG");
    record = fopen(path ? path : "/dev/null", "w");
  }
  va_list arguments;
  va_start(arguments, format);
  vfprintf(record, format, arguments);
  va_end(arguments);
  fputc('\n', record);
  fflush(record);
}

/* A line of the test's own between the calls. */
EXPORT void stand_in_mark(const char* text) {
  pthread_mutex_lock(&lock);
  write_line("mark text=%s", text);
  pthread_mutex_unlock(&lock);
}

/* ---- Every call ---- */

/* Records a call; what it is to return if it is to fail. */
static int enter(const char* name, const char* format, ...) {
  char text[512] = "";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  int code = 0;
  if (!strcmp(failure.name, name) && failure.after-- == 0) {
    code = failure.code;
    failure.name[0] = 0;
  }
  write_line("%s %s%s", name, text, code ? " injected=1" : "");
  return code;
}

#define ENTER(...)                         \
  pthread_mutex_lock(&lock);               \
  int status = enter(__func__, __VA_ARGS__); \
  if (status) return leave(status)

/* For calls that free something: one that fails reports what went wrong earlier, and still frees. */
#define ENTER_ANYWAY(...)    \
  pthread_mutex_lock(&lock); \
  int status = enter(__func__, __VA_ARGS__)

static int either(int injected, int real) { return injected ? injected : real; }

static int leave(int status) {
  pthread_mutex_unlock(&lock);
  return status;
}

static int need_context(void) {
  if (!initialized) return NOT_INITIALIZED;
  return context_is_current && contexts + runtime_context > 0 ? SUCCESS : INVALID_CONTEXT;
}

static Object* find(void* handle, int kind) {
  if (!handle && kind == STREAM) return &default_stream;
  for (Object* object = objects; object; object = object->next) {
    if (object == handle && object->kind == kind) return object;
  }
  return NULL;
}

static Object* find_memory(void* address) {
  for (Object* object = objects; object; object = object->next) {
    if (object->kind == MEMORY && object->address == address) return object;
  }
  return NULL;
}

static Object* make(int kind) {
  Object* object = calloc(1, sizeof(Object));
  object->kind = kind;
  object->number = ++made[kind];
  object->next = objects;
  objects = object;
  return object;
}

static void drop(Object* object) {
  Object** place = &objects;
  while (*place != object) place = &(*place)->next;
  *place = object->next;
  free(object->before);
  free(object);
}

static int number_of(void* handle, int kind) {
  Object* object = find(handle, kind);
  return object ? object->number : -1;
}

/* ---- Capture ---- */

/* Calls that a thread may not make while it captures; they spoil the capture. */
static int forbid_in_capture(void) {
  int status = SUCCESS;
  for (Capture* capture = captures; capture; capture = capture->next) {
    if (pthread_equal(capture->thread, pthread_self())) {
      capture->invalid = 1;
      status = CAPTURE_UNSUPPORTED;
    }
  }
  return status;
}

static void join_sets(NodeSet* into, const NodeSet* from) {
  for (int word = 0; word < WORDS; ++word) into->words[word] |= from->words[word];
}

static void set_capture(Object* object, Capture* capture, const NodeSet* before) {
  free(object->before);
  object->capture = capture;
  object->before = NULL;
  if (!capture) return;
  object->before = calloc(1, sizeof(NodeSet));
  if (before) *object->before = *before;
}

/* A kernel or copy on a stream: a node if the stream is being captured, else it takes time. */
static int add_work(Object* stream, int64_t elapsed_ns) {
  if (!stream->capture) {
    stream->time_ns += elapsed_ns;
    return SUCCESS;
  }
  if (stream->capture->invalid) return CAPTURE_INVALIDATED;
  int node = stream->capture->nodes++;
  if (node >= MAX_NODES) abort();
  stream->depth_ns += elapsed_ns;
  stream->before->words[node / 64] |= (uint64_t)1 << node % 64;
  return SUCCESS;
}

static int record_event(Object* event, Object* stream) {
  if (stream->capture && stream->capture->invalid) return CAPTURE_INVALIDATED;
  set_capture(event, stream->capture, stream->before);
  event->time_ns = stream->time_ns;
  event->depth_ns = stream->depth_ns;
  return SUCCESS;
}

static int wait_event(Object* stream, Object* event) {
  if (stream->capture && stream->capture->invalid) return CAPTURE_INVALIDATED;
  if (!event->capture) {
    if (stream->capture) {
      stream->capture->invalid = 1;
      return CAPTURE_ISOLATION;
    }
    if (event->time_ns > stream->time_ns) stream->time_ns = event->time_ns;
    return SUCCESS;
  }
  if (stream == &default_stream) return CAPTURE_IMPLICIT;
  if (!stream->capture) {
    set_capture(stream, event->capture, NULL);
    stream->depth_ns = 0;
  }
  if (stream->capture != event->capture) return CAPTURE_MERGE;
  if (event->depth_ns > stream->depth_ns) stream->depth_ns = event->depth_ns;
  join_sets(stream->before, event->before);
  return SUCCESS;
}

static int begin_capture(Object* stream) {
  if (stream == &default_stream) return CAPTURE_UNSUPPORTED;
  if (stream->capture) return INVALID_VALUE;
  Capture* capture = calloc(1, sizeof(Capture));
  *capture = (Capture){.origin = stream, .thread = pthread_self(), .next = captures};
  captures = capture;
  set_capture(stream, capture, NULL);
  return SUCCESS;
}

static int end_capture(Object* stream, Object** graph) {
  Capture* capture = stream->capture;
  *graph = NULL;
  if (!capture) return INVALID_VALUE;
  if (capture->origin != stream) {
    capture->invalid = 1;
    return CAPTURE_UNMATCHED;
  }
  int status = capture->invalid ? CAPTURE_INVALIDATED : SUCCESS;
  for (int node = 0; node < capture->nodes && !status; ++node) {
    if (!(stream->before->words[node / 64] >> node % 64 & 1)) status = CAPTURE_UNJOINED;
  }
  for (Object* object = objects; object; object = object->next) {
    if (object->capture == capture) set_capture(object, NULL, NULL);
  }
  Capture** place = &captures;
  while (*place != capture) place = &(*place)->next;
  *place = capture->next;
  if (!status) {
    *graph = make(GRAPH);
    (*graph)->nodes = capture->nodes;
    (*graph)->depth_ns = stream->depth_ns;
  }
  free(capture);
  return status;
}

/* ---- What driver and runtime share ---- */

static int allocate(void** address, size_t size) {
  int status = need_context();
  if (!status) status = forbid_in_capture();
  if (!status && memory_used + size > memory_limit) status = OUT_OF_MEMORY;
  if (status) return status;
  Object* memory = make(MEMORY);
  if (posix_memalign(&memory->address, 256, size ? size : 1)) abort();
  memory->size_bytes = size;
  memory_used += size;
  *address = memory->address;
  return SUCCESS;
}

static int release(void* address) {
  if (!address) return SUCCESS;
  Object* memory = find_memory(address);
  int status = memory ? forbid_in_capture() : INVALID_VALUE;
  if (status) return status;
  memory_used -= memory->size_bytes;
  free(memory->address);
  drop(memory);
  return SUCCESS;
}

static int create_stream(void** handle) {
  int status = need_context();
  if (!status) *handle = make(STREAM);
  return status;
}

static int create_event(void** handle) {
  int status = need_context();
  if (!status) *handle = make(EVENT);
  return status;
}

static int destroy(void* handle, int kind) {
  Object* object = handle ? find(handle, kind) : NULL;
  if (!object) return INVALID_HANDLE;
  drop(object);
  return SUCCESS;
}

static int on_stream(void* handle, Object** stream) {
  int status = need_context();
  *stream = find(handle, STREAM);
  return status ? status : *stream ? SUCCESS : INVALID_HANDLE;
}

static int synchronize(void* handle) {
  Object* stream;
  int status = on_stream(handle, &stream);
  return status ? status : forbid_in_capture();
}

static int elapsed(float* milliseconds, void* begin, void* end) {
  Object *first = find(begin, EVENT), *last = find(end, EVENT);
  if (!first || !last) return INVALID_HANDLE;
  *milliseconds = (float)((double)(last->time_ns - first->time_ns) / 1e6);
  return SUCCESS;
}

static int record_on(void* event_handle, void* stream_handle) {
  Object *stream, *event = find(event_handle, EVENT);
  int status = on_stream(stream_handle, &stream);
  if (!status && !event) status = INVALID_HANDLE;
  return status ? status : record_event(event, stream);
}

static int wait_on(void* stream_handle, void* event_handle) {
  Object *stream, *event = find(event_handle, EVENT);
  int status = on_stream(stream_handle, &stream);
  if (!status && !event) status = INVALID_HANDLE;
  return status ? status : wait_event(stream, event);
}

static int attribute(int* value, int which) {
  switch (which) {
    case 1: *value = 1024; break;           /* threads of a block */
    case 2:
    case 3: *value = 1024; break;           /* threads of a block in x and y */
    case 4: *value = 64; break;             /* in z */
    case 8: *value = 48 << 10; break;       /* bytes of shared memory of a block */
    case 10: *value = 32; break;            /* warp */
    case 12: *value = 64 << 10; break;      /* registers of a block */
    case 16: *value = 132; break;           /* multiprocessors */
    case 38: *value = 50 << 20; break;      /* L2 bytes */
    case 75: *value = capability / 10; break;
    case 76: *value = capability % 10; break;
    default: *value = 1;
  }
  return SUCCESS;
}

static const char* error_name(int code) {
  for (size_t i = 0; i < sizeof(ERRORS) / sizeof(*ERRORS); ++i) {
    if (ERRORS[i].code == code) return ERRORS[i].name;
  }
  return NULL;
}

static const char* error_text(int code) {
  for (size_t i = 0; i < sizeof(ERRORS) / sizeof(*ERRORS); ++i) {
    if (ERRORS[i].code == code) return ERRORS[i].text;
  }
  return "unrecognized error code";
}

/* ---- What the stand-in for a library on top of CUDA calls ---- */

EXPORT int stand_in_enter(const char* name, const char* text) {
  pthread_mutex_lock(&lock);
  return leave(enter(name, "%s", text));
}

/* Its number; -1: there is no such stream. */
EXPORT int stand_in_stream(void* stream) {
  pthread_mutex_lock(&lock);
  int number = number_of(stream, STREAM);
  pthread_mutex_unlock(&lock);
  return number;
}

EXPORT int stand_in_work(void* handle, int64_t elapsed_ns) {
  pthread_mutex_lock(&lock);
  Object* stream;
  int status = on_stream(handle, &stream);
  return leave(status ? status : add_work(stream, elapsed_ns));
}

/* For calls that allocate or wait: an error where that is not allowed. */
EXPORT int stand_in_quiet(void) {
  pthread_mutex_lock(&lock);
  int status = need_context();
  return leave(status ? status : forbid_in_capture());
}

EXPORT void stand_in_hold(int count) {
  pthread_mutex_lock(&lock);
  held += count;
  pthread_mutex_unlock(&lock);
}

/* ---- The driver ---- */

EXPORT int cuGetErrorName(int code, const char** text) {
  *text = error_name(code);
  return *text ? SUCCESS : INVALID_VALUE;
}

EXPORT int cuGetErrorString(int code, const char** text) {
  *text = error_text(code);
  return SUCCESS;
}

EXPORT int cuInit(unsigned flags) {
  ENTER("flags=%u", flags);
  initialized = 1;
  return leave(devices ? SUCCESS : 100);
}

EXPORT int cuDriverGetVersion(int* version) {
  ENTER("");
  *version = 13000;
  return leave(SUCCESS);
}

EXPORT int cuDeviceGetCount(int* count) {
  ENTER("");
  *count = devices;
  return leave(SUCCESS);
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
  ENTER("ordinal=%d", ordinal);
  *device = ordinal;
  return leave(ordinal < devices ? SUCCESS : INVALID_DEVICE);
}

EXPORT int cuDeviceGetName(char* name, int size, int device) {
  ENTER("device=%d", device);
  snprintf(name, (size_t)size, "Stand-in");
  return leave(SUCCESS);
}

EXPORT int cuDeviceGetPCIBusId(char* text, int size, int device) {
  ENTER("device=%d", device);
  snprintf(text, (size_t)size, "0000:00:00.0");
  return leave(SUCCESS);
}

EXPORT int cuDeviceGetAttribute(int* value, int which, int device) {
  ENTER("which=%d device=%d", which, device);
  return leave(attribute(value, which));
}

EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  ENTER("device=%d", device);
  *bytes = memory_limit;
  return leave(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER("device=%d", device);
  ++contexts;
  *context = &contexts;
  return leave(initialized ? SUCCESS : NOT_INITIALIZED);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER_ANYWAY("device=%d", device);
  --contexts;
  return leave(either(status, SUCCESS));
}

EXPORT int cuCtxSetCurrent(void* context) {
  ENTER("context=%d", context != NULL);
  context_is_current = context != NULL;
  return leave(SUCCESS);
}

EXPORT int cuCtxSynchronize(void) {
  ENTER("");
  status = need_context();
  return leave(status ? status : forbid_in_capture());
}

EXPORT int cuMemGetInfo_v2(size_t* available, size_t* total) {
  ENTER("");
  *available = memory_limit - memory_used;
  *total = memory_limit;
  return leave(need_context());
}

EXPORT int cuMemAlloc_v2(uint64_t* address, size_t size) {
  ENTER("size=%zu", size);
  void* made_at = NULL;
  status = allocate(&made_at, size);
  *address = (uintptr_t)made_at;
  if (!status) write_line("allocated by=%s address=%p size=%zu", __func__, made_at, size);
  return leave(status);
}

EXPORT int cuMemFree_v2(uint64_t address) {
  ENTER_ANYWAY("address=%p", (void*)(uintptr_t)address);
  return leave(either(status, release((void*)(uintptr_t)address)));
}

EXPORT int cuMemsetD32_v2(uint64_t address, unsigned value, size_t count) {
  ENTER("address=%p value=%u count=%zu", (void*)(uintptr_t)address, value, count);
  return leave(need_context());
}

EXPORT int cuStreamCreate(void** stream, unsigned flags) {
  ENTER("flags=%u", flags);
  return leave(create_stream(stream));
}

EXPORT int cuStreamDestroy_v2(void* stream) {
  ENTER_ANYWAY("stream=%d", number_of(stream, STREAM));
  return leave(either(status, destroy(stream, STREAM)));
}

EXPORT int cuStreamSynchronize(void* stream) {
  ENTER("stream=%d", number_of(stream, STREAM));
  return leave(synchronize(stream));
}

EXPORT int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  ENTER("stream=%d event=%d flags=%u", number_of(stream, STREAM), number_of(event, EVENT), flags);
  return leave(wait_on(stream, event));
}

EXPORT int cuStreamBeginCapture_v2(void* stream, int mode) {
  ENTER("stream=%d mode=%d", number_of(stream, STREAM), mode);
  Object* origin;
  status = on_stream(stream, &origin);
  return leave(status ? status : begin_capture(origin));
}

EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  pthread_mutex_lock(&lock);
  Object *origin = find(stream, STREAM), *captured = NULL;
  int status = enter(__func__, "stream=%d", number_of(stream, STREAM));
  int real = origin ? end_capture(origin, &captured) : INVALID_HANDLE;
  if (status && captured) {
    drop(captured);
    captured = NULL;
  }
  *graph = captured;
  if (!status) status = real;
  if (!status) write_line("captured graph=%d nodes=%d", captured->number, captured->nodes);
  return leave(status);
}

EXPORT int cuEventCreate(void** event, unsigned flags) {
  ENTER("flags=%u", flags);
  return leave(create_event(event));
}

EXPORT int cuEventDestroy_v2(void* event) {
  ENTER_ANYWAY("event=%d", number_of(event, EVENT));
  return leave(either(status, destroy(event, EVENT)));
}

EXPORT int cuEventRecord(void* event, void* stream) {
  ENTER("stream=%d event=%d", number_of(stream, STREAM), number_of(event, EVENT));
  return leave(record_on(event, stream));
}

EXPORT int cuEventSynchronize(void* event) {
  ENTER("event=%d", number_of(event, EVENT));
  status = need_context();
  if (!status) status = find(event, EVENT) ? forbid_in_capture() : INVALID_HANDLE;
  return leave(status);
}

EXPORT int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  ENTER("begin=%d end=%d", number_of(begin, EVENT), number_of(end, EVENT));
  return leave(elapsed(milliseconds, begin, end));
}

EXPORT int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  ENTER("graph=%d flags=%llu", number_of(graph, GRAPH), flags);
  Object* source = find(graph, GRAPH);
  if (!source) return leave(INVALID_HANDLE);
  Object* instance = make(EXECUTABLE);
  instance->nodes = source->nodes;
  instance->depth_ns = source->depth_ns;
  *executable = instance;
  write_line("instantiated executable=%d graph=%d", instance->number, source->number);
  return leave(SUCCESS);
}

EXPORT int cuGraphUpload(void* executable, void* stream) {
  ENTER("executable=%d stream=%d", number_of(executable, EXECUTABLE), number_of(stream, STREAM));
  return leave(find(executable, EXECUTABLE) ? SUCCESS : INVALID_HANDLE);
}

EXPORT int cuGraphLaunch(void* executable, void* stream) {
  ENTER("executable=%d stream=%d", number_of(executable, EXECUTABLE), number_of(stream, STREAM));
  Object *instance = find(executable, EXECUTABLE), *target;
  status = on_stream(stream, &target);
  if (!status && !instance) status = INVALID_HANDLE;
  if (!status) target->time_ns += instance->depth_ns;
  return leave(status);
}

EXPORT int cuGraphDestroy(void* graph) {
  ENTER_ANYWAY("graph=%d", number_of(graph, GRAPH));
  return leave(either(status, destroy(graph, GRAPH)));
}

EXPORT int cuGraphExecDestroy(void* executable) {
  ENTER_ANYWAY("executable=%d", number_of(executable, EXECUTABLE));
  return leave(either(status, destroy(executable, EXECUTABLE)));
}

EXPORT int cuModuleLoadData(void** module, const void* image) {
  ENTER("image=%d", image != NULL);
  status = need_context();
  if (!status) status = forbid_in_capture();
  if (!status) *module = make(MODULE);
  return leave(status);
}

EXPORT int cuModuleUnload(void* module) {
  ENTER("module=%d", number_of(module, MODULE));
  for (Object *object = objects, *next; object; object = next) {
    next = object->next;
    if (object->kind == FUNCTION && object->module == module) drop(object);
  }
  return leave(destroy(module, MODULE));
}

EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER("module=%d name=%s", number_of(module, MODULE), name);
  if (!find(module, MODULE)) return leave(INVALID_HANDLE);
  Object* made_now = make(FUNCTION);
  made_now->module = module;
  snprintf(made_now->name, sizeof(made_now->name), "%s", name);
  *function = made_now;
  return leave(SUCCESS);
}

EXPORT int cuModuleGetGlobal_v2(uint64_t* address, size_t* size, void* module, const char* name) {
  ENTER("module=%d name=%s", number_of(module, MODULE), name);
  *address = *size = 0;
  return leave(NOT_FOUND);
}

EXPORT int cuFuncSetAttribute(void* function, int which, int value) {
  ENTER("function=%d which=%d value=%d", number_of(function, FUNCTION), which, value);
  return leave(SUCCESS);
}

/* The kernel's name is its host function's and a suffix; its pointers lie in the file of lines
 * "name count" that CUDA_STAND_IN_ARGUMENTS names. */
static int count_arguments(const char* name) {
  static struct {
    char name[256];
    int count;
  } known[4096];
  static int lines = -1;
  const char* path = getenv("CUDA_STAND_IN_ARGUMENTS");
  if (lines < 0) {
    lines = 0;
    FILE* file = path ? fopen(path, "r") : NULL;
    while (file && fscanf(file, "%255s %d", known[lines].name, &known[lines].count) == 2) ++lines;
    if (file) fclose(file);
  }
  for (int line = 0; line < lines; ++line) {
    if (!strcmp(known[line].name, name)) return known[line].count;
  }
  return 0;
}

EXPORT int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                          void* stream, void** arguments, void** extra) {
  Object* kernel = find(function, FUNCTION);
  char pointers[512] = "";
  int count = kernel ? count_arguments(kernel->name) : 0;
  for (int i = 0, used = 0; i < count && used < 480; ++i) {
    used += snprintf(pointers + used, sizeof(pointers) - (size_t)used, "%s%p", i ? "," : "",
                     *(void**)arguments[i]);
  }
  ENTER("stream=%d kernel=%s grid=%u block=%u arguments=%s", number_of(stream, STREAM),
        kernel ? kernel->name : "?", grid_x * grid_y * grid_z, block_x * block_y * block_z, pointers);
  (void)shared, (void)extra;
  Object* target;
  status = on_stream(stream, &target);
  if (!status && !kernel) status = INVALID_HANDLE;
  return leave(status ? status : add_work(target, 1000));
}

typedef struct {
  unsigned grid[3], block[3], shared;
  void* stream;
  void* attributes;
  unsigned num_attributes;
} LaunchConfig;

/* It is recorded, and fails, as the launch that it is. */
EXPORT int cuLaunchKernelEx(const LaunchConfig* config, void* function, void** arguments,
                            void** extra) {
  const unsigned *grid = config->grid, *block = config->block;
  return cuLaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                        config->shared, config->stream, arguments, extra);
}

EXPORT int cuTensorMapEncodeTiled(void) { return 801; }
EXPORT int cuTensorMapEncodeIm2col(void) { return 801; }

/* ---- The runtime, which makes the primary context current by itself ---- */

static void need_runtime(void) {
  initialized = 1;
  runtime_context = 1; /* held until the process ends */
  context_is_current = 1;
}

EXPORT const char* cudaGetErrorString(int code) {
  snprintf(returned, sizeof(returned), "%s", error_text(code));
  return returned;
}

/* The runtime has names of its own; TVM tells them, and nobody reads them. */
EXPORT const char* cudaGetErrorName(int code) { return code ? "cudaError" : "cudaSuccess"; }

EXPORT int cudaGetLastError(void) { return SUCCESS; }
EXPORT int cudaPeekAtLastError(void) { return SUCCESS; }

EXPORT int cudaGetDeviceCount(int* count) {
  ENTER("");
  *count = devices;
  return leave(SUCCESS);
}

EXPORT int cudaGetDevice(int* device) {
  ENTER("");
  *device = 0;
  return leave(SUCCESS);
}

EXPORT int cudaSetDevice(int device) {
  ENTER("device=%d", device);
  if (device >= devices) return leave(INVALID_DEVICE);
  need_runtime();
  return leave(SUCCESS);
}

EXPORT int cudaDeviceGetAttribute(int* value, int which, int device) {
  ENTER("which=%d device=%d", which, device);
  return leave(device < devices ? attribute(value, which) : INVALID_DEVICE);
}

EXPORT int cudaGetDeviceProperties_v2(void* properties, int device) {
  ENTER("device=%d", device);
  memset(properties, 0, 256); /* the name, and some of what follows */
  return leave(SUCCESS);
}

EXPORT int cudaGetDeviceProperties(void* properties, int device) { /* its name since CUDA 13 */
  return cudaGetDeviceProperties_v2(properties, device);
}

EXPORT int cudaMalloc(void** address, size_t size) {
  ENTER("size=%zu", size);
  need_runtime();
  status = allocate(address, size);
  if (!status) write_line("allocated by=%s address=%p size=%zu", __func__, *address, size);
  return leave(status);
}

EXPORT int cudaFree(void* address) {
  ENTER_ANYWAY("address=%p", address);
  return leave(either(status, release(address)));
}

EXPORT int cudaMallocHost(void** address, size_t size) {
  ENTER("size=%zu", size);
  *address = malloc(size);
  return leave(SUCCESS);
}

EXPORT int cudaFreeHost(void* address) {
  ENTER_ANYWAY("address=%p", address);
  free(address);
  return leave(either(status, SUCCESS));
}

EXPORT int cudaMemGetInfo(size_t* available, size_t* total) {
  ENTER("");
  *available = memory_limit - memory_used;
  *total = memory_limit;
  return leave(SUCCESS);
}

EXPORT int cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* stream) {
  ENTER("stream=%d to=%p from=%p size=%zu kind=%d", number_of(stream, STREAM), to, from, size, kind);
  need_runtime();
  Object* target;
  status = on_stream(stream, &target);
  if (!status) status = add_work(target, 1000);
  if (!status) memcpy(to, from, size);
  return leave(status);
}

EXPORT int cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                               size_t size, void* stream) {
  ENTER("stream=%d to=%d from=%d size=%zu", number_of(stream, STREAM), to_device, from_device, size);
  memcpy(to, from, size);
  return leave(SUCCESS);
}

EXPORT int cudaMemsetAsync(void* address, int value, size_t size, void* stream) {
  ENTER("stream=%d size=%zu", number_of(stream, STREAM), size);
  memset(address, value, size);
  return leave(SUCCESS);
}

EXPORT int cudaStreamCreate(void** stream) {
  ENTER("");
  need_runtime();
  return leave(create_stream(stream));
}

EXPORT int cudaStreamCreateWithFlags(void** stream, unsigned flags) {
  ENTER("flags=%u", flags);
  need_runtime();
  return leave(create_stream(stream));
}

EXPORT int cudaStreamDestroy(void* stream) {
  ENTER_ANYWAY("stream=%d", number_of(stream, STREAM));
  return leave(either(status, destroy(stream, STREAM)));
}

EXPORT int cudaStreamSynchronize(void* stream) {
  ENTER("stream=%d", number_of(stream, STREAM));
  need_runtime();
  return leave(synchronize(stream));
}

EXPORT int cudaStreamWaitEvent(void* stream, void* event, unsigned flags) {
  ENTER("stream=%d event=%d flags=%u", number_of(stream, STREAM), number_of(event, EVENT), flags);
  return leave(wait_on(stream, event));
}

EXPORT int cudaStreamBeginCapture(void* stream, int mode) {
  ENTER("stream=%d mode=%d", number_of(stream, STREAM), mode);
  Object* origin = find(stream, STREAM);
  return leave(origin ? begin_capture(origin) : INVALID_HANDLE);
}

EXPORT int cudaStreamEndCapture(void* stream, void** graph) {
  ENTER("stream=%d", number_of(stream, STREAM));
  Object *origin = find(stream, STREAM), *captured = NULL;
  status = origin ? end_capture(origin, &captured) : INVALID_HANDLE;
  *graph = captured;
  return leave(status);
}

EXPORT int cudaEventCreate(void** event) {
  ENTER("");
  need_runtime();
  return leave(create_event(event));
}

EXPORT int cudaEventDestroy(void* event) {
  ENTER_ANYWAY("event=%d", number_of(event, EVENT));
  return leave(either(status, destroy(event, EVENT)));
}

EXPORT int cudaEventRecord(void* event, void* stream) {
  ENTER("stream=%d event=%d", number_of(stream, STREAM), number_of(event, EVENT));
  return leave(record_on(event, stream));
}

EXPORT int cudaEventSynchronize(void* event) {
  ENTER("event=%d", number_of(event, EVENT));
  return leave(forbid_in_capture());
}

EXPORT int cudaEventElapsedTime(float* milliseconds, void* begin, void* end) {
  ENTER("begin=%d end=%d", number_of(begin, EVENT), number_of(end, EVENT));
  return leave(elapsed(milliseconds, begin, end));
}

EXPORT int cudaGraphInstantiate(void** executable, void* graph, unsigned long long flags) {
  return cuGraphInstantiateWithFlags(executable, graph, flags);
}

EXPORT int cudaGraphLaunch(void* executable, void* stream) {
  return cuGraphLaunch(executable, stream);
}

EXPORT int cudaGraphDestroy(void* graph) { return cuGraphDestroy(graph); }
EXPORT int cudaGraphExecDestroy(void* executable) { return cuGraphExecDestroy(executable); }
