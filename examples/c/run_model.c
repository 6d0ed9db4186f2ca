/* Run a model that tvm-ios exported: inputs from files, outputs to files, no Python.
 *
 *   cc -O2 run_model.c $(tvm-ios c-api) -o run_model
 *   ./run_model model.so --input image.bin --output scores.bin --repeat 100
 *
 * To build: a C compiler, and the tvm-ios and TVM that exported the model. `tvm-ios c-api` prints
 * the folder of tvm_ios.h, tvm_ios_model.c, and where libtvm_runtime.so lies.
 *
 * To run: the model's file, libtvm_runtime.so, the C and C++ libraries, and no Python. The program
 * finds them where they were when it was built; on another machine LD_LIBRARY_PATH names the folder
 * that libtvm_runtime.so was copied to. CUDA is not needed. Where TVM is linked with libraries of
 * CUDA that the loader does not find, c-api links empty ones of the same names (`ldd run_model`
 * lists them), which go along with libtvm_runtime.so.
 *
 * Environment: none, but if oneDNN computes operators of the model and the loader does not find
 * libdnnl.so.3, TVM_IOS_ONEDNN names its path:
 *
 *   env $(tvm-ios c-api --environment) ./run_model model.so
 *
 * Files hold a tensor's bytes as they lie in memory (ndarray.tofile in NumPy), inputs in the order
 * that is printed. Inputs without a file are zeros. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tvm_ios.h"

static int complain(const char* what) {
  fprintf(stderr, "run_model: %s: %s\n", what, tvm_ios_last_error());
  return 1;
}

static void print_tensor(const char* kind, int number, const tvm_ios_tensor* tensor) {
  printf("%s %d %s %s[", kind, number, tensor->name, tensor->dtype);
  for (int axis = 0; axis < tensor->ndim; ++axis)
    printf("%s%lld", axis ? ", " : "", (long long)tensor->shape[axis]);
  printf("]\n");
}

/* Read into, or write from, the memory of a tensor itself. */
static int transfer(const char* path, const char* mode, const tvm_ios_tensor* tensor) {
  FILE* file = fopen(path, mode);
  if (!file) {
    perror(path);
    return 1;
  }
  size_t done = *mode == 'r' ? fread(tensor->data, 1, tensor->size_bytes, file)
                             : fwrite(tensor->data, 1, tensor->size_bytes, file);
  fclose(file);
  if (done == tensor->size_bytes) return 0;
  fprintf(stderr, "run_model: %s: %zu of %zu bytes\n", path, done, tensor->size_bytes);
  return 1;
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int run(tvm_ios_model* model, char** words, int repeat) {
  tvm_ios_tensor tensor;
  char** word = words;
  for (int i = 0; i < tvm_ios_model_num_inputs(model); ++i) {
    tvm_ios_model_input(model, i, &tensor);
    print_tensor("input", i, &tensor);
    while (*word && strcmp(*word, "--input")) ++word;
    if (*word && word[1] && transfer(*++word, "rb", &tensor)) return 1;
  }
  double first = now_us();
  for (int i = 0; i < repeat; ++i)
    if (tvm_ios_model_run(model)) return complain("run");
  printf("%d runs, %.1f us each\n", repeat, (now_us() - first) / repeat);
  word = words;
  for (int i = 0; i < tvm_ios_model_num_outputs(model); ++i) {
    tvm_ios_model_output(model, i, &tensor);
    print_tensor("output", i, &tensor);
    while (*word && strcmp(*word, "--output")) ++word;
    if (*word && word[1] && transfer(*++word, "wb", &tensor)) return 1;
  }
  return 0;
}

int main(int count, char** words) {
  int repeat = 1;
  if (count < 2) {
    fprintf(stderr, "usage: run_model MODEL.so [--input FILE]... [--output FILE]... [--repeat N]\n");
    return 2;
  }
  for (int i = 2; i + 1 < count; ++i)
    if (!strcmp(words[i], "--repeat")) repeat = atoi(words[i + 1]);
  tvm_ios_model* model = tvm_ios_model_open(words[1], 0);
  if (!model) return complain("open");
  int status = run(model, words + 2, repeat < 1 ? 1 : repeat);
  tvm_ios_model_close(model);
  return status;
}
