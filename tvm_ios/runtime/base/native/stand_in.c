/* An empty library in place of one that TVM's runtime is linked with and a program never calls. */
const char tvm_ios_stand_in;
