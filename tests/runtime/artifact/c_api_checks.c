/* Checks of tvm_ios.h in C: c_api_checks MODEL.so INPUT.bin [BOTH.so SHAPES.so] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tvm_ios.h"

#define CHECK(holds)                                                       \
  do {                                                                     \
    if (!(holds)) {                                                        \
      printf("line %d: %s (%s)\n", __LINE__, #holds, tvm_ios_last_error()); \
      exit(1);                                                             \
    }                                                                      \
  } while (0)
#define SAYS(text) CHECK(strstr(tvm_ios_last_error(), text))
#define THREADS 3

static const char* path;
static char *input, *wanted;
static size_t input_bytes, output_bytes;

static void read_input(const char* from) {
  FILE* file = fopen(from, "rb");
  CHECK(file);
  CHECK(fread(input, 1, input_bytes, file) == input_bytes);
  fclose(file);
}

static void compute(tvm_ios_model* model, char* output) {
  CHECK(!tvm_ios_model_set_input(model, 0, input, input_bytes));
  CHECK(!tvm_ios_model_run(model));
  CHECK(!tvm_ios_model_get_output(model, 0, output, output_bytes));
}

static void* own_model(void* unused) {
  char* output = malloc(output_bytes);
  for (int round = 0; round < 4; ++round) {
    tvm_ios_model* model = tvm_ios_model_open(path, 0);
    CHECK(model);
    for (int i = 0; i < 20; ++i) {
      compute(model, output);
      CHECK(!memcmp(output, wanted, output_bytes));
    }
    tvm_ios_model_close(model);
  }
  free(output);
  return unused;
}

static void* shared_model(void* model) {
  for (int i = 0; i < 50; ++i) CHECK(!tvm_ios_model_run(model));
  return NULL;
}

static void in_threads(void* (*work)(void*), void* given) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) CHECK(!pthread_create(&threads[i], NULL, work, given));
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

static void check_wrong_calls(tvm_ios_model* model) {
  tvm_ios_tensor tensor;
  CHECK(!tvm_ios_model_open(NULL, 0));
  SAYS("path is NULL");
  CHECK(!tvm_ios_model_open(path, 4096));
  SAYS("lanes is 4096, but this process may use");
  CHECK(tvm_ios_model_set_input(model, 0, input, input_bytes - 1) == -1);
  SAYS("bytes of float32, and");
  CHECK(tvm_ios_model_set_input(model, 7, input, input_bytes) == -1);
  SAYS("there is no input 7; there are 1");
  CHECK(tvm_ios_model_output(model, -1, &tensor) == -1);
  SAYS("there is no output -1; there are 1");
  CHECK(tvm_ios_model_find_input(model, "p0") == -1);
  SAYS("there is no input named p0; there are 1");
  CHECK(tvm_ios_model_find_input(model, "data") == 0);
  tvm_ios_model_close(NULL);
}

/* A call that does not fail, after one that did, leaves no error. */
#define CLEARS(call)                                       \
  do {                                                     \
    CHECK(tvm_ios_model_input(model, 7, &tensor) == -1);   \
    SAYS("there is no input 7");                           \
    call;                                                  \
    CHECK(!*tvm_ios_last_error());                         \
  } while (0)

static void check_error_is_of_the_last_call(tvm_ios_model* model) {
  tvm_ios_tensor tensor;
  char* output = malloc(output_bytes);
  CLEARS(tvm_ios_model_num_inputs(model));
  CLEARS(tvm_ios_model_num_outputs(model));
  CLEARS(tvm_ios_model_find_input(model, "data"));
  CLEARS(tvm_ios_model_input(model, 0, &tensor));
  CLEARS(tvm_ios_model_output(model, 0, &tensor));
  CLEARS(tvm_ios_model_set_input(model, 0, input, input_bytes));
  CLEARS(tvm_ios_model_run(model));
  CLEARS(tvm_ios_model_get_output(model, 0, output, output_bytes));
  CLEARS(tvm_ios_model_close(tvm_ios_model_open(path, 1)));
  CLEARS(tvm_ios_model_close(NULL));
  free(output);
}

