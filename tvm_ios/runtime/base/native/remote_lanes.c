/* The lane executor for a stock TVM RPC server: uploaded, loaded, and called by address.
 *
 * lane_executor.c is in here as it is, and the host calls its functions, and those of any other
 * library that it uploads, as ctypes would. Whatever holds a pointer is made on the device; the host
 * gets addresses, which it only passes on. Times are the device's own.
 */
#include "lane_executor.c"

#include <dlfcn.h>
#include <sys/utsname.h>

#include "remote_lanes.h"

#define CPUINFO_BYTES 8192
#define MOST_ARGUMENTS 8

/* A kernel that hangs, or a host that is gone, ends this process, and the server goes on. The limit
 * of a call is processor time of its thread, which computes or spins all the while: a server that
 * is stopped for some time may go on. */
static int64_t call_limit_s = 60, idle_limit_s = 1800;

static void limit_call(int64_t seconds) {
  static timer_t timer;
  static int made;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  struct itimerspec limit = {.it_value = {.tv_sec = seconds}};
  if (!made && timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer)) return;
  made = 1;
  timer_settime(timer, 0, &limit, NULL);
}

/* A packed function that the host calls. */
#define ENTRY(name)                                                                       \
  static int32_t do_##name(TVMValue* args, TVMValue* result, int32_t* code);              \
  int32_t tvm_ios_remote_##name(TVMValue* args, int32_t* type_codes, int32_t num_args,    \
                                TVMValue* result, int32_t* code, void* resource) {        \
    alarm((unsigned)idle_limit_s);                                                        \
    limit_call(call_limit_s);                                                             \
    int32_t status = do_##name(args, result, code);                                       \
    limit_call(0);                                                                        \
    return status;                                                                        \
  }                                                                                       \
  static int32_t do_##name(TVMValue* args, TVMValue* result, int32_t* code)

/* ---- the device ---- */

static int32_t cpus[MOST_CORES];
static int32_t num_cpus;

/* When the library is loaded: later on TVM may have bound this thread to one core. */
__attribute__((constructor)) static void find_cpus(void) {
  num_cpus = own_cores(cpus);
}

static int read_numbers(const char* path, int wanted, double* first, double* second) {
  FILE* file = fopen(path, "r");
  if (!file) return 0;
  int found = fscanf(file, "%lf %lf", first, second);
  fclose(file);
  return found >= wanted;
}

