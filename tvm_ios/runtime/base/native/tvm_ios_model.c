/* The functions of tvm_ios.h: a plan that was exported, run by the executor in the same file. */
#define _GNU_SOURCE
#include "tvm_ios.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../../support/native/threads.h"
#include "lane_executor.h"
#include "library_calls.h"
#include "model_host.h"

#define CPU_DEVICE 1
#define FOOTER_MAGIC "tvm-ios artifact"
#define STORY_MARK "tvm-ios story"
#define IMAGE_MARK "tvm-ios image"
#define REST_MARK "tvm-ios rest."
#define PARAMETERS_MARK "tvm-ios param"
#define DIGEST_BYTES 32

/* ---- the model ---- */

typedef struct PartsProgram {
  int32_t parts; /* the bits of those that run */
  Program* program;
  struct PartsProgram* next;
} PartsProgram;

struct tvm_ios_model {
  Tvm tvm;
  const Executor* executor;
  Plan* plan;
  pthread_mutex_t lock;
  int is_ffi;    /* its kernels are those of TVM-FFI */
  int file;      /* descriptor of a copy of the exported file, in memory */
  char* content; /* the exported file */
  size_t size_bytes;
  void* module;
  void* library;
  int32_t lanes;
  Pool* pool;
  Program* program;
  PartsProgram* of_parts; /* programs of parts that have run */
  void* arena;           /* memory of activations, then of inputs and outputs */
  const char** parameters; /* values by input; NULL where it is no parameter */
  DLTensor** arrays;     /* arrays of TVM that these are of; with TVM-FFI the file has the values */
  void** packed;         /* kernel of each launch as a function of TVM; NULL where it is a symbol */
  void** resources;      /* what each call of an operator library is given */
  void (*close_calls)(void);
  void (*explain_call)(void* resource, char* text, size_t size);
  int32_t shape;          /* bit of the shape that runs; 0 where the model has only one */
  int32_t* caller_inputs; /* numbers of that shape's inputs that are no parameters */
  int32_t num_inputs;
  int32_t first_output; /* of that shape */
  int32_t num_outputs;
};

static int write_all(int to, const char* from, size_t size_bytes) {
  while (size_bytes) {
    ssize_t written = write(to, from, size_bytes);
    if (written < 0) return -1;
    from += written;
    size_bytes -= (size_t)written;
  }
  return 0;
}

/* The section of a file that ends at `end`, where its length and a mark follow it; NULL where there is
 * none, else `end` is where it begins. */
static const char* section(const char* content, size_t* end, const char* mark, size_t* size_bytes) {
  size_t tail = sizeof(uint32_t) + strlen(mark);
  uint32_t length;
  if (*end < tail || memcmp(content + *end - strlen(mark), mark, strlen(mark))) return NULL;
  memcpy(&length, content + *end - tail, sizeof length);
  if (length > *end - tail) return NULL;
  *end -= tail + length;
  *size_bytes = length;
  return content + *end;
}

/* A section that footer.py wrote behind the library; NULL where there is none. Before the identity of
 * the file come those of these marks, some of which may lack. */
static const char* find_section(const tvm_ios_model* model, const char* wanted,
                                size_t* size_bytes) {
  static const char* const marks[] = {STORY_MARK, IMAGE_MARK, REST_MARK, PARAMETERS_MARK};
  size_t end = model->size_bytes - strlen(FOOTER_MAGIC);
  if (end < DIGEST_BYTES) return NULL;
  end -= DIGEST_BYTES;
  if (!section(model->content, &end, "", size_bytes)) return NULL;
  for (size_t i = 0; i < sizeof marks / sizeof *marks; ++i) {
    const char* found = section(model->content, &end, marks[i], size_bytes);
    if (!strcmp(marks[i], wanted)) return found;
  }
  return NULL;
}

/* Whether kernels are those of TVM-FFI, by the plan's header; a damaged one is refused later. */
static int needs_ffi(const tvm_ios_model* model) {
  size_t size_bytes;
  PlanHeader header;
  const char* image = find_section(model, IMAGE_MARK, &size_bytes);
  if (!image || size_bytes < sizeof header) return 0;
  memcpy(&header, image, sizeof header); /* it may lie anywhere */
  return header.version == PLAN_IMAGE_VERSION && header.flags & IS_FFI;
}

