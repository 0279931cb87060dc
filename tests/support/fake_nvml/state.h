/* The state file: one writer (a test, through `layout.py`), many readers (processes that loaded the
   stand-in). It is mapped shared; every field is naturally aligned and there is no padding, so a
   field is never read half written. Whoever changes this file raises STATE_VERSION. */
#ifndef FAKE_NVML_STATE_H
#define FAKE_NVML_STATE_H
#include <stdint.h>

enum {
  STATE_MAGIC = 0x46414b45,
  STATE_VERSION = 1,
  MAX_GPUS = 16,
  MAX_SLICES = 16,
  MAX_FUNCTIONS = 64,
  MAX_PROCESSES = 128
};

enum process_kind { COMPUTE = 1, GRAPHICS = 2 };

struct process {
  uint32_t pid;
  uint32_t kinds;       /* of enum process_kind, or-ed */
  uint64_t used_bytes;  /* all ones: not available (WDDM, MIG) */
  int32_t slice;        /* slot of the MIG slice it runs in; -1: none */
  uint32_t unused;
};

/* A GPU (slots 0 … MAX_GPUS - 1, by NVML index) or a MIG slice (the slots after them). */
struct device {
  char name[96];
  char uuid[96];
  char pci_bus_id[32];
  uint64_t total_bytes, reserved_bytes, used_bytes; /* used: without reserved */
  uint32_t utilization_percent, memory_utilization_percent, temperature_c;
  uint32_t power_mw, power_limit_mw;
  uint32_t pcie_kb_per_s, pcie_generation, pcie_width;
  uint32_t mig_enabled;
  int32_t parent;       /* of a slice: its GPU's slot; -1: a GPU, or a slot not in use */
  uint32_t gpu_instance_id, compute_instance_id;
  uint32_t addressing_mode;
  int32_t fault;        /* nvmlReturn_t of every call on this device; 0: none */
  int32_t faults[MAX_FUNCTIONS];
  uint32_t delays_us[MAX_FUNCTIONS];
  uint32_t process_count, unused;
  struct process processes[MAX_PROCESSES];
};

struct state {
  uint32_t magic, version, size;
  uint32_t gpu_count;
  uint32_t session; /* raised by a test: what was initialised before fails with "unknown" */
  uint32_t cuda_driver_version;
  char driver_version[80];
  char nvml_version[80];
  uint64_t calls[MAX_FUNCTIONS];      /* counted by the stand-in */
  int32_t faults[MAX_FUNCTIONS];      /* on every device */
  uint32_t delays_us[MAX_FUNCTIONS];  /* on every device; clearing one ends a running delay */
  struct device devices[MAX_GPUS + MAX_SLICES];
};
#endif