/* A file of two models, one and two, that compute the same of inputs of their own. */
static void check_parts(const char* file) {
  const char *both[] = {"one", "two"}, *unknown[] = {"one", "three"};
  tvm_ios_model* model = tvm_ios_model_open(file, 0);
  CHECK(model);
  CHECK(tvm_ios_model_find_output(model, "one") == 0);
  CHECK(tvm_ios_model_find_output(model, "two") == 1);
  CHECK(tvm_ios_model_find_output(model, "two__0") == -1);
  SAYS("there is no output named two__0");
  CHECK(tvm_ios_model_run_parts(model, unknown, 2) == -1);
  SAYS("there is no part named three; there are 2");
  CHECK(tvm_ios_model_run_parts(model, both, 0) == -1);
  SAYS("name one or more");
  tvm_ios_tensor one, two;
  CHECK(!tvm_ios_model_output(model, 0, &one) && !tvm_ios_model_output(model, 1, &two));
  for (int32_t i = 0; i < 2; ++i)
    CHECK(!tvm_ios_model_set_input(model, i, input, input_bytes));
  CHECK(!tvm_ios_model_run_parts(model, both + 1, 1));
  CHECK(memcmp(one.data, two.data, two.size_bytes)); /* one has not run yet */
  CHECK(!tvm_ios_model_run_parts(model, both, 1));
  CHECK(!memcmp(one.data, two.data, two.size_bytes));
  memset(one.data, 0, one.size_bytes);
  memset(two.data, 0, two.size_bytes);
  for (int round = 0; round < 3; ++round) CHECK(!tvm_ios_model_run_parts(model, both, 2));
  CHECK(!memcmp(one.data, wanted, output_bytes) && !memcmp(two.data, wanted, output_bytes));
  tvm_ios_model_close(model);
}

/* A file of the model in its shape and in images of 24 x 24. */
static void check_shapes(const char* file) {
  tvm_ios_model* model = tvm_ios_model_open(file, 0);
  CHECK(model);
  CHECK(tvm_ios_model_num_inputs(model) == 1 && tvm_ios_model_num_outputs(model) == 1);
  tvm_ios_tensor first, second, output;
  CHECK(!tvm_ios_model_input(model, 0, &first) && first.size_bytes == input_bytes);
  int64_t shape[] = {1, 3, 24, 24};
  tvm_ios_tensor wanted_shape = {.name = "data", .ndim = 4, .shape = shape};
  CHECK(!tvm_ios_model_choose_shape(model, &wanted_shape, 1));
  CHECK(!tvm_ios_model_input(model, 0, &second) && second.shape[3] == 24);
  CHECK(tvm_ios_model_find_input(model, "data") == 0);
  CHECK(tvm_ios_model_find_output(model, "data:[1,3,24,24]") == -1);
  SAYS("there are 0 models");
  memset(second.data, 0, second.size_bytes);
  CHECK(!tvm_ios_model_run(model));
  CHECK(!tvm_ios_model_output(model, 0, &output));
  CHECK(!tvm_ios_model_choose_shape(model, &first, 1));
  CHECK(!tvm_ios_model_set_input(model, 0, input, input_bytes));
  for (int round = 0; round < 3; ++round) CHECK(!tvm_ios_model_run(model));
  CHECK(!tvm_ios_model_output(model, 0, &output));
  CHECK(output.size_bytes == output_bytes && !memcmp(output.data, wanted, output_bytes));
  shape[2] = 7;
  CHECK(tvm_ios_model_choose_shape(model, &wanted_shape, 1) == -1);
  SAYS("no shape of this model fits; it has data:[1,3,16,16] or data:[1,3,24,24]");
  wanted_shape.name = "image";
  CHECK(tvm_ios_model_choose_shape(model, &wanted_shape, 1) == -1);
  CHECK(!tvm_ios_model_choose_shape(model, NULL, 0)); /* the present one fits */
  CHECK(!tvm_ios_model_input(model, 0, &second) && second.shape[3] == 16);
  const char* names[] = {"data:[1,3,24,24]"};
  CHECK(tvm_ios_model_run_parts(model, names, 1) == -1);
  SAYS("take one by tvm_ios_model_choose_shape");
  tvm_ios_model_close(model);
}

int main(int count, char** words) {
  CHECK(count == 3 || count == 5);
  path = words[1];
  tvm_ios_model* model = tvm_ios_model_open(path, 1);
  CHECK(model);
  tvm_ios_tensor tensor;
  CHECK(!tvm_ios_model_input(model, 0, &tensor));
  CHECK((size_t)tensor.data % 64 == 0);
  input_bytes = tensor.size_bytes;
  CHECK(!tvm_ios_model_output(model, 0, &tensor));
  output_bytes = tensor.size_bytes;
  input = malloc(input_bytes);
  wanted = malloc(output_bytes);
  read_input(words[2]);
  compute(model, wanted);
  check_wrong_calls(model);
  if (count == 5) check_parts(words[3]);
  if (count == 5) check_shapes(words[4]);
  check_error_is_of_the_last_call(model);
  in_threads(own_model, NULL);
  in_threads(shared_model, model);
  /* Closing one model leaves the code and the memory of another of the same file alone. */
  tvm_ios_model* other = tvm_ios_model_open(path, 0);
  CHECK(other);
  tvm_ios_model_close(model);
  char* output = malloc(output_bytes);
  compute(other, output);
  CHECK(!memcmp(output, wanted, output_bytes));
  tvm_ios_model_close(other);
  free(output);
  free(input);
  free(wanted);
  puts("all checks hold");
  return 0;
}