static int find_host(tvm_ios_model* model) {
  model->is_ffi = needs_ffi(model);
  return model->is_ffi ? find_ffi(&model->tvm) : find_tvm(&model->tvm);
}

/* A copy of the file, so that nobody else has the same code loaded: kernels find TVM through
 * pointers in their own image, of which the loader keeps one for each file. */
static int copy_file(tvm_ios_model* model, const char* path) {
  struct stat facts;
  int from = open(path, O_RDONLY | O_CLOEXEC);
  if (from < 0 || fstat(from, &facts)) return fail("%s: cannot be read: %s", path, strerror(errno));
  size_t size = (size_t)facts.st_size, magic = strlen(FOOTER_MAGIC);
  char* content = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, from, 0) : MAP_FAILED;
  close(from);
  if (content != MAP_FAILED) model->content = content;
  model->size_bytes = size;
  /* A library that is cut off kills who loads it, so its last bytes are looked at first. */
  if (!model->content || size <= magic || memcmp(content + size - magic, FOOTER_MAGIC, magic))
    return fail("%s: %zu bytes without a tvm-ios footer at the end: it is truncated, stripped, "
                "or was not exported by tvm-ios; export the model again", path, size);
  model->file = memfd_create("tvm-ios model", MFD_CLOEXEC);
  if (model->file < 0 || write_all(model->file, content, size))
    return fail("%s: no memory for a copy of %zu bytes: %s", path, size, strerror(errno));
  return 0;
}

static int find_symbol(tvm_ios_model* model, const char* name, void** symbol) {
  *symbol = dlsym(model->library, name);
  return *symbol ? 0
                 : fail("there is no %s in the file: it was exported by another version of "
                        "tvm-ios; export the model again", name);
}

static int find_executor(tvm_ios_model* model) {
  const Executor* executor;
  if (find_symbol(model, "tvm_ios_executor", (void**)&executor)) return -1;
  if (executor->version != EXECUTOR_VERSION)
    return fail("the file was exported by another version of tvm-ios (executor %d), and this one "
                "reads executor %d; export the model again", executor->version, EXECUTOR_VERSION);
  model->executor = executor;
  return 0;
}

static int load_plan(tvm_ios_model* model) {
  size_t size_bytes;
  const char* image = find_section(model, IMAGE_MARK, &size_bytes);
  if (!image)
    return fail("there is no plan in the file: it was exported by another version of tvm-ios; "
                "export the model again");
  model->plan = model->executor->plan_load(image, size_bytes, CPU_DEVICE, 0);
  return model->plan ? 0 : fail("%s", model->executor->failed_text());
}

static const char* text_of(const tvm_ios_model* model, int32_t place) {
  return model->plan->image.texts + place;
}

