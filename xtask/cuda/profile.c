/* Profiles the kernels of a program on a GPU. CUDA loads this library into the program (CUDA_INJECTION64_PATH=…/profile.so). At the end it
 * prints launches, milliseconds and share of each kernel, then copies and fills, and how long the GPU was busy between the first and the
 * last. EBM_PROFILE_SKIP=N leaves out the first N kernels, EBM_PROFILE_OUT=FILE writes to a file.
 *
 *   gcc -O2 -shared -fPIC -I$CUDA_HOME/include -I$CUPTI/include profile.c -o profile.so -L$CUPTI/lib -l:libcupti.so.13 */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 4096, BUFFER = 1 << 23 };
static struct entry { char name[200]; unsigned long count; double ms; } entries[NAMES];
static int used;
static unsigned long kernels, skip;
static double first, last, busy;

static void add(const char *name, double start, double end) {
  int i = 0;
  while (i < used && strncmp(entries[i].name, name, sizeof entries[i].name - 1)) ++i;
  if (i == NAMES) return;
  if (i == used) snprintf(entries[used++].name, sizeof entries[i].name, "%s", name);
  entries[i].count++;
  entries[i].ms += (end - start) / 1e6;
  busy += (end - start) / 1e6;
  if (first == 0) first = start;
  last = end;
}

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *records) {
  *buffer = aligned_alloc(8, BUFFER);
  *size = BUFFER;
  *records = 0;
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  CUpti_Activity *record = NULL;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      CUpti_ActivityKernel10 *kernel = (CUpti_ActivityKernel10 *)record;
      if (kernels++ >= skip) add(kernel->name, kernel->start, kernel->end);
    } else if (kernels >= skip && record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      CUpti_ActivityMemcpy *copy = (CUpti_ActivityMemcpy *)record;
      char name[40];
      snprintf(name, sizeof name, "(copy of kind %d)", copy->copyKind);
      add(name, copy->start, copy->end);
    } else if (kernels >= skip && record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      CUpti_ActivityMemset *fill = (CUpti_ActivityMemset *)record;
      add("(fill)", fill->start, fill->end);
    }
  }
  free(buffer);
}

static int slower(const void *a, const void *b) {
  double x = ((const struct entry *)a)->ms, y = ((const struct entry *)b)->ms;
  return (x < y) - (x > y);
}

static void report(void) {
  cuptiActivityFlushAll(1);
  const char *path = getenv("EBM_PROFILE_OUT");
  FILE *out = path ? fopen(path, "w") : stderr;
  if (!out) return;
  qsort(entries, used, sizeof entries[0], slower);
  fprintf(out, "busy %.2f ms of %.2f ms\n", busy, (last - first) / 1e6);
  for (int i = 0; i < used && i < 60; ++i)
    fprintf(out, "%9lu %10.3f ms %5.1f %%  %s\n", entries[i].count, entries[i].ms, 100 * entries[i].ms / busy, entries[i].name);
}

int InitializeInjection(void) {
  const char *text = getenv("EBM_PROFILE_SKIP");
  skip = text ? strtoul(text, NULL, 10) : 0;
  if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS) return 0;
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  atexit(report);
  return 1;
}
