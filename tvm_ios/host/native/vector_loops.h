/* Loops over the vectors of one instruction set: lane_speeds.c includes them once for each.
 *
 * SET names the set, SET_TARGET lets the compiler use it, VECTOR_BYTES and CHAINS are its sizes. No
 * include guard. */

typedef float IN_SET(Vector) __attribute__((vector_size(VECTOR_BYTES)));

/* More chains than latency x ports, fewer than registers. The values tend to 1: no denormals. */
SET_TARGET static float IN_SET(multiply_add)(int64_t steps) {
  typedef IN_SET(Vector) Vector;
  Vector factor, term;
  for (int lane = 0; lane < VECTOR_BYTES / 4; ++lane) {
    factor[lane] = 0.5f;
    term[lane] = 0.5f;
  }
  EACH(BEGIN)
  for (int64_t step = 0; step < steps; ++step) {
    EACH(STEP)
  }
  float total = 0.0f;
  EACH(ADD)
  return total;
}

/* An addition on the way, or the compiler would call memcpy, which passes by the caches. */
SET_TARGET static void IN_SET(move)(void* to, const void* from, int64_t bytes) {
  typedef IN_SET(Vector) Vector;
  Vector* target = to;
  const Vector* source = from;
  for (int64_t i = 0; i < bytes / VECTOR_BYTES; i += 4) {
    target[i] = source[i] + 1.0f;
    target[i + 1] = source[i + 1] + 1.0f;
    target[i + 2] = source[i + 2] + 1.0f;
    target[i + 3] = source[i + 3] + 1.0f;
  }
}

static const Loops IN_SET(loops) = {VECTOR_BYTES, VECTOR_BYTES / 4 * CHAINS, IN_SET(multiply_add),
                                    IN_SET(move)};

#undef SET
#undef SET_TARGET
#undef VECTOR_BYTES
#undef CHAINS
#undef EACH