/* Refuse a processor that lacks instruction sets of the kernels, which would end the process. */
static int require_processor(const char* features) {
  char line[8192], lacking[256] = "";
  FILE* file = fopen("/proc/cpuinfo", "r");
  int found = 0;
  while (file && !found && fgets(line, sizeof line, file))
    found = !strncmp(line, "flags", 5) || !strncmp(line, "Features", 8);
  if (file) fclose(file);
  if (!found) return 0;
  line[strcspn(line, "\n")] = ' ';
  char needed[1024], *rest = NULL;
  snprintf(needed, sizeof needed, "%s", features);
  for (char* word = strtok_r(needed, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
    char spaced[64];
    /* The spaces tell avx from avx2. */
    snprintf(spaced, sizeof spaced, " %s ", word);
    if (!strstr(line, spaced) && strlen(lacking) + strlen(spaced) < sizeof lacking)
      strcat(lacking, spaced);
  }
  if (!*lacking) return 0;
  return fail("its kernels use%s, which this processor lacks; export the model for a target of "
              "this machine", lacking);
}

/* Let a pointer of the library by which kernels call a function be that of another one. */
static void fill_slot(tvm_ios_model* model, const char* name, void* function) {
  void** slot = dlsym(model->library, name);
  if (slot) *slot = function;
}

/* Where TVM's module does not fill the slots, since there is none. */
static void fill_slots(tvm_ios_model* model) {
  fill_slot(model, "__TVMBackendAllocWorkspace", (void*)take_workspace);
  fill_slot(model, "__TVMBackendFreeWorkspace", (void*)give_workspace);
  fill_slot(model, "__TVMBackendParallelBarrier", (void*)pass_barrier);
  model->executor->set_ffi(model->tvm.take_error, model->tvm.release);
}

static int load_library(tvm_ios_model* model, const char* path) {
  char copy[64];
  snprintf(copy, sizeof copy, "/proc/self/fd/%d", model->file);
  /* TVM's module fills the slots for functions of TVM; a handle of our own gives symbols. The plan is
   * looked at before, and TVM not asked where C cannot run the model anyway. */
  model->library = dlopen(copy, RTLD_LAZY | RTLD_LOCAL);
  if (!model->library) return fail("%s: cannot be loaded: %s", path, dlerror());
  if (find_executor(model) || load_plan(model)) return -1;
  const PlanHeader* header = model->plan->image.header;
  if (require_processor(text_of(model, header->processor))) return -1;
  if (*text_of(model, header->refused))
    return fail("%s: %s; open it with tvm_ios.load in Python", path,
                text_of(model, header->refused));
  if (model->is_ffi)
    fill_slots(model);
  else if (model->tvm.load(copy, "so", &model->module))
    return tvm_failed(&model->tvm, path);
  FTVMParallelLaunch* slot = dlsym(model->library, "__TVMBackendParallelLaunch");
  if (slot) model->executor->hook(slot, model->tvm.parallel_launch);
  if (!model->is_ffi) model->executor->set_func_call(model->tvm.call);
  return 0;
}

/* ---- parameters ---- */

/* Call a function of TVM with a handle, and a text as well where one is given. */
static int call_with(const Tvm* tvm, void* function, void* object, const char* text,
                     TVMValue* result, int32_t* code) {
  TVMValue arguments[2] = {{.v_handle = object}, {.v_handle = (void*)text}};
  int32_t codes[2] = {CODE_OBJECT, CODE_STRING};
  return tvm->call(function, arguments, codes, object ? (text ? 2 : 1) : 0, result, code);
}

static const char* data_of(const DLTensor* array) {
  return (const char*)array->data + array->byte_offset;
}

static int take_parameters(tvm_ios_model* model, void* get_params, void* get_item) {
  const Tvm* tvm = &model->tvm;
  const PlanImage* image = &model->plan->image;
  TVMValue map;
  int32_t code = 0;
  if (call_with(tvm, get_params, NULL, NULL, &map, &code)) return tvm_failed(tvm, "parameters");
  int status = 0;
  for (int32_t i = 0; i < image->header->num_inputs && !status; ++i) {
    if (!image->inputs[i].is_parameter) continue;
    const char* name = text_of(model, image->inputs[i].name);
    TVMValue array;
    status = call_with(tvm, get_item, map.v_handle, name, &array, &code);
    if (status || code != CODE_ARRAY) {
      status = tvm_failed(tvm, name);
    } else {
      model->arrays[i] = array.v_handle;
      model->parameters[i] = data_of(array.v_handle);
    }
  }
  /* The arrays stay: each that was taken has a reference of its own. */
  tvm->free_object(map.v_handle);
  return status;
}

/* Parameters that the file has itself, one after another, each on a boundary of its own. */
static int map_parameters(tvm_ios_model* model) {
  const PlanImage* image = &model->plan->image;
  size_t size_bytes = 0, offset = 0;
  const char* values = find_section(model, PARAMETERS_MARK, &size_bytes);
  for (int32_t i = 0; i < image->header->num_inputs; ++i) {
    if (!image->inputs[i].is_parameter) continue;
    size_t bytes = (size_t)image->tensors[image->inputs[i].tensor].size_bytes;
    if (!values || bytes > size_bytes - offset)
      return fail("the file has no values of its parameter %s; export the model again",
                  text_of(model, image->inputs[i].name));
    model->parameters[i] = values + offset;
    offset += (bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    if (offset > size_bytes) offset = size_bytes;
  }
  return 0;
}

static int read_parameters(tvm_ios_model* model) {
  if (model->is_ffi) return map_parameters(model);
  const Tvm* tvm = &model->tvm;
  void *get_params = NULL, *get_item = NULL;
  if (tvm->get_function(model->module, "get_graph_params", 0, &get_params) || !get_params ||
      tvm->get_global("runtime.MapGetItem", &get_item) || !get_item)
    return tvm_failed(tvm, "the parameters of the file");
  int status = take_parameters(model, get_params, get_item);
  tvm->free_function(get_params);
  return status;
}

/* ---- memory ---- */

/* Give each buffer its memory: parameters lie where they are, all else in one block. */
static int place_buffers(tvm_ios_model* model) {
  Plan* plan = model->plan;
  const PlanImage* image = &plan->image;
  void** own = calloc((size_t)image->header->num_buffers + 1, sizeof *own);
  for (int32_t i = 0; own && i < image->header->num_inputs; ++i) {
    const char* values = model->parameters[i];
    /* Kernels assume alignment: a parameter that lies elsewhere is copied, below. */
    if (values && (uintptr_t)values % ALIGNMENT_BYTES == 0)
      own[image->tensors[image->inputs[i].tensor].buffer] = (void*)values;
  }
  size_t bytes = own ? model->executor->plan_place_all(plan, NULL, own) + ALIGNMENT_BYTES : 0;
  if (!own || posix_memalign(&model->arena, ALIGNMENT_BYTES, bytes)) {
    free(own);
    return fail("no memory for %zu bytes of tensors", bytes);
  }
  memset(model->arena, 0, bytes);
  model->executor->plan_place_all(plan, model->arena, own);
  free(own);
  for (int32_t i = 0; i < image->header->num_inputs; ++i) {
    const PlanTensor* tensor = &image->tensors[image->inputs[i].tensor];
    const char* values = model->parameters[i];
    if (values && plan->places[tensor->buffer] != values)
      memcpy(plan->places[tensor->buffer], values, (size_t)tensor->size_bytes);
  }
  return 0;
}

static int find_kernel(tvm_ios_model* model, int32_t number, TVMKernel* kernel, void** resource) {
  const PlanLaunch* launch = &model->plan->image.launches[number];
  const char* name = text_of(model, launch->call < 0 ? launch->kernel
                                                     : model->plan->image.header->call_function);
  if (model->is_ffi && launch->call < 0) {
    char symbol[1024];
    snprintf(symbol, sizeof symbol, FFI_PREFIX "%s", name);
    *resource = dlsym(model->library, symbol);
    *kernel = model->executor->call_ffi;
    return *resource ? 0 : fail("there is no kernel %s in the file; export the model again", name);
  }
  *kernel = (TVMKernel)dlsym(model->library, name);
  if (*kernel) return 0;
  /* A kernel that no symbol names, of an imported module, is a packed function. */
  if (model->tvm.get_function(model->module, name, 1, resource) || !*resource)
    return fail("there is no kernel %s in the file; export the model again", name);
  model->packed[number] = *resource;
  *kernel = model->executor->call_packed;
  return 0;
}

/* Make the calls of operator libraries ready, which compute in place of TVM's kernels. */
static int open_calls(tvm_ios_model* model) {
  if (!model->plan->image.header->num_call_words) return 0;
  int (*open)(const CallHost* host, const int64_t* data, void** resources, char* text, size_t size);
  CallHost host = {model->tvm.take_workspace, model->tvm.give_workspace,
                   model->executor->parallel_launch};
  char text[1024] = "";
  if (find_symbol(model, "tvm_ios_open_calls", (void**)&open) ||
      find_symbol(model, "tvm_ios_close_calls", (void**)&model->close_calls) ||
      find_symbol(model, "tvm_ios_explain_call", (void**)&model->explain_call))
    return -1;
  int status = open(&host, model->plan->image.call_words, model->resources, text, sizeof text);
  return status ? fail("%s", text) : 0;
}

static int bind_kernels(tvm_ios_model* model) {
  const PlanImage* image = &model->plan->image;
  int serial = dlsym(model->library, "__TVMBackendParallelBarrier") != NULL;
  for (int32_t i = 0; i < image->header->num_launches; ++i) {
    TVMKernel kernel;
    void* resource = NULL;
    int32_t call = image->launches[i].call;
    if (find_kernel(model, i, &kernel, &resource)) return -1;
    if (call >= 0) resource = model->resources[call];
    model->executor->plan_bind(model->plan, i, kernel, resource, serial);
  }
  return 0;
}

/* ---- lanes ---- */

static int make_program(tvm_ios_model* model, int32_t lanes) {
  const PlanHeader* header = model->plan->image.header;
  int32_t cores[MOST_CORES] = {0}, num_cores = own_cores(cores);
  if (!num_cores) num_cores = 1; /* they cannot be told */
  if (lanes < 0 || lanes > num_cores)
    return fail("lanes is %d, but this process may use %d cores; give 1 to %d, or 0", lanes,
                num_cores, num_cores);
  if (!lanes) lanes = header->lanes < num_cores ? header->lanes : num_cores;
  PoolOptions options = {.lanes = lanes,
                         .tasks_per_lane = header->tasks_per_lane,
                         .spin_ns = header->spin_ns,
                         .get_last_error =
                             model->is_ffi ? model->executor->ffi_error : model->tvm.last_error,
                         .cpus = cores,
                         .num_cpus = num_cores};
  model->lanes = lanes;
  model->pool = model->executor->pool_create(&options);
  if (model->pool) model->program = model->executor->plan_program(model->plan, 0, lanes, 0, NULL);
  return model->program ? 0 : fail("no memory for a program of %d groups", header->num_groups);
}

/* Take the shape of a number, with its inputs and outputs; a model in one shape has number 0. */
static void enter_shape(tvm_ios_model* model, int32_t number) {
  const PlanImage* image = &model->plan->image;
  int32_t of_shapes = image->header->flags & OF_SHAPES;
  model->shape = of_shapes ? 1 << number : 0;
  model->num_inputs = model->first_output = 0;
  for (int32_t i = 0; i < image->header->num_inputs; ++i)
    if (!image->inputs[i].is_parameter && (!of_shapes || image->inputs[i].parts & model->shape))
      model->caller_inputs[model->num_inputs++] = i;
  for (int32_t i = 0; i < number; ++i) model->first_output += image->parts[i].num_outputs;
  model->num_outputs = of_shapes ? image->parts[number].num_outputs : image->header->num_outputs;
}

static int allocate_tables(tvm_ios_model* model) {
  const PlanHeader* header = model->plan->image.header;
  model->parameters = calloc((size_t)header->num_inputs + 1, sizeof *model->parameters);
  model->arrays = calloc((size_t)header->num_inputs + 1, sizeof *model->arrays);
  model->caller_inputs = calloc((size_t)header->num_inputs + 1, sizeof *model->caller_inputs);
  model->packed = calloc((size_t)header->num_launches + 1, sizeof *model->packed);
  model->resources = calloc((size_t)header->num_calls + 1, sizeof *model->resources);
  if (!(model->parameters && model->arrays && model->caller_inputs && model->packed &&
        model->resources))
    return fail("no memory for %d launches", header->num_launches);
  enter_shape(model, 0);
  return 0;
}

static void free_model(tvm_ios_model* model) {
  /* The library goes last: the executor, and all that TVM's module made, is code of it. */
  if (model->program) model->executor->program_free(model->program);
  for (PartsProgram *each = model->of_parts, *next; each; each = next) {
    next = each->next;
    model->executor->program_free(each->program);
    free(each);
  }
  if (model->pool) model->executor->pool_free(model->pool);
  for (int32_t i = 0; model->packed && i < model->plan->image.header->num_launches; ++i)
    if (model->packed[i]) model->tvm.free_function(model->packed[i]);
  for (int32_t i = 0; model->arrays && i < model->plan->image.header->num_inputs; ++i)
    if (model->arrays[i]) model->tvm.free_array(model->arrays[i]);
  free(model->parameters);
  free(model->arrays);
  free(model->caller_inputs);
  if (model->close_calls) model->close_calls();
  if (model->plan) model->executor->plan_free(model->plan);
  free(model->packed);
  free(model->resources);
  free(model->arena);
  if (model->module) model->tvm.free_module(model->module);
  if (model->library) dlclose(model->library);
  if (model->file >= 0) close(model->file);
  if (model->content) munmap(model->content, model->size_bytes);
  pthread_mutex_destroy(&model->lock);
  free(model);
}

tvm_ios_model* tvm_ios_model_open(const char* path, int32_t lanes) {
  clear_error();
  tvm_ios_model* model = calloc(1, sizeof *model);
  if (!model) {
    fail("no memory for a model");
    return NULL;
  }
  model->file = -1;
  pthread_mutex_init(&model->lock, NULL);
  if (!path) {
    fail("path is NULL; give that of an exported file");
  } else if (!copy_file(model, path) && !find_host(model) && !load_library(model, path) &&
             !allocate_tables(model) && !open_calls(model) && !read_parameters(model) &&
             !place_buffers(model) && !bind_kernels(model) && !make_program(model, lanes)) {
    return model;
  }
  free_model(model);
  return NULL;
}

void tvm_ios_model_close(tvm_ios_model* model) {
  clear_error();
  if (model) free_model(model);
}

/* ---- inputs, runs, outputs ---- */

int32_t tvm_ios_model_num_inputs(const tvm_ios_model* model) {
  clear_error();
  return model->num_inputs;
}

int32_t tvm_ios_model_num_outputs(const tvm_ios_model* model) {
  clear_error();
  return model->num_outputs;
}

static const char* input_name(const tvm_ios_model* model, int32_t index) {
  return text_of(model, model->plan->image.inputs[model->caller_inputs[index]].name);
}

int32_t tvm_ios_model_find_input(const tvm_ios_model* model, const char* name) {
  clear_error();
  for (int32_t i = 0; i < model->num_inputs; ++i)
    if (!strcmp(input_name(model, i), name)) return i;
  return fail("there is no input named %s; there are %d", name, model->num_inputs);
}

/* Whether a name is that of output `place` of a part. */
static int names_output(const char* name, const char* part, int32_t place, int32_t outputs) {
  size_t length = strlen(part);
  char number[16] = "";
  if (outputs > 1) snprintf(number, sizeof number, "__%d", place);
  return !strncmp(name, part, length) && !strcmp(name + length, number);
}

int32_t tvm_ios_model_find_output(const tvm_ios_model* model, const char* name) {
  clear_error();
  const PlanImage* image = &model->plan->image;
  int32_t number = 0, models = model->shape ? 0 : image->header->num_parts;
  for (int32_t i = 0; i < models; ++i)
    for (int32_t place = 0; place < image->parts[i].num_outputs; ++place, ++number)
      if (names_output(name, text_of(model, image->parts[i].name), place,
                       image->parts[i].num_outputs))
        return number;
  return fail("there is no output named %s; only those of several models have names, and there are "
              "%d models", name, models);
}

static void give_tensor(tvm_ios_model* model, int32_t number, const char* name,
                        tvm_ios_tensor* tensor) {
  const PlanTensor* from = &model->plan->image.tensors[number];
  *tensor = (tvm_ios_tensor){.name = name,
                             .dtype = text_of(model, from->dtype),
                             .ndim = from->ndim,
                             .shape = model->plan->image.extents + from->extents,
                             .size_bytes = (size_t)from->size_bytes,
                             .data = model->plan->tensors[number].data};
}

int tvm_ios_model_input(tvm_ios_model* model, int32_t index, tvm_ios_tensor* tensor) {
  clear_error();
  if (index < 0 || index >= model->num_inputs)
    return fail("there is no input %d; there are %d", index, model->num_inputs);
  give_tensor(model, model->plan->image.inputs[model->caller_inputs[index]].tensor,
              input_name(model, index), tensor);
  return 0;
}

int tvm_ios_model_output(tvm_ios_model* model, int32_t index, tvm_ios_tensor* tensor) {
  clear_error();
  if (index < 0 || index >= model->num_outputs)
    return fail("there is no output %d; there are %d", index, model->num_outputs);
  give_tensor(model, model->plan->image.outputs[model->first_output + index], "", tensor);
  return 0;
}

static int require_size(const tvm_ios_tensor* tensor, const char* what, int32_t index,
                        size_t size_bytes) {
  if (size_bytes == tensor->size_bytes) return 0;
  return fail("%s %d has %zu bytes of %s, and %zu were given", what, index, tensor->size_bytes,
              tensor->dtype, size_bytes);
}

int tvm_ios_model_set_input(tvm_ios_model* model, int32_t index, const void* data,
                            size_t size_bytes) {
  tvm_ios_tensor tensor;
  if (tvm_ios_model_input(model, index, &tensor) ||
      require_size(&tensor, "input", index, size_bytes))
    return -1;
  pthread_mutex_lock(&model->lock);
  memcpy(tensor.data, data, size_bytes);
  pthread_mutex_unlock(&model->lock);
  return 0;
}

int tvm_ios_model_get_output(tvm_ios_model* model, int32_t index, void* data, size_t size_bytes) {
  tvm_ios_tensor tensor;
  if (tvm_ios_model_output(model, index, &tensor) ||
      require_size(&tensor, "output", index, size_bytes))
    return -1;
  pthread_mutex_lock(&model->lock);
  memcpy(data, tensor.data, size_bytes);
  pthread_mutex_unlock(&model->lock);
  return 0;
}

/* Say why a launch failed. An operator library has an error of its own; the one of TVM is then of
 * something that failed before. */
static void fail_in_launch(const tvm_ios_model* model, const PlanLaunch* launch) {
  char text[256] = "";
  if (launch->call >= 0) model->explain_call(model->resources[launch->call], text, sizeof text);
  fail("operator %s failed: %s; the model stays usable, mend its inputs",
       text_of(model, launch->operator_name), *text ? text : model->executor->failed_text());
}

/* The launch at a position of a run of some parts, of all where parts is 0. */
static const PlanLaunch* launch_at(const tvm_ios_model* model, int32_t parts, int32_t position) {
  const PlanImage* image = &model->plan->image;
  for (int32_t i = 0; i < image->header->num_groups; ++i) {
    if (parts && !(parts & image->groups[i].parts)) continue;
    int32_t count = image->rows[i + 1] - image->rows[i];
    if (position < count) return &image->launches[image->rows[i] + position];
    position -= count;
  }
  return NULL;
}

/* Run a program of some parts, whose bits are known; the lock is taken. */
static int run_program(tvm_ios_model* model, Program* program, int32_t parts) {
  int status = model->executor->run(model->pool, program, 1, 0, 0, NULL, NULL);
  if (status == RUN_FAILED) {
    fail_in_launch(model, launch_at(model, parts, model->executor->failed_position()));
  } else if (status) {
    fail("the lanes cannot be started: raise the limit of threads (ulimit -u) or use fewer lanes");
  }
  return status ? -1 : 0;
}

/* The bits of the parts of these names; -1 if one is unknown, or there is none. */
static int32_t parts_named(const tvm_ios_model* model, const char* const* names, int32_t count) {
  const PlanImage* image = &model->plan->image;
  int32_t parts = 0;
  for (int32_t i = 0; i < count; ++i) {
    int32_t at = 0, num_parts = image->header->num_parts;
    while (at < num_parts && strcmp(names[i], text_of(model, image->parts[at].name))) ++at;
    if (at == num_parts) return fail("there is no part named %s; there are %d", names[i], num_parts);
    parts |= 1 << at;
  }
  return parts ? parts : fail("%d parts were named; name one or more", count);
}

/* The program of some parts, made when it is first asked for; NULL without memory. */
static Program* program_of(tvm_ios_model* model, int32_t parts) {
  for (PartsProgram* each = model->of_parts; each; each = each->next)
    if (each->parts == parts) return each->program;
  PartsProgram* made = malloc(sizeof *made);
  Program* program = made ? model->executor->plan_program(model->plan, parts, model->lanes, 0, NULL)
                          : NULL;
  if (!program) {
    free(made);
    fail("no memory for a program of %d groups", model->plan->image.header->num_groups);
    return NULL;
  }
  *made = (PartsProgram){parts, program, model->of_parts};
  model->of_parts = made;
  return program;
}

int tvm_ios_model_run(tvm_ios_model* model) {
  clear_error();
  pthread_mutex_lock(&model->lock);
  Program* program = model->shape ? program_of(model, model->shape) : model->program;
  int status = program ? run_program(model, program, model->shape) : -1;
  pthread_mutex_unlock(&model->lock);
  return status;
}

int tvm_ios_model_run_parts(tvm_ios_model* model, const char* const* names, int32_t count) {
  clear_error();
  if (model->shape)
    return fail("the file has one model in several shapes; take one by tvm_ios_model_choose_shape, "
                "and run it by tvm_ios_model_run");
  int32_t parts = parts_named(model, names, count);
  if (parts < 0) return -1;
  if (!launch_at(model, parts, 0)) return 0; /* they compute nothing, and nobody would end the run */
  /* All of them run side by side, as they were scheduled. */
  if (parts == (int32_t)((1u << model->plan->image.header->num_parts) - 1))
    return tvm_ios_model_run(model);
  pthread_mutex_lock(&model->lock);
  Program* program = program_of(model, parts);
  int status = program ? run_program(model, program, parts) : -1;
  pthread_mutex_unlock(&model->lock);
  return status;
}

/* ---- shapes ---- */

/* Whether an input of a plan has a shape. */
static int has_shape(const PlanImage* image, const PlanInput* input, const tvm_ios_tensor* wanted) {
  const PlanTensor* tensor = &image->tensors[input->tensor];
  return tensor->ndim == wanted->ndim &&
         !memcmp(image->extents + tensor->extents, wanted->shape,
                 (size_t)wanted->ndim * sizeof *wanted->shape);
}

/* Whether inputs have these shapes in one of a model's shapes, by its number. */
static int fits(const tvm_ios_model* model, int32_t number, const tvm_ios_tensor* wanted,
                int32_t count) {
  const PlanImage* image = &model->plan->image;
  int32_t found = 0;
  for (int32_t i = 0; i < count * image->header->num_inputs; ++i) {
    const PlanInput* input = &image->inputs[i % image->header->num_inputs];
    const tvm_ios_tensor* each = &wanted[i / image->header->num_inputs];
    found += !input->is_parameter && (!model->shape || input->parts >> number & 1) &&
             !strcmp(text_of(model, input->name), each->name) && has_shape(image, input, each);
  }
  return found == count;
}

static int fail_to_fit(const tvm_ios_model* model) {
  const PlanImage* image = &model->plan->image;
  char there[1024] = "";
  for (int32_t i = 0; model->shape && i < image->header->num_parts; ++i) {
    size_t length = strlen(there);
    snprintf(there + length, sizeof there - length, "%s%s", i ? " or " : "",
             text_of(model, image->parts[i].name));
  }
  return fail("no shape of this model fits; it has %s", model->shape ? there : "one");
}

int tvm_ios_model_choose_shape(tvm_ios_model* model, const tvm_ios_tensor* inputs, int32_t count) {
  clear_error();
  int32_t shapes = model->shape ? model->plan->image.header->num_parts : 1, number = 0;
  for (int32_t i = 0; i < shapes; ++i)
    if (model->shape == 1 << i) number = i;
  /* Where several fit, the present one stays. */
  if (!fits(model, number, inputs, count)) {
    for (number = 0; number < shapes && !fits(model, number, inputs, count);) ++number;
    if (number == shapes) return fail_to_fit(model);
  }
  pthread_mutex_lock(&model->lock);
  enter_shape(model, number);
  pthread_mutex_unlock(&model->lock);
  return 0;
}
