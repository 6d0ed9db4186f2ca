/* Makes calls ready: primitives of the whole and of each part, and reorders where oneDNN's code wants
 * other formats.
 *
 * Reference code is refused: TVM's kernel is faster then. Where oneDNN's code gets bias and steps
 * wrong, other primitives compute them after the main one. The first failure stays in the maker, and
 * nothing more is asked of oneDNN then. */
#ifndef TVM_IOS_ONEDNN_PREPARE_H_
#define TVM_IOS_ONEDNN_PREPARE_H_

#include <string.h>

#include "onednn_call.h"

#define LINE_BYTES 64
#define ROWS_WORTH_A_COPY 32 /* of a product, from which on a copy of the weights pays: 16 are too few */
#define MOST_OPERANDS (MOST_STEPS + 4)

enum { FLOAT32 = 3, ANY = 1, FORWARD_INFERENCE = 96, USER_SCRATCHPAD = 1, STRICT = 0, IN_ORDER = 1 };
enum { QUERY_NAME = 8, QUERY_SOURCE = 129, QUERY_WEIGHTS = 131, QUERY_TARGET = 133,
       QUERY_SCRATCHPAD = 136 };
enum { SOURCE = 1, SECOND_SOURCE = 2, TARGET = 17, WEIGHTS = 33, BIAS = 41, SCRATCHPAD = 80,
       STEP = 32768, ADD = 131056 };
enum { OUT_OF_MEMORY = 1, INVALID = 2, UNIMPLEMENTED = 3 }; /* of dnnl_status_t */

typedef struct { /* of a primitive, and the memory it lies in */
  int number;
  const void* descriptor;
  int64_t position, offset;
} Argument;

typedef struct {
  const TensorData* tensor;
  Argument lies;
  const void* wanted; /* descriptor that the main primitive is asked for, or has */
  int alike;          /* a step's operand with the extents of the result */
} Operand;

typedef struct {
  int kind;
  float alpha, beta;
  int axes;    /* of slopes, as a bit mask */
  int operand; /* among the subject's; -1: it has none */
} Step;

typedef struct { /* what one main primitive computes */
  int32_t primitive;
  const PartData* data;
  Operand operands[MOST_OPERANDS];
  Step steps[MOST_STEPS + 1];
  int num_operands, num_steps;
  void* described;
  const char* code; /* oneDNN's name of it */
} Subject;

typedef struct {
  Argument from, to;
  int when;
} Move;

enum { ONCE, BEFORE, AFTER }; /* of Move.when, as the main primitive sees it */

typedef struct {
  const Onednn* onednn;
  OnednnCall* call;
  OnednnPart* part;
  Made* passing; /* goes when the call is ready */
  const char* failed;
  int status;
} Maker;

/* ---- what is made, and what fails ---- */

