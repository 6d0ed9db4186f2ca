/* Changes numbers and bytes of an image, with a checksum that fits, and uses what can be loaded of it.
 *
 * Usage: fuzz_main IMAGE ROUNDS SEED. Prints how many changed images were sound. Built with sanitizers,
 * which see what is read out of bounds. */
#include "lane_executor.c"

#define COVERED 28 /* bytes before those that the checksum covers */

static uint64_t state;
static uint32_t draw(uint32_t bound) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return (uint32_t)(state >> 33) % bound;
}

static void change(char* image, size_t size) {
  const int32_t numbers[] = {-1, 0, 1, 1 << 30, INT32_MIN, (int32_t)draw(1000)};
  size_t at = COVERED + draw((uint32_t)(size - COVERED));
  if (draw(2))
    image[at] = (char)draw(256);
  else if (at / 4 * 4 + 4 <= size)
    memcpy(image + at / 4 * 4, &numbers[draw(6)], 4);
}

static void seal(char* image, uint64_t size) {
  memcpy(image + offsetof(PlanHeader, size_bytes), &size, sizeof size);
  uint32_t sum = checksum(image + COVERED, size - COVERED);
  memcpy(image + offsetof(PlanHeader, checksum), &sum, sizeof sum);
}

static void use(Plan* plan, char* memory) {
  const PlanHeader* header = plan->image.header;
  for (int32_t i = 0; i < header->num_buffers; ++i) tvm_ios_plan_place(plan, i, memory);
  for (int32_t i = 0; i < header->num_launches; ++i)
    tvm_ios_plan_bind(plan, i, NULL, NULL, (int32_t)strlen(plan->image.texts +
                                                            plan->image.launches[i].kernel));
  tvm_ios_program_free(tvm_ios_plan_program(plan, 0, 2, 1, NULL));
}

int main(int count, char** words) {
  static char image[1 << 20];
  FILE* file = count == 4 ? fopen(words[1], "r") : NULL;
  if (!file) return 2;
  size_t size = fread(image, 1, sizeof image, file);
  int sound = 0;
  fclose(file);
  state = (uint64_t)atoll(words[3]);
  for (int round = atoi(words[2]); round; --round) {
    size_t length = draw(20) ? size : draw((uint32_t)size + 1);
    char* changed = malloc(length); /* nothing behind its end may be read */
    memcpy(changed, image, length);
    for (uint32_t i = draw(4); i && length > COVERED; --i) change(changed, length);
    if (length >= COVERED) seal(changed, length);
    Plan* plan = tvm_ios_plan_load(changed, length, 1, 0);
    if (!plan && !strstr(tvm_ios_failed_text(), "export the model again")) abort();
    free(changed);
    if (plan) use(plan, image);
    sound += plan != NULL;
    tvm_ios_plan_free(plan);
  }
  printf("%d\n", sound);
  return 0;
}
