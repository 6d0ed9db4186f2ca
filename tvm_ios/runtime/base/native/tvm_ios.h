/* A model that tvm-ios exported, from C or C++, without Python.
 *
 *   tvm_ios_model* model = tvm_ios_model_open("model.so", 0);
 *   tvm_ios_model_set_input(model, 0, image, sizeof image);
 *   tvm_ios_model_run(model);
 *   tvm_ios_model_get_output(model, 0, scores, sizeof scores);
 *   tvm_ios_model_close(model);
 *
 * Build with tvm_ios_model.c, which lies beside this header, and with TVM's runtime; `tvm-ios
 * c-api` prints the arguments of the compiler:
 *   cc program.c $(tvm-ios c-api)
 *
 * Functions that return int give 0, or -1 with tvm_ios_last_error() set. Calls on one model from
 * several threads wait for each other; for work at the same time, open the file once a thread. */
#ifndef TVM_IOS_H_
#define TVM_IOS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tvm_ios_model tvm_ios_model;

/* An input or output. Its data lie in the model's memory, compact, row after row, 64-byte aligned:
 * who writes inputs and reads outputs there saves a copy. Those of an output are valid until the
 * next run, those of either until the model is closed. */
typedef struct {
  const char* name;  /* of an input; "" for outputs */
  const char* dtype; /* as NumPy names it: float32, int64, bool */
  int32_t ndim;
  const int64_t* shape;
  size_t size_bytes;
  void* data;
} tvm_ios_tensor;

/* Open an exported file; lanes are the threads of a run, the caller's included, or 0 for as many
 * as it was scheduled for, or as there are cores where those are fewer. NULL on failure. */
tvm_ios_model* tvm_ios_model_open(const char* path, int32_t lanes);

int32_t tvm_ios_model_num_inputs(const tvm_ios_model* model);
int32_t tvm_ios_model_num_outputs(const tvm_ios_model* model);

/* The number of the input of this name, -1 if there is none. Of several models it is
 * model__input, where they do not share it. */
int32_t tvm_ios_model_find_input(const tvm_ios_model* model, const char* name);

/* The number of an output of several models, -1 if there is none of this name: the model's, or
 * model__0, model__1 where it has several. */
int32_t tvm_ios_model_find_output(const tvm_ios_model* model, const char* name);

int tvm_ios_model_input(tvm_ios_model* model, int32_t index, tvm_ios_tensor* tensor);
int tvm_ios_model_output(tvm_ios_model* model, int32_t index, tvm_ios_tensor* tensor);

/* Copy a whole input in, a whole output out; size_bytes must be the tensor's. */
int tvm_ios_model_set_input(tvm_ios_model* model, int32_t index, const void* data,
                            size_t size_bytes);
int tvm_ios_model_get_output(tvm_ios_model* model, int32_t index, void* data, size_t size_bytes);

int tvm_ios_model_run(tvm_ios_model* model);

/* A file of one model in several shapes: take the one in which these inputs have these shapes, of
 * which name, ndim and shape are read. It is opened in its first shape. Numbers, inputs and outputs
 * are those of the shape that was taken; tensors of the others keep their memory. */
int tvm_ios_model_choose_shape(tvm_ios_model* model, const tvm_ios_tensor* inputs, int32_t count);

/* A file of several models: run those of these names alone, a name or more. Outputs of the others
 * stay as they are. */
int tvm_ios_model_run_parts(tvm_ios_model* model, const char* const* names, int32_t count);

/* Join its threads and free its memory; NULL is fine. */
void tvm_ios_model_close(tvm_ios_model* model);

/* Why the last call on this thread failed, find_input's -1 included; "" where it did not fail. */
const char* tvm_ios_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
