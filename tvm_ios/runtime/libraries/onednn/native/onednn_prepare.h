/* Makes calls ready: primitives of the whole and of each part, and reorders where oneDNN's code
 * wants other formats.
 *
 * Reference code is refused: TVM's kernel is faster then. Where oneDNN's code gets bias and steps
 * wrong, other primitives compute them after the main one. The first failure stays in the maker,
 * and nothing more is asked of oneDNN then. */
#ifndef TVM_IOS_ONEDNN_PREPARE_H_
#define TVM_IOS_ONEDNN_PREPARE_H_

#include <string.h>

#include "onednn_call.h"

#define LINE_BYTES 64
/* Rows of a product from which on a copy of the weights pays: 16 are too few. */
#define ROWS_WORTH_A_COPY 32
#define MOST_OPERANDS (MOST_STEPS + 4)

enum { ANY = 1, FORMAT_OF_ONE = 2, FORWARD_INFERENCE = 96 };
enum { BYTE = 5, UNSIGNED_BYTE = 6, WHOLE = 4 }; /* of dnnl_data_type_t: s8, u8, s32 */
enum { USER_SCRATCHPAD = 1, STRICT = 0, IN_ORDER = 1 };
enum { QUERY_NAME = 8, QUERY_SOURCE = 129, QUERY_WEIGHTS = 131, QUERY_TARGET = 133,
       QUERY_SCRATCHPAD = 136, QUERY_ARGUMENT = 255 };
enum { SOURCE = 1, SECOND_SOURCE = 2, TARGET = 17, WEIGHTS = 33, BIAS = 41, SCRATCHPAD = 80,
       ZERO_POINTS = 8192, STEP = 32768 }; /* numbers of arguments; a step's has its place in it */
enum { OUT_OF_MEMORY = 1, INVALID = 2, UNIMPLEMENTED = 3 }; /* of dnnl_status_t */

typedef struct { /* of a primitive */
  int number;
  const void* descriptor;
  Place place;
} Argument;

typedef struct {
  const TensorData* tensor;
  Argument lies, plain, inner; /* in the launch, unpacked, and as the main primitive has it */
  int type;                    /* of the latter */
  int moved;                   /* from plain to inner, or back */
} Operand;

typedef struct { /* what one main primitive computes */
  const CallData* call;
  const PartData* data;
  Operand operands[MOST_OPERANDS];
  const StepData* steps;
  int num_operands, num_steps;
  void* described;
  const char* code; /* oneDNN's name of it */
} Subject;

typedef struct {
  const Onednn* onednn;
  OnednnPart* part;
  Made *lasting, *passing; /* the latter goes when the call is ready */
  const char* failed;      /* function; NULL: there is no fast code */
  int status;
} Maker;

/* ---- what is made, and what fails ---- */

