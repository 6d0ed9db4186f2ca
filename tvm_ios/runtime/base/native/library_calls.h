/* What an exported file with calls of operator libraries has for tvm_ios_model.c. */
#ifndef TVM_IOS_LIBRARY_CALLS_H_
#define TVM_IOS_LIBRARY_CALLS_H_

#include <stddef.h>
#include <stdint.h>

#include "tvm_abi.h"

/* Functions of the program that calls of operator libraries use. */
typedef struct {
  void* (*take_workspace)(int device_type, int device_id, uint64_t size, int code, int bits);
  int (*give_workspace)(int device_type, int device_id, void* address);
  FTVMParallelLaunch launch;
} CallHost;

/* Functions of an exported file with calls of operator libraries. tvm_ios_open_calls makes all of
 * them ready and gives the resource of each; the data are the number of calls, and of each its data
 * after their number of bytes. tvm_ios_close_calls may be called whether or not that
 * went well. tvm_ios_explain_call writes the library's error of a call, once; nothing where there is
 * none. */
int tvm_ios_open_calls(const CallHost* host, const int64_t* data, void** resources, char* text,
                       size_t size);
void tvm_ios_close_calls(void);
void tvm_ios_explain_call(void* resource, char* text, size_t size);

#endif