/* The cores of this process, cut by the quota of its container; a part of a core counts nothing. */
static int32_t usable_cores(void) {
  double quota = 0, period = 0, unused;
  if (!read_numbers("/sys/fs/cgroup/cpu.max", 2, &quota, &period) &&
      !(read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", 1, &quota, &unused) &&
        read_numbers("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 1, &period, &unused)))
    return num_cpus;
  if (quota <= 0 || period <= 0 || quota / period >= num_cpus) return num_cpus;
  return quota < period ? 1 : (int32_t)(quota / period);
}

/* (tensor): cores, architecture, and the beginning of /proc/cpuinfo, by line. */
ENTRY(describe) {
  char text[CPUINFO_BYTES] = "";
  struct utsname names;
  uname(&names);
  size_t used =
      (size_t)snprintf(text, sizeof text, "%d\n%s\n", usable_cores(), names.machine);
  FILE* file = fopen("/proc/cpuinfo", "r");
  if (file) {
    used += fread(text + used, 1, sizeof text - 1 - used, file);
    fclose(file);
  }
  text[used] = 0;
  give_text(args[0], text);
  return 0;
}

/* (seconds of a call, seconds until the next one begins): after these the process ends. */
ENTRY(limits) {
  call_limit_s = args[0].v_int64;
  idle_limit_s = args[1].v_int64;
  alarm((unsigned)idle_limit_s);
  return 0;
}

/* ---- memory ---- */

/* (bytes): the address of as many, zeroed. */
ENTRY(allocate) {
  size_t bytes = (size_t)args[0].v_int64;
  void* memory = NULL;
  if (posix_memalign(&memory, TENSOR_ALIGNMENT, bytes ? bytes : 1))
    return fail("no memory for %zu bytes", bytes);
  memset(memory, 0, bytes);
  return give_int(result, code, (intptr_t)memory);
}

/* (address, bytes) */
ENTRY(write) {
  const ByteArray* bytes = args[1].v_handle;
  memcpy((void*)(intptr_t)args[0].v_int64, bytes->data, bytes->size);
  return 0;
}

/* (address, tensor of bytes that receives them) */
ENTRY(read) {
  const DLTensor* into = args[1].v_handle;
  memcpy((char*)into->data + into->byte_offset, (void*)(intptr_t)args[0].v_int64,
         (size_t)into->shape[0]);
  return 0;
}

/* (rows of address, count, bits, centre, half width): floats spread evenly over 129 steps. */
ENTRY(fill) {
  Rows rows = rows_of(args[0]);
  uint64_t random = 0x9E3779B97F4A7C15ull;
  while (rows.left) {
    void* address = next_address(&rows);
    int64_t count = next_row(&rows), bits = next_row(&rows);
    double centre = next_double(&rows), step = next_double(&rows) / 64;
    for (int64_t i = 0; i < count; ++i) {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      double value = centre + step * (double)((int64_t)((random >> 32) % 129) - 64);
      if (bits == 64)
        ((double*)address)[i] = value;
      else
        ((float*)address)[i] = (float)value;
    }
  }
  return 0;
}

/* ---- functions ---- */

static void* open_library(const char* path) {
  /* TVM has loaded it: the same handle. Without a path, all that every library of the process sees. */
  void* library = dlopen(*path ? path : NULL, RTLD_LAZY | RTLD_LOCAL);
  if (!library) return NULL;
  FTVMParallelLaunch* slot = *path ? dlsym(library, "__TVMBackendParallelLaunch") : NULL;
  /* A library whose kernels open no parallel region has no slot. */
  if (slot && *slot != tvm_ios_parallel_launch) tvm_ios_hook(slot, *slot);
  return library;
}

/* (path, name): the address of a function; 0 where there is none. */
ENTRY(find) {
  void* library = open_library(args[0].v_handle);
  if (!library) return fail("the library cannot be opened: %s", dlerror());
  return give_int(result, code, (intptr_t)dlsym(library, args[1].v_handle));
}

typedef int64_t (*Function)(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);

/* (function, rows of its arguments, bytes, tensor or None): what the function returns. A row says
 * whether the argument is a place among the bytes, which lie in memory during the call; the tensor
 * receives them afterwards. Integers and pointers go where int64 does on every processor here. */
ENTRY(invoke) {
  Rows rows = rows_of(args[1]);
  const ByteArray* bytes = args[2].v_handle;
  const DLTensor* into = args[3].v_handle;
  int64_t given[MOST_ARGUMENTS] = {0};
  char* lent = malloc(bytes->size + 1);
  if (!lent) return fail("no memory for %zu bytes", bytes->size);
  memcpy(lent, bytes->data, bytes->size);
  for (int i = 0; i < MOST_ARGUMENTS && rows.left; ++i) {
    int is_place = next_row(&rows) != 0;
    given[i] = next_row(&rows) + (is_place ? (intptr_t)lent : 0);
  }
  Function function = (Function)(intptr_t)args[0].v_int64;
  int64_t value = function(given[0], given[1], given[2], given[3], given[4], given[5], given[6],
                           given[7]);
  if (into) memcpy((char*)into->data + into->byte_offset, lent, (size_t)into->shape[0]);
  free(lent);
  return give_int(result, code, value);
}

/* (rows of function, address): calls each with its address, to free what lies there. */
ENTRY(free) {
  Rows rows = rows_of(args[0]);
  while (rows.left) {
    void (*function)(void*) = (void (*)(void*))next_address(&rows);
    function(next_address(&rows));
  }
  return 0;
}

/* (address, tensor): the text there */
ENTRY(text) {
  give_text(args[1], (const char*)(intptr_t)args[0].v_int64);
  return 0;
}

/* ---- kernels and lanes ---- */

/* (path, name): a packed function of what the library imports, or of the registry. */
ENTRY(packed) {
  void *library = open_library(args[0].v_handle), *function = NULL;
  void** context = library ? dlsym(library, "__tvm_module_ctx") : NULL;
  if (!context || !__TVMBackendGetFuncFromEnv || !__TVMFuncCall)
    return fail("there is no kernel named %s", (const char*)args[1].v_handle);
  tvm_ios_set_func_call(__TVMFuncCall);
  int32_t status = __TVMBackendGetFuncFromEnv(*context, args[1].v_handle, &function);
  return status ? status : give_int(result, code, (intptr_t)function);
}

/* (lanes, tasks of a region for each lane, nanoseconds a lane spins): a pool */
ENTRY(pool) {
  PoolOptions options = {(int32_t)args[0].v_int64, (int32_t)args[1].v_int64, args[2].v_int64, 0,
                         NULL, cpus, num_cpus};
  options.get_last_error = (const char* (*)(void))dlsym(RTLD_DEFAULT, "TVMGetLastError");
  return give_int(result, code, (intptr_t)tvm_ios_pool_create(&options));
}