#define CALL(maker, function, ...) \
  ((maker)->status ? -1 : note(maker, "dnnl_" #function, (maker)->onednn->function(__VA_ARGS__)))

/* What a function makes, in a list of the maker; NULL where that fails. */
#define NEW(maker, list, noun, function, ...)                            \
  ({                                                                     \
    void* made_ = NULL;                                                  \
    CALL(maker, function, &made_, ##__VA_ARGS__);                        \
    keep(maker, &(maker)->list, made_, (maker)->onednn->noun##_destroy); \
  })

#define DESCRIBE(maker, noun, ...)                                                           \
  NEW(maker, passing, primitive_desc, noun##_primitive_desc_create, (maker)->onednn->engine, \
      __VA_ARGS__)

static int note(Maker* maker, const char* failed, int status) {
  if (!status || maker->status) return status;
  maker->failed = failed;
  return maker->status = status;
}

/* Some of its code calls arguments invalid that are right, and that it has no way to compute. */
static int is_refusal(const Maker* maker) {
  return maker->status == UNIMPLEMENTED ||
         (maker->status == INVALID && strstr(maker->failed, "primitive_desc_create"));
}

static int release(void* memory) {
  free(memory);
  return 0;
}

static void drop(Made** list) {
  for (Made* each; (each = *list); free(each)) {
    *list = each->before;
    each->destroy(each->object);
  }
}

static void* keep(Maker* maker, Made** list, void* object, int (*destroy)(void*)) {
  if (!object) return NULL;
  Made* made = malloc(sizeof *made);
  if (!made) {
    note(maker, "malloc", OUT_OF_MEMORY);
    destroy(object);
    return NULL;
  }
  *made = (Made){*list, object, destroy};
  *list = made;
  return object;
}

static void* take_table(Maker* maker, size_t count, size_t size_bytes) {
  void* memory = calloc(count, size_bytes);
  if (!memory) note(maker, "malloc", OUT_OF_MEMORY);
  return keep(maker, &maker->lasting, memory, release);
}

/* Offset of a piece of workspace or of memory for constants. */
static Place take(Maker* maker, int64_t position, const void* descriptor) {
  OnednnPart* part = maker->part;
  int64_t* size = position == CONSTANTS ? &part->constant_bytes : &part->workspace_bytes;
  Place taken = {position, *size};
  size_t size_bytes = maker->onednn->memory_desc_get_size(descriptor);
  *size += (size_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
  return taken;
}

/* ---- descriptors ---- */

/* A tensor of a format; without one, the strides say how it lies. */
static void* describe(Maker* maker, int type, int axes, const int64_t* extents, int format,
                      const int64_t* strides) {
  if (format)
    return NEW(maker, passing, memory_desc, memory_desc_create_with_tag, axes, extents, type,
               format);
  return NEW(maker, passing, memory_desc, memory_desc_create_with_strides, axes, extents, type,
             strides);
}

static void* describe_tensor(Maker* maker, const TensorData* tensor, int type) {
  return describe(maker, type, tensor->axes, tensor->extents, tensor->format, tensor->strides);
}

static void* describe_attributes(Maker* maker) {
  void* made = NEW(maker, passing, primitive_attr, primitive_attr_create);
  /* With scratchpads of oneDNN's own, primitives are not safe to run on several threads. */
  CALL(maker, primitive_attr_set_scratchpad_mode, made, USER_SCRATCHPAD);
  return made;
}

static const void* descriptor_of(const Subject* subject, int number) {
  for (int i = 0; i < subject->num_operands; ++i)
    if (subject->operands[i].lies.number == number) return subject->operands[i].inner.descriptor;
  return NULL;
}

static int operand_number(int place, const StepData* step) {
  return STEP * (place + 1) | (step->kind == SLOPES ? WEIGHTS : SECOND_SOURCE);
}

static void* describe_steps(Maker* maker, const Subject* subject) {
  void* made = NEW(maker, passing, post_ops, post_ops_create);
  for (int i = 0; i < subject->num_steps; ++i) {
    const StepData* step = &subject->steps[i];
    const void* operand = descriptor_of(subject, operand_number(i, step));
    if (step->kind == SLOPES)
      CALL(maker, post_ops_append_prelu, made, step->axes);
    else if (operand)
      CALL(maker, post_ops_append_binary, made, step->kind, operand);
    else
      CALL(maker, post_ops_append_eltwise, made, step->kind, step->alpha, step->beta);
  }
  void* attributes = describe_attributes(maker);
  /* Else ONEDNN_DEFAULT_FPMATH_MODE may have products rounded to bfloat16. */
  CALL(maker, primitive_attr_set_fpmath_mode, attributes, STRICT);
  CALL(maker, primitive_attr_set_post_ops, attributes, made);
  for (int i = 0; subject->call && i < ZEROS; ++i)
    if (subject->call->zero_points[i])
      CALL(maker, primitive_attr_set_zero_points_mask, attributes, i ? WEIGHTS : SOURCE, 0);
  return attributes;
}

static int has_word(const char* name, const char* word, const char* between) {
  size_t size = strlen(word);
  for (const char* at = name; (at = strstr(at, word)); at += size)
    if ((at == name || strchr(between, at[-1])) && strchr(between, at[size])) return 1;
  return 0;
}

/* The name of the code; NULL where it is reference code. */
static const char* fast_code(Maker* maker, const void* described) {
  const char* name = NULL;
  CALL(maker, primitive_desc_query, described, QUERY_NAME, 0, &name);
  return name && !has_word(name, "ref", ":_") ? name : NULL;
}

/* ---- the main primitive ---- */

static int is_byte(int type) { return type == BYTE || type == UNSIGNED_BYTE; }

/* The type that the main primitive has an operand in: data of products and convolutions have that
 * of the weights, and all others of one with its result. */
static int inner_type(const Subject* subject, const TensorData* tensor, int number) {
  if (number != SOURCE || !subject->data || is_byte(tensor->type)) return tensor->type;
  const PartData* data = subject->data;
  return data->weight.axes ? data->weight.type : data->result.type;
}

static void add_operand(Maker* maker, Subject* subject, const TensorData* tensor, int number) {
  if (!tensor->axes) return;
  int type = inner_type(subject, tensor, number);
  void* lies = describe_tensor(maker, tensor, tensor->type);
  Argument argument = {number, lies, {tensor->position, tensor->offset}};
  Operand* added = &subject->operands[subject->num_operands++];
  *added = (Operand){tensor, argument, .inner = argument, .type = type};
  if (type != tensor->type) added->inner.descriptor = describe_tensor(maker, tensor, type);
}

static void add_steps(Maker* maker, Subject* subject, const StepData* steps, int count) {
  subject->steps = steps;
  subject->num_steps = count;
  for (int i = 0; i < count; ++i)
    add_operand(maker, subject, &steps[i].operand, operand_number(i, &steps[i]));
}

static void* describe_main(Maker* maker, const Subject* subject, const void* attributes) {
  const PartData* data = subject->data;
  const void *source = descriptor_of(subject, SOURCE), *weights = descriptor_of(subject, WEIGHTS),
             *bias = descriptor_of(subject, BIAS), *target = descriptor_of(subject, TARGET);
  int how = subject->call->primitive;
  if (how == PRODUCT) return DESCRIBE(maker, matmul, source, weights, bias, target, attributes);
  if (how == CONVOLUTION)
    return DESCRIBE(maker, convolution_forward, FORWARD_INFERENCE, how, source, weights, bias,
                    target, data->strides, data->dilation, data->begins, data->ends, attributes);
  if (how == TRANSPOSED)
    return DESCRIBE(maker, deconvolution_forward, FORWARD_INFERENCE, how, source, weights, bias,
                    target, data->strides, data->dilation, data->begins, data->ends, attributes);
  if (how == SOFTMAX)
    return DESCRIBE(maker, softmax_forward, FORWARD_INFERENCE, how, source, target,
                    data->data.axes - 1, attributes);
  return DESCRIBE(maker, pooling_forward, FORWARD_INFERENCE, how, source, target, data->strides,
                  data->kernel, data->dilation, data->begins, data->ends, attributes);
}

/* Formats that oneDNN may choose, the fewest first: each costs a reorder in every run, but that of
 * constant weights, which are tried first. */
enum { FREE_SOURCE = 1, FREE_WEIGHTS = 2, FREE_INPUTS = 3, FREE_TARGET = 4, FREE_ALL = 7 };
#define NUM_CHOICES 4
static const int choices[2][NUM_CHOICES] = {{0, FREE_WEIGHTS, FREE_INPUTS, FREE_ALL},
                                            {FREE_WEIGHTS, 0, FREE_INPUTS, FREE_ALL}};

/* The query that tells an operand's own format where oneDNN may choose it; 0: it may not. */
static int query_of(const Subject* subject, const Operand* operand, int free) {
  const TensorData* result = &subject->data->result;
  int number = operand->lies.number;
  if (number == SOURCE) return free & FREE_SOURCE ? QUERY_SOURCE : 0;
  if (number == WEIGHTS) return free & FREE_WEIGHTS ? QUERY_WEIGHTS : 0;
  /* oneDNN's fast code reads an operand of the result's extents as the result lies. */
  int alike = !memcmp(operand->tensor->extents, result->extents, sizeof result->extents);
  return alike && number != BIAS && free & FREE_TARGET ? QUERY_TARGET : 0;
}

/* True if there is fast code with some formats free; the subject has it then. */
static int describe_with(Maker* maker, Subject* subject, int free) {
  Operand *operands = subject->operands, *end = operands + subject->num_operands;
  for (Operand* each = operands; each < end; ++each) {
    int query = query_of(subject, each, free);
    if (!query) continue;
    /* What lies as the result does has its type, too: the descriptor asked for below is one. */
    int others = query == QUERY_TARGET && !is_byte(each->type);
    int type = others ? subject->data->result.type : each->type;
    each->inner.descriptor =
        describe(maker, type, each->tensor->axes, each->tensor->extents, ANY, NULL);
  }
  subject->described = describe_main(maker, subject, describe_steps(maker, subject));
  if (is_refusal(maker)) maker->status = 0;
  if (!subject->described) return 0;
  subject->code = fast_code(maker, subject->described);
  for (Operand* each = operands; each < end; ++each) {
    int query = query_of(subject, each, free), index = 0;
    if (!query) continue;
    /* The result may be of another type than bytes that lie as it does. */
    if (query == QUERY_TARGET && is_byte(each->type))
      query = QUERY_ARGUMENT, index = each->lies.number;
    each->inner.descriptor =
        maker->onednn->primitive_desc_query_md(subject->described, query, index);
  }
  return subject->code != NULL;
}

/* True if a plain product of matrices copies more than code that reads in blocks. It copies the
 * windows of a convolution, and the weights of any call in every run; a product needs enough rows
 * to pay for that. Then it is faster, most of all where columns lie apart: other code writes them
 * together, and a reorder spreads them (note 22 of docs/adr). */
static int copies_too_much(const Subject* subject) {
  if (!has_word(subject->code, "gemm", ":")) return 0; /* its place differs: x64:gemm:jit */
  const TensorData* result = &subject->data->result;
  int64_t rows = 1;
  for (int i = 0; i < result->axes - 1; ++i) rows *= result->extents[i];
  return subject->call->primitive != PRODUCT || rows < ROWS_WORTH_A_COPY;
}

/* Find the fastest kind of code there is, with the fewest reorders. */
static void choose_code(Maker* maker, Subject* subject) {
  const int* free = choices[subject->data->weight.constant != 0];
  Subject chosen = {0};
  for (int i = 0; i < NUM_CHOICES && !maker->status; ++i) {
    Subject tried = *subject;
    if (!describe_with(maker, &tried, free[i])) continue;
    int last = !copies_too_much(&tried);
    if (last || !chosen.code) chosen = tried;
    if (last) break;
  }
  *subject = chosen;
  if (!chosen.code) note(maker, NULL, UNIMPLEMENTED);
}

/* True if bias and steps may be computed of partial sums, which is wrong. oneDNN 3.2's code for
 * transposed convolutions with strides does so where the weights of a block of output channels
 * outgrow the L2 cache. Kernels of two by two with strides of two, which sum nothing up twice, were
 * right at any size. */
static int takes_steps_early(const Subject* subject) {
  const PartData* data = subject->data;
  const int64_t *kernel = &data->weight.extents[2], *strides = data->strides;
  int convolves = subject->call->primitive == CONVOLUTION || subject->call->primitive == TRANSPOSED;
  if (!convolves || !strstr(subject->code, "brgconv_strided")) return 0;
  int twos = kernel[0] == 2 && kernel[1] == 2 && strides[0] == 2 && strides[1] == 2;
  return !(twos && data->weight.axes == 4) && (data->bias.axes || subject->num_steps);
}

/* ---- primitives and their arguments ---- */

/* The arguments have room for one more: the scratchpad. */
static void add_primitive(Maker* maker, const void* described, Argument* arguments, int count) {
  const Onednn* onednn = maker->onednn;
  if (maker->status) return;
  const void* scratchpad = onednn->primitive_desc_query_md(described, QUERY_SCRATCHPAD, 0);
  if (scratchpad && onednn->memory_desc_get_size(scratchpad))
    arguments[count++] = (Argument){SCRATCHPAD, scratchpad, take(maker, WORKSPACE, scratchpad)};
  OnednnPrimitive* added = &maker->part->primitives[maker->part->count++];
  added->arguments = take_table(maker, count, sizeof *added->arguments + sizeof *added->places);
  added->places = (Place*)(added->arguments + count);
  for (int i = 0; i < count && !maker->status; ++i) {
    void* memory =
        NEW(maker, lasting, memory, memory_create, arguments[i].descriptor, onednn->engine, NULL);
    added->arguments[i] = (ExecutedArgument){arguments[i].number, memory};
    added->places[i] = arguments[i].place;
  }
  added->count = count;
  added->primitive = NEW(maker, lasting, primitive, primitive_create, described);
}

static void add_reorder(Maker* maker, Argument from, Argument to) {
  void* engine = maker->onednn->engine;
  from.number = SOURCE;
  to.number = TARGET;
  void* described = NEW(maker, passing, primitive_desc, reorder_primitive_desc_create,
                        from.descriptor, engine, to.descriptor, engine, describe_attributes(maker));
  add_primitive(maker, described, (Argument[3]){from, to}, 2);
}

/* A packed matrix and its rows, both as blocks, rows and columns of a block: a matrix has two axes
 * and oneDNN no format for it; three axes have strides. */
static void unpack(Maker* maker, const TensorData* tensor, Argument packed, Argument plain) {
  int64_t rows = tensor->extents[0], columns = tensor->extents[1], block = tensor->columns;
  int64_t extents[] = {columns / block, rows, block};
  int64_t in_blocks[] = {rows * block, block, 1}, in_rows[] = {block, columns, 1};
  packed.descriptor = describe(maker, tensor->type, 3, extents, 0, in_blocks);
  plain.descriptor = describe(maker, tensor->type, 3, extents, 0, in_rows);
  add_reorder(maker, packed, plain);
}

/* Find out where an operand lies unpacked, and in the format of the main primitive. */
static void place(Maker* maker, Operand* operand) {
  int64_t kept = operand->tensor->constant ? CONSTANTS : WORKSPACE;
  const void* lies = operand->lies.descriptor;
  operand->moved = !maker->onednn->memory_desc_equal(lies, operand->inner.descriptor);
  operand->plain = operand->lies;
  if (operand->tensor->columns)
    operand->plain.place = take(maker, operand->moved ? WORKSPACE : kept, lies);
  if (operand->moved) operand->inner.place = take(maker, kept, operand->inner.descriptor);
  else operand->inner = operand->plain;
}

/* Bring constant or other operands into the format of the main primitive. */
static void add_reorders(Maker* maker, const Subject* subject, int constant) {
  for (int i = 0; i < subject->num_operands; ++i) {
    const Operand* each = &subject->operands[i];
    if (each->lies.number == TARGET || (each->tensor->constant != 0) != constant) continue;
    if (each->tensor->columns) unpack(maker, each->tensor, each->lies, each->plain);
    if (each->moved) add_reorder(maker, each->plain, each->inner);
  }
}

/* The whole number that stands for 0 in data or weights, which goes with the call. */
static Argument zero_point(Maker* maker, int i) {
  const void* described = describe(maker, WHOLE, 1, (const int64_t[]){1}, FORMAT_OF_ONE, NULL);
  Place place = {ZERO_POINT, i * (int64_t)sizeof(int32_t)};
  return (Argument){ZERO_POINTS | (i ? WEIGHTS : SOURCE), described, place};
}

static void assemble(Maker* maker, Subject* subject) {
  Argument arguments[MOST_OPERANDS + 1 + ZEROS];
  if (maker->status) return;
  for (int i = 0; i < subject->num_operands; ++i) {
    place(maker, &subject->operands[i]);
    arguments[i] = subject->operands[i].inner;
  }
  add_reorders(maker, subject, 1);
  maker->part->once = maker->part->count;
  add_reorders(maker, subject, 0);
  int count = subject->num_operands;
  for (int i = 0; i < ZEROS; ++i)
    if (subject->call->zero_points[i]) arguments[count++] = zero_point(maker, i);
  add_primitive(maker, subject->described, arguments, count);
  const Operand* result = &subject->operands[subject->num_operands - 1];
  if (result->moved) add_reorder(maker, result->inner, result->lies);
}

/* Add a primitive that does steps to the result, in place: the first one, and others after it. */
static void add_pass(Maker* maker, const StepData* step, int count, Argument result) {
  Subject pass = {0};
  add_steps(maker, &pass, step + 1, count - 1);
  add_operand(maker, &pass, &step->operand, SECOND_SOURCE);
  Argument arguments[MOST_OPERANDS + 3] = {result, result};
  arguments[0].number = SOURCE;
  for (int i = 0; i < pass.num_operands; ++i) arguments[2 + i] = pass.operands[i].lies;
  const void *lies = result.descriptor, *second = descriptor_of(&pass, SECOND_SOURCE);
  void *described = NULL, *others = describe_steps(maker, &pass);
  if (!second)
    described = DESCRIBE(maker, eltwise_forward, FORWARD_INFERENCE, step->kind, lies, lies,
                         step->alpha, step->beta, others);
  else if (step->kind != SLOPES)
    described = DESCRIBE(maker, binary, step->kind, lies, second, lies, others);
  if (!described || !fast_code(maker, described)) note(maker, NULL, UNIMPLEMENTED);
  add_primitive(maker, described, arguments, 2 + pass.num_operands);
}

/* oneDNN's fast code takes further steps with a sum or product, but not with a function. */
static void add_passes(Maker* maker, const CallData* call, const PartData* data) {
  Subject result = {.data = data};
  add_operand(maker, &result, &data->result, TARGET);
  for (int first = 0, count; first < call->steps && !maker->status; first += count) {
    const StepData* step = steps_of(data) + first;
    count = step->kind >= FIRST_BINARY ? call->steps - first : 1;
    add_pass(maker, step, count, result.operands[0].lies);
  }
}

/* ---- parts and calls ---- */

static Subject subject_of(Maker* maker, const CallData* call, const PartData* data, int bare) {
  int biased = data->bias.axes != 0;
  Subject subject = {.call = call, .data = data};
  add_operand(maker, &subject, &data->data, SOURCE);
  add_operand(maker, &subject, &data->weight, WEIGHTS);
  if (!bare) {
    add_operand(maker, &subject, &data->bias, BIAS);
    add_steps(maker, &subject, steps_of(data) + biased, call->steps - biased);
  }
  add_operand(maker, &subject, &data->result, TARGET);
  choose_code(maker, &subject);
  return subject;
}

static void prepare_part(Maker* maker, const CallData* call, const PartData* data) {
  OnednnPart* part = maker->part;
  /* Two reorders an operand at most, the main primitive, and a pass for bias and each step. */
  part->primitives = take_table(maker, 3 * MOST_OPERANDS, sizeof *part->primitives);
  part->stream = NEW(maker, lasting, stream, stream_create, maker->onednn->engine, IN_ORDER);
  Subject subject = subject_of(maker, call, data, 0);
  int early = !maker->status && takes_steps_early(&subject);
  if (early) subject = subject_of(maker, call, data, 1);
  assemble(maker, &subject);
  if (early) add_passes(maker, call, data);
}

static const void* descriptor_of_memory(const Onednn* onednn, void* memory) {
  const void* found = NULL;
  onednn->memory_get_memory_desc(memory, &found);
  return found;
}

/* True if the first primitives of two parts make the same of constants, at the same places. */
static int make_the_same(const Onednn* onednn, const OnednnPart* one, const OnednnPart* other) {
  if (one->once != other->once || one->constant_bytes != other->constant_bytes) return 0;
  for (int64_t i = 0; i < one->once; ++i) {
    const OnednnPrimitive *first = &one->primitives[i], *second = &other->primitives[i];
    if (first->count != second->count) return 0;
    for (int64_t k = 0; k < first->count; ++k) {
      Place place = first->places[k], its = second->places[k];
      if (place.position != its.position) return 0;
      if (place.position != WORKSPACE && place.offset != its.offset) return 0;
      if (!onednn->memory_desc_equal(descriptor_of_memory(onednn, first->arguments[k].memory),
                                     descriptor_of_memory(onednn, second->arguments[k].memory)))
        return 0;
    }
  }
  return 1;
}

/* Parts by rows read the same weights: with a copy for each they outgrow caches twice as early. */
static void take_constants(Maker* maker, const OnednnPart* parts) {
  OnednnPart* part = maker->part;
  if (maker->status || !part->once) return;
  for (const OnednnPart* each = parts; each < part && !part->constants; ++each)
    if (make_the_same(maker->onednn, each, part)) part->constants = each->constants;
  if (part->constants) return;
  Constants* made = part->constants = take_table(maker, 1, sizeof *made);
  /* Untouched until it runs: only the whole or its parts do. */
  if (made && posix_memalign((void**)&made->memory, LINE_BYTES, part->constant_bytes))
    note(maker, "malloc", OUT_OF_MEMORY);
  if (made) keep(maker, &maker->lasting, made->memory, release);
}

static void prepare_parts(Maker* maker, OnednnCall* call, const CallData* data, size_t part_bytes) {
  call->parts = take_table(maker, data->parts, sizeof *call->parts);
  for (; !maker->status && call->num_parts < data->parts; ++call->num_parts) {
    maker->part = &call->parts[call->num_parts];
    const char* begin = (const char*)(data + 1) + call->num_parts * part_bytes;
    prepare_part(maker, data, (const PartData*)begin);
    take_constants(maker, call->parts);
  }
}

void tvm_ios_onednn_drop(OnednnCall* call) {
  if (call) drop(&call->made);
  free(call);
}

enum { READY = 0, REFUSED = 1, FAILED = -1 };

int tvm_ios_onednn_prepare(const Onednn* onednn, const CallHost* host, const CallData* data,
                           size_t size_bytes, OnednnCall** made, char* text, size_t size) {
  size_t part_bytes = sizeof(PartData) + data->steps * sizeof(StepData);
  *made = NULL;
  if (data->version != CALL_DATA_VERSION || data->steps > MOST_STEPS + 1 ||
      size_bytes != sizeof *data + data->parts * part_bytes)
    return say(text, size, "the data of a call is damaged, or of another version of tvm-ios");
  OnednnCall* call = calloc(1, sizeof *call);
  if (!call) return say(text, size, "there is no memory for a call");
  Maker maker = {.onednn = onednn};
  int before = hold_threads(onednn);
  prepare_parts(&maker, call, data, part_bytes);
  give_threads_back(onednn, before);
  drop(&maker.passing);
  call->onednn = onednn, call->host = *host, call->made = maker.lasting;
  memcpy(call->zero_points, data->zero_points, sizeof call->zero_points);
  if (!maker.status) {
    *made = call;
    return READY;
  }
  tvm_ios_onednn_drop(call);
  if (maker.failed) say_failed(onednn, maker.failed, maker.status, text, size);
  else say(text, size, "%s has no fast code for it", onednn->name);
  return is_refusal(&maker) ? REFUSED : FAILED;
}

#endif
