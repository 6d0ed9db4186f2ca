/* The lane executor for a stock TVM RPC server: uploaded, loaded, and called as packed functions.
 *
 * lane_executor.c is in here as it is. Whatever holds a pointer is made on the device: the host
 * sends the images of plans, and programs as rows of int64, and gets addresses back, which it only
 * passes on. Times are the device's own.
 */
#include "lane_executor.c"

#include <dlfcn.h>
#include <sys/utsname.h>

#include "remote_lanes.h"

#define CPU_DEVICE 1
#define ENOUGH_NS 250000000 /* a timing that takes longer is extrapolated */
#define CPUINFO_BYTES 8192

enum { MEMORY = 0, A_PROGRAM = 1, A_PLAN = 2 }; /* what the host frees */

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

#define MOST_CPUS (16 * CPU_SETSIZE)
static int32_t cpus[MOST_CPUS];
static int32_t num_cpus;

/* When the library is loaded: later on TVM may have bound this thread to one core. */
__attribute__((constructor)) static void find_cpus(void) {
  cpu_set_t set[MOST_CPUS / CPU_SETSIZE];
  if (sched_getaffinity(0, sizeof set, set)) return;
  for (int32_t cpu = 0; cpu < MOST_CPUS; ++cpu)
    if (CPU_ISSET_S((size_t)cpu, sizeof set, set)) cpus[num_cpus++] = cpu;
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

/* (tensor): cores, bytes of a Launch, architecture, and the beginning of /proc/cpuinfo, by line. */
ENTRY(describe) {
  char text[CPUINFO_BYTES] = "";
  struct utsname names;
  uname(&names);
  size_t used = (size_t)snprintf(text, sizeof text, "%d\n%zu\n%s\n", usable_cores(), sizeof(Launch),
                                 names.machine);
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

/* ---- kernels ---- */

/* A symbol of the library, else a packed function of what it imports or of the registry. */
static int32_t find_kernel(void* library, const char* name, Launch* launch) {
  launch->kernel = (TVMKernel)dlsym(library, name);
  if (launch->kernel) return 0;
  void** context = dlsym(library, "__tvm_module_ctx");
  if (!context || !__TVMBackendGetFuncFromEnv || !__TVMFuncCall)
    return fail("there is no kernel named %s", name);
  tvm_ios_set_func_call(__TVMFuncCall);
  launch->kernel = tvm_ios_call_packed;
  return __TVMBackendGetFuncFromEnv(*context, name, &launch->resource);
}

static void* open_library(const char* path) {
  void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL); /* TVM has loaded it: the same handle */
  if (!library) return NULL;
  FTVMParallelLaunch* slot = dlsym(library, "__TVMBackendParallelLaunch");
  /* A library whose kernels open no parallel region has no slot. */
  if (slot && *slot != tvm_ios_parallel_launch) tvm_ios_hook(slot, *slot);
  return library;
}

/* (path, image of a plan, rows of the address of each buffer): the plan, with its kernels. */
ENTRY(plan) {
  const ByteArray* image = args[1].v_handle;
  Rows rows = rows_of(args[2]);
  void* library = open_library(args[0].v_handle);
  if (!library) return fail("the kernel library cannot be opened: %s", dlerror());
  Plan* plan = tvm_ios_plan_load(image->data, image->size, CPU_DEVICE, 0);
  if (!plan) return fail("%s", failed_text);
  /* Barriers inside regions: no launch may be split. */
  int serial = dlsym(library, "__TVMBackendParallelBarrier") != NULL;
  int32_t status = 0;
  for (int32_t i = 0; i < plan->image.header->num_buffers; ++i)
    tvm_ios_plan_place(plan, i, next_address(&rows));
  for (int32_t i = 0; i < plan->image.header->num_launches && !status; ++i) {
    Launch found = {0};
    status = find_kernel(library, plan->image.texts + plan->image.launches[i].kernel, &found);
    tvm_ios_plan_bind(plan, i, found.kernel, found.resource, serial);
  }
  if (!status) return give_int(result, code, (intptr_t)plan);
  tvm_ios_plan_free(plan);
  return status;
}

/* (plan): the address of its launches: as planned, and as many again that stay on one lane. */
ENTRY(launches) {
  return give_int(result, code, (intptr_t)tvm_ios_plan_launches((Plan*)(intptr_t)args[0].v_int64));
}

/* ---- lanes ---- */

/* (lanes, tasks of a region for each lane, nanoseconds a lane spins): a pool */
ENTRY(pool) {
  PoolOptions options = {(int32_t)args[0].v_int64, (int32_t)args[1].v_int64, args[2].v_int64, 0,
                         NULL, cpus, num_cpus};
  options.get_last_error = (const char* (*)(void))dlsym(RTLD_DEFAULT, "TVMGetLastError");
  Pool* pool = tvm_ios_pool_create(&options);
  if (!pool) return fail("no memory for a pool of %d lanes", options.lanes);
  return give_int(result, code, (intptr_t)pool);
}

/* (pool) */
ENTRY(close_pool) {
  tvm_ios_pool_free((Pool*)(intptr_t)args[0].v_int64);
  return 0;
}

/* (rows): a program. First the numbers of groups, launches, edges and homes; then the addresses of
 * the launches, and the arrays that tvm_ios_program_create takes. */
ENTRY(program) {
  Rows rows = rows_of(args[0]);
  int64_t groups = next_row(&rows), count = next_row(&rows), edges = next_row(&rows);
  int32_t num_homes = (int32_t)next_row(&rows);
  Launch** launches = malloc(((size_t)count + 1) * sizeof *launches);
  int32_t* numbers = malloc(sizeof(int32_t) * (size_t)(3 * groups + 3 + edges));
  Program* program = NULL;
  if (launches && numbers) {
    for (int64_t i = 0; i < count; ++i) launches[i] = next_address(&rows);
    int32_t* successor_rows = numbers + groups + 1;
    int32_t* homes = successor_rows + groups + 1;
    next_int32s(&rows, numbers, 2 * (groups + 1) + groups + edges);
    program = tvm_ios_program_create((int32_t)groups, launches, numbers, successor_rows,
                                     homes + groups, homes, num_homes, NULL);
  }
  free(launches);
  free(numbers);
  if (!program) return fail("no memory for a program of %lld groups", (long long)groups);
  return give_int(result, code, (intptr_t)program);
}

/* (plan, lanes): a program of all its groups */
ENTRY(plan_program) {
  const Plan* plan = (const Plan*)(intptr_t)args[0].v_int64;
  Program* program = tvm_ios_plan_program(plan, (int32_t)args[1].v_int64, 0, NULL);
  if (!program) return fail("no memory for a program of a plan");
  return give_int(result, code, (intptr_t)program);
}

/* (rows of kind, address): frees what allocate, plan and the programs' functions gave. */
ENTRY(free) {
  Rows rows = rows_of(args[0]);
  while (rows.left) {
    int64_t kind = next_row(&rows);
    void* address = next_address(&rows);
    if (kind == A_PROGRAM)
      tvm_ios_program_free(address);
    else if (kind == A_PLAN)
      tvm_ios_plan_free(address);
    else
      free(address);
  }
  return 0;
}

/* (pool, program, number): nanoseconds of as many runs; -1 - p where the launch at p failed. */
ENTRY(time) {
  int64_t elapsed_ns = 0, done = 0, number = args[2].v_int64;
  int status = tvm_ios_run((Pool*)(intptr_t)args[0].v_int64, (Program*)(intptr_t)args[1].v_int64,
                           number, ENOUGH_NS, 1, &elapsed_ns, &done);
  if (status == RUN_FAILED) return give_int(result, code, -1 - (int64_t)failed_position);
  if (status) return fail("the lanes cannot be started: raise the limit of threads (ulimit -u)");
  double scale = done > 0 ? (double)number / (double)done : 1;
  return give_int(result, code, done < number ? (int64_t)((double)elapsed_ns * scale) : elapsed_ns);
}

/* (tensor): why the last timing failed */
ENTRY(failure) {
  give_text(args[0], failed_text);
  return 0;
}

/* (pool, rounds): nanoseconds of one hand-off */
ENTRY(ping_pong) {
  if (tvm_ios_ping_pong((Pool*)(intptr_t)args[0].v_int64, (int32_t)args[1].v_int64,
                        &result->v_float64))
    return fail("the lanes cannot be started: raise the limit of threads (ulimit -u)");
  *code = TYPE_FLOAT;
  return 0;
}
