/* Bare loop over prepared kernel calls: what they take without the lane executor.
 *
 * The loop is a kernel itself, of a launch that stays on one lane, so that kernels find a lane whose
 * parallel regions they do not split. */
#include "../../../tvm_ios/runtime/base/native/plan_image.h"

typedef struct {
  Launch* const* launches;
  int64_t count;
} BareLoop;

int32_t bare_loop(TVMValue* args, int32_t* type_codes, int32_t num_args, TVMValue* ret_value,
                  int32_t* ret_tcode, void* resource) {
  const BareLoop* loop = resource;
  int32_t failed = 0;
  (void)args, (void)type_codes, (void)num_args, (void)ret_value, (void)ret_tcode;
  for (int64_t i = 0; i < loop->count; ++i) {
    const Launch* launch = loop->launches[i];
    TVMValue result;
    int32_t code = 0;
    failed |= launch->kernel(launch->arguments, launch->type_codes, launch->num_arguments, &result,
                             &code, launch->resource);
  }
  return failed;
}