#define CALL(maker, name, ...) \
  ((maker)->status ? -1 : note(maker, "dnnl_" #name, (maker)->onednn->name(__VA_ARGS__)))

static int note(Maker* maker, const char* name, int status) {
  if (!status || maker->status) return status;
  maker->failed = name;
  maker->status = status;
  return status;
}

/* Some of its code calls arguments invalid that are right, and that it has no way to compute. */
static int is_refusal(const Maker* maker) {
  if (maker->status == UNIMPLEMENTED) return 1;
  return maker->status == INVALID && strstr(maker->failed, "primitive_desc_create");
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

/* The object, which is destroyed with its list. */
static void* keep(Maker* maker, Made** list, void* object, int (*destroy)(void*)) {
  if (!object) return NULL;
  Made* made = malloc(sizeof *made);
  if (made) {
    *made = (Made){*list, object, destroy};
    *list = made;
    return object;
  }
  destroy(object);
  note(maker, "malloc", OUT_OF_MEMORY);
  return NULL;
}

#define MAKE_DESCRIPTOR(maker, noun, made) \
  keep(maker, &(maker)->passing, made, (maker)->onednn->noun##_destroy)

static void* take_table(Maker* maker, size_t count, size_t size_bytes) {
  void* memory = calloc(count, size_bytes);
  if (!memory) note(maker, "malloc", OUT_OF_MEMORY);
  return keep(maker, &maker->call->made, memory, release);
}

/* Offset of a piece of workspace or of memory for constants. */
static int64_t take(Maker* maker, int64_t position, size_t size_bytes) {
  OnednnPart* part = maker->part;
  int64_t* size = position == CONSTANTS ? &part->constant_bytes : &part->workspace_bytes;
  int64_t begin = *size;
  *size += (size_bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
  return begin;
}

/* ---- descriptors ---- */

static void* describe(Maker* maker, int axes, const int64_t* extents, int format) {
  void* made = NULL;
  CALL(maker, memory_desc_create_with_tag, &made, axes, extents, FLOAT32, format);
  return MAKE_DESCRIPTOR(maker, memory_desc, made);
}

static void* describe_apart(Maker* maker, int axes, const int64_t* extents, const int64_t* strides) {
  void* made = NULL;
  CALL(maker, memory_desc_create_with_strides, &made, axes, extents, FLOAT32, strides);
  return MAKE_DESCRIPTOR(maker, memory_desc, made);
}

static void* describe_attributes(Maker* maker) {
  void* made = NULL;
  CALL(maker, primitive_attr_create, &made);
  /* With scratchpads of oneDNN's own, primitives are not safe to run on several threads. */
  CALL(maker, primitive_attr_set_scratchpad_mode, made, USER_SCRATCHPAD);
  return MAKE_DESCRIPTOR(maker, primitive_attr, made);
}

static void* describe_steps(Maker* maker, const Subject* subject, int first) {
  void* made = NULL;
  CALL(maker, post_ops_create, &made);
  for (int i = first; i < subject->num_steps; ++i) {
    const Step* step = &subject->steps[i];
    if (step->kind == SLOPES)
      CALL(maker, post_ops_append_prelu, made, step->axes);
    else if (step->operand < 0)
      CALL(maker, post_ops_append_eltwise, made, step->kind, step->alpha, step->beta);
    else
      CALL(maker, post_ops_append_binary, made, step->kind,
           subject->operands[step->operand].wanted);
  }
  void* attributes = describe_attributes(maker);
  /* Else ONEDNN_DEFAULT_FPMATH_MODE may have products rounded to bfloat16. */
  CALL(maker, primitive_attr_set_fpmath_mode, attributes, STRICT);
  CALL(maker, primitive_attr_set_post_ops, attributes, made);
  MAKE_DESCRIPTOR(maker, post_ops, made);
  return attributes;
}

static Operand* find_operand(Subject* subject, int number) {
  for (int i = 0; i < subject->num_operands; ++i)
    if (subject->operands[i].lies.number == number) return &subject->operands[i];
  return NULL;
}

static const void* wanted(Subject* subject, int number) {
  Operand* operand = find_operand(subject, number);
  return operand ? operand->wanted : NULL;
}

static int has_word(const char* name, const char* word, const char* between) {
  size_t size = strlen(word);
  for (const char* at = name;; ++at) {
    size_t length = strcspn(at, between);
    if (length == size && !strncmp(at, word, size)) return 1;
    at += length;
    if (!*at) return 0;
  }
}

/* The name of the code; NULL where it is reference code. */
static const char* fast_code(Maker* maker, const void* described) {
  const char* name = NULL;
  CALL(maker, primitive_desc_query, described, QUERY_NAME, 0, &name);
  return name && !has_word(name, "ref", ":_") ? name : NULL;
}

/* ---- the main primitive ---- */

static void add_operand(Maker* maker, Subject* subject, const TensorData* tensor, int number) {
  if (!tensor->axes) return;
  void* lies = tensor->format
                   ? describe(maker, tensor->axes, tensor->extents, tensor->format)
                   : describe_apart(maker, tensor->axes, tensor->extents, tensor->strides);
  subject->operands[subject->num_operands++] =
      (Operand){tensor, {number, lies, tensor->position, tensor->offset}, lies, 0};
}

static int mask_of(const TensorData* tensor) {
  int mask = 0;
  for (int i = 0; i < tensor->axes; ++i) mask |= (tensor->extents[i] > 1) << i;
  return mask;
}

static int operand_number(int step, int kind) {
  return STEP * (step + 1) | (kind == SLOPES ? WEIGHTS : SECOND_SOURCE);
}

static void add_step(Maker* maker, Subject* subject, const StepData* data) {
  const TensorData *operand = &data->operand, *result = &subject->data->result;
  int number = subject->num_operands;
  add_operand(maker, subject, operand, operand_number(subject->num_steps, (int)data->kind));
  if (operand->axes)
    subject->operands[number].alike =
        operand->axes == result->axes &&
        !memcmp(operand->extents, result->extents, operand->axes * sizeof *operand->extents);
  subject->steps[subject->num_steps++] =
      (Step){(int)data->kind, (float)data->alpha, (float)data->beta, mask_of(operand),
             operand->axes ? number : -1};
}

static void add_tensors(Maker* maker, Subject* subject, const StepData* steps, int count, int bias) {
  const PartData* data = subject->data;
  add_operand(maker, subject, &data->data, SOURCE);
  add_operand(maker, subject, &data->weight, WEIGHTS);
  if (bias) add_operand(maker, subject, &data->bias, BIAS);
  for (int i = 0; i < count; ++i) add_step(maker, subject, &steps[i]);
  add_operand(maker, subject, &data->result, TARGET);
}

static void* describe_main(Maker* maker, Subject* subject, const void* attributes) {
  const PartData* data = subject->data;
  void *made = NULL, *engine = maker->onednn->engine;
  const void *source = wanted(subject, SOURCE), *weights = wanted(subject, WEIGHTS),
             *bias = wanted(subject, BIAS), *target = wanted(subject, TARGET);
  int how = subject->primitive;
  if (how == PRODUCT)
    CALL(maker, matmul_primitive_desc_create, &made, engine, source, weights, bias, target,
         attributes);
  else if (how == SOFTMAX)
    CALL(maker, softmax_forward_primitive_desc_create, &made, engine, FORWARD_INFERENCE, how, source,
         target, data->data.axes - 1, attributes);
  else if (how == CONVOLUTION)
    CALL(maker, convolution_forward_primitive_desc_create, &made, engine, FORWARD_INFERENCE, how,
         source, weights, bias, target, data->strides, data->dilation, data->begins, data->ends,
         attributes);
  else if (how == TRANSPOSED)
    CALL(maker, deconvolution_forward_primitive_desc_create, &made, engine, FORWARD_INFERENCE, how,
         source, weights, bias, target, data->strides, data->dilation, data->begins, data->ends,
         attributes);
  else
    CALL(maker, pooling_forward_primitive_desc_create, &made, engine, FORWARD_INFERENCE, how, source,
         target, data->strides, data->kernel, data->dilation, data->begins, data->ends, attributes);
  return MAKE_DESCRIPTOR(maker, primitive_desc, made);
}

/* Formats that oneDNN may choose, the fewest first: each costs a reorder in every run, but that of
 * constant weights, which are tried first. */
enum { FREE_SOURCE = 1, FREE_WEIGHTS = 2, FREE_TARGET = 4 };
static const int choices[2][4] = {
    {0, FREE_WEIGHTS, FREE_SOURCE | FREE_WEIGHTS, FREE_SOURCE | FREE_WEIGHTS | FREE_TARGET},
    {FREE_WEIGHTS, 0, FREE_SOURCE | FREE_WEIGHTS, FREE_SOURCE | FREE_WEIGHTS | FREE_TARGET}};

/* The query that tells an operand's own format where oneDNN may choose it; 0: it may not. */
static int query_of(const Operand* operand, int free) {
  if (operand->lies.number == SOURCE) return free & FREE_SOURCE ? QUERY_SOURCE : 0;
  if (operand->lies.number == WEIGHTS) return free & FREE_WEIGHTS ? QUERY_WEIGHTS : 0;
  /* oneDNN's fast code reads an operand of the result's extents as the result lies. */
  int result = operand->lies.number == TARGET || operand->alike;
  return result && free & FREE_TARGET ? QUERY_TARGET : 0;
}

/* True if there is fast code with some formats free; the subject has it then. */
static int describe_with(Maker* maker, Subject* subject, int free) {
  for (int i = 0; i < subject->num_operands; ++i) {
    Operand* each = &subject->operands[i];
    each->wanted = query_of(each, free)
                       ? describe(maker, each->tensor->axes, each->tensor->extents, ANY)
                       : each->lies.descriptor;
  }
  void* attributes = describe_steps(maker, subject, 0);
  subject->described = describe_main(maker, subject, attributes);
  if (is_refusal(maker)) maker->status = 0;
  if (!subject->described) return 0;
  subject->code = fast_code(maker, subject->described);
  for (int i = 0; i < subject->num_operands; ++i) {
    Operand* each = &subject->operands[i];
    int query = query_of(each, free);
    if (query)
      each->wanted = maker->onednn->primitive_desc_query_md(subject->described, query, 0);
  }
  return subject->code != NULL;
}

/* True if a plain product of matrices copies more than code that reads in blocks. It copies the
 * windows of a convolution, and the weights of any call in every run; a product needs enough rows to
 * pay for that. Then it is faster, most of all where columns lie apart: other code writes them
 * together, and a reorder spreads them (note 22 of docs/adr). */
static int copies_too_much(const Subject* subject) {
  if (!has_word(subject->code, "gemm", ":")) return 0; /* its place differs: x64:gemm:jit */
  const TensorData* result = &subject->data->result;
  int64_t rows = 1;
  for (int i = 0; i < result->axes - 1; ++i) rows *= result->extents[i];
  return subject->primitive != PRODUCT || rows < ROWS_WORTH_A_COPY;
}

/* Find the fastest kind of code there is, with the fewest reorders. */
static void choose_code(Maker* maker, Subject* subject) {
  const int* free = choices[subject->data->weight.constant != 0];
  Subject chosen = {0};
  for (int i = 0; i < 4 && !maker->status; ++i) {
    Subject tried = *subject;
    if (!describe_with(maker, &tried, free[i])) continue;
    int final = !copies_too_much(&tried);
    if (final || !chosen.described) chosen = tried;
    if (final) break;
  }
  *subject = chosen;
  if (!chosen.described) note(maker, NULL, UNIMPLEMENTED);
}

/* True if bias and steps may be computed of partial sums, which is wrong. oneDNN 3.2's code for
 * transposed convolutions with strides does so where the weights of a block of output channels
 * outgrow the L2 cache. Kernels of two by two with strides of two, which sum nothing up twice, were
 * right at any size. */
static int takes_steps_early(const Subject* subject) {
  const PartData* data = subject->data;
  const int64_t* kernel = &data->weight.extents[2];
  int convolves = subject->primitive == CONVOLUTION || subject->primitive == TRANSPOSED;
  if (!convolves || !strstr(subject->code, "brgconv_strided")) return 0;
  int apart = data->weight.axes == 4 && kernel[0] == 2 && kernel[1] == 2 && data->strides[0] == 2 &&
              data->strides[1] == 2;
  return !apart && (data->bias.axes || subject->num_steps);
}

/* ---- primitives and their arguments ---- */

/* The arguments have room for one more: the scratchpad. */
static void add_primitive(Maker* maker, const void* described, Argument* arguments, int count) {
  const Onednn* onednn = maker->onednn;
  if (maker->status) return;
  const void* scratchpad = onednn->primitive_desc_query_md(described, QUERY_SCRATCHPAD, 0);
  size_t size_bytes = scratchpad ? onednn->memory_desc_get_size(scratchpad) : 0;
  if (size_bytes)
    arguments[count++] =
        (Argument){SCRATCHPAD, scratchpad, WORKSPACE, take(maker, WORKSPACE, size_bytes)};
  OnednnPrimitive* added = &maker->part->primitives[maker->part->count++];
  added->arguments = take_table(maker, count, sizeof *added->arguments);
  added->positions = take_table(maker, count, sizeof *added->positions);
  added->offsets = take_table(maker, count, sizeof *added->offsets);
  if (maker->status) return;
  for (; added->count < count; ++added->count) {
    const Argument* each = &arguments[added->count];
    void* memory = NULL;
    CALL(maker, memory_create, &memory, each->descriptor, onednn->engine, NULL);
    keep(maker, &maker->call->made, memory, onednn->memory_destroy);
    added->arguments[added->count] = (ExecutedArgument){each->number, memory};
    added->positions[added->count] = each->position;
    added->offsets[added->count] = each->offset;
  }
  CALL(maker, primitive_create, &added->primitive, described);
  keep(maker, &maker->call->made, added->primitive, onednn->primitive_destroy);
}

static void add_reorder(Maker* maker, const Move* move) {
  void *made = NULL, *engine = maker->onednn->engine, *attributes = describe_attributes(maker);
  Argument arguments[3] = {move->from, move->to};
  arguments[0].number = SOURCE;
  arguments[1].number = TARGET;
  CALL(maker, reorder_primitive_desc_create, &made, move->from.descriptor, engine,
       move->to.descriptor, engine, attributes);
  add_primitive(maker, MAKE_DESCRIPTOR(maker, primitive_desc, made), arguments, 2);
}

static void add_reorders(Maker* maker, const Move* moves, int count, int when) {
  for (int i = 0; i < count; ++i)
    if (moves[i].when == when) add_reorder(maker, &moves[i]);
}

/* A packed matrix and its rows, both as blocks, rows and columns of a block: a matrix has two axes
 * and oneDNN no format for it; three axes have strides. */
static Move unpack(Maker* maker, const TensorData* tensor, Argument packed, Argument plain) {
  int64_t rows = tensor->extents[0], columns = tensor->extents[1], block = tensor->columns;
  int64_t extents[] = {columns / block, rows, block}, blocks[] = {rows * block, block, 1},
          lines[] = {block, columns, 1};
  packed.descriptor = describe_apart(maker, 3, extents, blocks);
  plain.descriptor = describe_apart(maker, 3, extents, lines);
  return (Move){packed, plain, tensor->constant ? ONCE : BEFORE};
}

/* Where the main primitive finds an operand; the moves that bring it there, or away, are added. */
static Argument place(Maker* maker, const Operand* operand, Move* moves, int* count) {
  const Onednn* onednn = maker->onednn;
  const TensorData* tensor = operand->tensor;
  Argument outer = operand->lies, inner;
  int64_t kept = tensor->constant ? CONSTANTS : WORKSPACE;
  int right = onednn->memory_desc_equal(outer.descriptor, operand->wanted);
  if (tensor->columns) {
    Argument packed = outer;
    outer.position = right ? kept : WORKSPACE;
    outer.offset = take(maker, outer.position, onednn->memory_desc_get_size(outer.descriptor));
    moves[(*count)++] = unpack(maker, tensor, packed, outer);
  }
  if (right) return outer;
  int64_t offset = take(maker, kept, onednn->memory_desc_get_size(operand->wanted));
  inner = (Argument){outer.number, operand->wanted, kept, offset};
  moves[(*count)++] = outer.number == TARGET
                          ? (Move){inner, outer, AFTER}
                          : (Move){outer, inner, tensor->constant ? ONCE : BEFORE};
  return inner;
}

static void assemble(Maker* maker, const Subject* subject) {
  Argument arguments[MOST_OPERANDS + 1];
  Move moves[2 * MOST_OPERANDS];
  int num_moves = 0;
  if (maker->status) return;
  for (int i = 0; i < subject->num_operands; ++i)
    arguments[i] = place(maker, &subject->operands[i], moves, &num_moves);
  add_reorders(maker, moves, num_moves, ONCE);
  maker->part->once = maker->part->count;
  add_reorders(maker, moves, num_moves, BEFORE);
  add_primitive(maker, subject->described, arguments, subject->num_operands);
  add_reorders(maker, moves, num_moves, AFTER);
}

/* ---- bias and steps after the main primitive ---- */

/* A subject of steps alone, the bias first: a sum with one value a channel. */
static void list_steps(Maker* maker, Subject* subject, const StepData* steps, int count) {
  const TensorData *bias = &subject->data->bias, *result = &subject->data->result;
  static const int in_order[MOST_AXES + 1] = {0, 2, 3, 4, 5, 6, 7}; /* formats by number of axes */
  StepData sum = {.kind = ADD, .operand = *bias};
  if (bias->axes) {
    sum.operand.axes = result->axes;
    sum.operand.format = in_order[result->axes];
    for (int i = 0; i < result->axes; ++i)
      sum.operand.extents[i] = i == 1 ? bias->extents[0] : 1;
    add_step(maker, subject, &sum);
  }
  for (int i = 0; i < count; ++i) add_step(maker, subject, &steps[i]);
}

/* Add a primitive that does steps to the result, in place: the first as its own, others after it. */
static void add_pass(Maker* maker, const Subject* subject, int first, int end, Argument result) {
  Subject others = *subject;
  others.num_steps = end;
  Argument arguments[MOST_OPERANDS + 3] = {result, result};
  arguments[0].number = SOURCE;
  int count = 2;
  for (int i = first; i < end; ++i) {
    if (subject->steps[i].operand < 0) continue;
    Argument* added = &arguments[count++];
    *added = subject->operands[subject->steps[i].operand].lies;
    added->number =
        i == first ? SECOND_SOURCE : operand_number(i - first - 1, subject->steps[i].kind);
  }
  const Step* step = &subject->steps[first];
  const void* lies = result.descriptor;
  void *made = NULL, *engine = maker->onednn->engine;
  void* attributes = describe_steps(maker, &others, first + 1);
  if (step->kind == SLOPES)
    note(maker, NULL, UNIMPLEMENTED);
  else if (step->operand < 0)
    CALL(maker, eltwise_forward_primitive_desc_create, &made, engine, FORWARD_INFERENCE, step->kind,
         lies, lies, step->alpha, step->beta, attributes);
  else
    CALL(maker, binary_primitive_desc_create, &made, engine, step->kind, lies,
         subject->operands[step->operand].lies.descriptor, lies, attributes);
  MAKE_DESCRIPTOR(maker, primitive_desc, made);
  if (made && !fast_code(maker, made)) note(maker, NULL, UNIMPLEMENTED);
  add_primitive(maker, made, arguments, count);
}

/* oneDNN's fast code takes further steps with a sum or product, but not with a function. */
static void add_passes(Maker* maker, const Subject* subject, Argument result) {
  for (int first = 0, end; first < subject->num_steps; first = end) {
    end = subject->steps[first].kind >= FIRST_BINARY ? subject->num_steps : first + 1;
    add_pass(maker, subject, first, end, result);
  }
}

/* ---- parts and calls ---- */

static void prepare_part(Maker* maker, const CallData* call, const PartData* data) {
  OnednnPart* part = maker->part;
  const StepData* steps = (const StepData*)(data + 1);
  Subject subject = {.primitive = call->primitive, .data = data}, bare = subject, after = subject;
  /* Two reorders an operand at most, the main primitive, and a pass for bias and each step. */
  part->primitives = take_table(maker, 3 * MOST_OPERANDS, sizeof *part->primitives);
  CALL(maker, stream_create, &part->stream, maker->onednn->engine, IN_ORDER);
  keep(maker, &maker->call->made, part->stream, maker->onednn->stream_destroy);
  add_tensors(maker, &subject, steps, call->steps, 1);
  choose_code(maker, &subject);
  if (maker->status) return;
  if (!takes_steps_early(&subject)) {
    assemble(maker, &subject);
  } else {
    add_tensors(maker, &bare, NULL, 0, 0);
    choose_code(maker, &bare);
    assemble(maker, &bare);
    list_steps(maker, &after, steps, call->steps);
    add_passes(maker, &after, find_operand(&bare, TARGET)->lies);
  }
  /* Untouched until it runs: only the whole or its parts do. */
  if (part->constant_bytes &&
      posix_memalign((void**)&part->constants, LINE_BYTES, part->constant_bytes))
    note(maker, "malloc", OUT_OF_MEMORY);
  keep(maker, &maker->call->made, part->constants, release);
}

static int is_whole(const CallData* data, size_t size_bytes) {
  if (size_bytes < sizeof *data || data->version != CALL_DATA_VERSION) return 0;
  if (data->parts < 1 || data->steps < 0 || data->steps > MOST_STEPS) return 0;
  size_t each = sizeof(PartData) + data->steps * sizeof(StepData);
  return size_bytes == sizeof *data + data->parts * each;
}

static void prepare_parts(Maker* maker, const CallData* data) {
  OnednnCall* call = maker->call;
  size_t each = sizeof(PartData) + data->steps * sizeof(StepData);
  call->parts = take_table(maker, data->parts, sizeof *call->parts);
  for (; !maker->status && call->num_parts < data->parts; ++call->num_parts) {
    const char* begin = (const char*)(data + 1) + call->num_parts * each;
    maker->part = &call->parts[call->num_parts];
    prepare_part(maker, data, (const PartData*)begin);
  }
}

static void drop_call(OnednnCall* call) {
  if (call) drop(&call->made);
  free(call);
}

enum { READY = 0, REFUSED = 1, FAILED = -1 };

static int prepare_call(const Onednn* onednn, const CallHost* host, const CallData* data,
                        size_t size_bytes, OnednnCall** made, char* text, size_t size) {
  *made = NULL;
  if (!is_whole(data, size_bytes))
    return say(text, size, "the data of a call is damaged, or of another version of tvm-ios");
  OnednnCall* call = calloc(1, sizeof *call);
  if (!call) return say(text, size, "no memory for a call");
  *call = (OnednnCall){.onednn = onednn, .host = *host};
  Maker maker = {.onednn = onednn, .call = call};
  int before = hold_threads(onednn);
  prepare_parts(&maker, data);
  give_threads_back(onednn, before);
  drop(&maker.passing);
  if (!maker.status) {
    *made = call;
    return READY;
  }
  drop_call(call);
  if (maker.failed)
    say(text, size, "%s failed: %s (%s)", maker.failed, onednn->status2str(maker.status),
        onednn->name);
  else
    say(text, size, "%s has no fast code for it", onednn->name);
  return is_refusal(&maker) ? REFUSED : FAILED;
}

#endif
