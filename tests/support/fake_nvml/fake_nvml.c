/* A stand-in for libnvidia-ml.so.1, for tests: the functions that jupyter_vram and its peers call,
   answered from the state file that $FAKE_NVML_STATE names (state.h). Without that variable it
   behaves as the library does where no driver is loaded.

   A function is made absent by renaming its symbol: cc -DnvmlX=absent_nvmlX. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define API __attribute__((visibility("default")))

enum nvml_return {
  SUCCESS = 0,
  UNINITIALIZED = 1,
  INVALID_ARGUMENT = 2,
  NOT_SUPPORTED = 3,
  NOT_FOUND = 6,
  INSUFFICIENT_SIZE = 7,
  DRIVER_NOT_LOADED = 9,
  GPU_IS_LOST = 15,
  ARGUMENT_VERSION_MISMATCH = 25,
  UNKNOWN = 999
};

enum function {
#define FUNCTION(name) ID_##name,
#include "functions.h"
#undef FUNCTION
  FUNCTION_COUNT
};
_Static_assert((int)FUNCTION_COUNT <= MAX_FUNCTIONS, "MAX_FUNCTIONS is too small");

typedef struct opaque *handle_t;

/* Mapped once and kept: a thread may still sleep in a call when another shuts the library down. */
static struct state *mapped;
static struct stat mapped_file;
static atomic_int references;
static atomic_uint session;
static atomic_uint epoch; /* of handles: those from before a shutdown are not valid after it */

/* The session in which a GPU was last seen lost: it stays lost for the rest of it. */
static atomic_uint lost_in[MAX_GPUS + MAX_SLICES];

static int map_state(void) {
  const char *path = getenv("FAKE_NVML_STATE");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return DRIVER_NOT_LOADED;
  struct stat status;
  int fits = !fstat(file, &status) && (size_t)status.st_size >= sizeof(struct state);
  if (mapped && fits && status.st_dev == mapped_file.st_dev && status.st_ino == mapped_file.st_ino) {
    close(file);
    return SUCCESS;
  }
  void *address = fits ? mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
  close(file);
  if (address == MAP_FAILED) return DRIVER_NOT_LOADED;
  struct state *state = address;
  if (state->magic != STATE_MAGIC || state->version != STATE_VERSION ||
      state->size != sizeof(struct state)) {
    munmap(address, sizeof(struct state));
    return ARGUMENT_VERSION_MISMATCH;
  }
  mapped = state;
  mapped_file = status;
  return SUCCESS;
}

/* Sleeps, in slices, until the delay is over or was cleared. */
static void sleep_while(const volatile uint32_t *delay_us) {
  enum { SLICE_US = 20000 };
  uint32_t slept = 0;
  while (slept < *delay_us) {
    uint32_t left = *delay_us - slept;
    uint32_t slice = left < SLICE_US ? left : SLICE_US;
    struct timespec span = {0, slice * 1000L};
    nanosleep(&span, NULL);
    slept += slice;
  }
}

static int enter_unchecked(enum function function) {
  __atomic_fetch_add(&mapped->calls[function], 1, __ATOMIC_RELAXED);
  sleep_while(&mapped->delays_us[function]);
  return mapped->faults[function];
}

static int enter(enum function function) {
  if (!references) return UNINITIALIZED;
  int fault = enter_unchecked(function);
  if (!fault && session != mapped->session) return UNKNOWN;
  return fault;
}

static handle_t handle_of(unsigned slot) {
  return (handle_t)(((uintptr_t)epoch << 8 | slot) + 1);
}

static struct device *device_of(handle_t handle) {
  uintptr_t value = (uintptr_t)handle - 1;
  unsigned slot = value & 0xff;
  if (!handle || value >> 8 != epoch || slot >= MAX_GPUS + MAX_SLICES) return NULL;
  return &mapped->devices[slot];
}

static unsigned slot_of(const struct device *device) { return device - mapped->devices; }

static int device_fault(enum function function, const struct device *device) {
  unsigned slot = slot_of(device);
  sleep_while(&device->delays_us[function]);
  if (device->fault == GPU_IS_LOST) lost_in[slot] = epoch;
  if (lost_in[slot] == epoch) return GPU_IS_LOST;
  return device->fault ? device->fault : device->faults[function];
}

static int enter_device(enum function function, handle_t handle, struct device **device) {
  int result = enter(function);
  if (result) return result;
  *device = device_of(handle);
  return *device ? device_fault(function, *device) : INVALID_ARGUMENT;
}

#define ENTER(function)                      \
  do {                                       \
    int result_ = enter(ID_##function);      \
    if (result_) return result_;             \
  } while (0)

#define ENTER_DEVICE(function, handle)                             \
  struct device *device;                                           \
  do {                                                             \
    int result_ = enter_device(ID_##function, handle, &device);    \
    if (result_) return result_;                                   \
  } while (0)

static int copy_text(char *buffer, unsigned length, const char *text) {
  if (!buffer) return INVALID_ARGUMENT;
  if (strlen(text) >= length) return INSUFFICIENT_SIZE;
  strcpy(buffer, text);
  return SUCCESS;
}

/* --- the library --------------------------------------------------------------------------- */

static int initialize(enum function function) {
  int result = references ? SUCCESS : map_state();
  if (result) return result;
  result = enter_unchecked(function);
  if (result) return result;
  if (references++ == 0) {
    session = mapped->session;
    epoch++;
  }
  return SUCCESS;
}

API int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  return initialize(ID_nvmlInitWithFlags);
}

API int nvmlInit_v2(void) { return initialize(ID_nvmlInit_v2); }

API int nvmlShutdown(void) {
  if (!references) return UNINITIALIZED;
  int fault = enter_unchecked(ID_nvmlShutdown);
  if (fault) return fault;
  references--;
  return SUCCESS;
}

API const char *nvmlErrorString(int result) {
  return result == SUCCESS ? "Success" : "An error told by the stand-in";
}

API int nvmlSystemGetDriverVersion(char *buffer, unsigned length) {
  ENTER(nvmlSystemGetDriverVersion);
  return copy_text(buffer, length, mapped->driver_version);
}

API int nvmlSystemGetNVMLVersion(char *buffer, unsigned length) {
  ENTER(nvmlSystemGetNVMLVersion);
  return copy_text(buffer, length, mapped->nvml_version);
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  ENTER(nvmlSystemGetCudaDriverVersion_v2);
  *version = (int)mapped->cuda_driver_version;
  return SUCCESS;
}

/* --- finding devices ------------------------------------------------------------------------ */

API int nvmlDeviceGetCount_v2(unsigned *count) {
  ENTER(nvmlDeviceGetCount_v2);
  *count = mapped->gpu_count;
  return SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, handle_t *handle) {
  ENTER(nvmlDeviceGetHandleByIndex_v2);
  if (index >= mapped->gpu_count) return INVALID_ARGUMENT;
  int fault = device_fault(ID_nvmlDeviceGetHandleByIndex_v2, &mapped->devices[index]);
  if (fault) return fault;
  *handle = handle_of(index);
  return SUCCESS;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, handle_t *handle) {
  ENTER(nvmlDeviceGetHandleByUUID);
  for (unsigned slot = 0; slot < MAX_GPUS + MAX_SLICES; slot++) {
    const struct device *device = &mapped->devices[slot];
    int present = slot < MAX_GPUS ? slot < mapped->gpu_count : device->parent >= 0;
    if (!present || strcmp(uuid, device->uuid)) continue;
    *handle = handle_of(slot);
    return SUCCESS;
  }
  return NOT_FOUND;
}

API int nvmlDeviceGetIndex(handle_t handle, unsigned *index) {
  ENTER_DEVICE(nvmlDeviceGetIndex, handle);
  *index = slot_of(device);
  return SUCCESS;
}

API int nvmlDeviceGetName(handle_t handle, char *buffer, unsigned length) {
  ENTER_DEVICE(nvmlDeviceGetName, handle);
  return copy_text(buffer, length, device->name);
}

API int nvmlDeviceGetUUID(handle_t handle, char *buffer, unsigned length) {
  ENTER_DEVICE(nvmlDeviceGetUUID, handle);
  return copy_text(buffer, length, device->uuid);
}

struct pci_info {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

API int nvmlDeviceGetPciInfo_v3(handle_t handle, struct pci_info *info) {
  ENTER_DEVICE(nvmlDeviceGetPciInfo_v3, handle);
  memset(info, 0, sizeof *info);
  memcpy(info->bus_id, device->pci_bus_id, sizeof info->bus_id);
  if (strlen(device->pci_bus_id) > 4) /* the older form has a domain of four digits */
    strncpy(info->bus_id_legacy, device->pci_bus_id + 4, sizeof info->bus_id_legacy - 1);
  return SUCCESS;
}

struct addressing_mode {
  unsigned version, value;
};

API int nvmlDeviceGetAddressingMode(handle_t handle, struct addressing_mode *mode) {
  ENTER_DEVICE(nvmlDeviceGetAddressingMode, handle);
  if (mode->version != (sizeof *mode | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
  mode->value = device->addressing_mode;
  return SUCCESS;
}

/* --- MIG ------------------------------------------------------------------------------------- */

API int nvmlDeviceGetMigMode(handle_t handle, unsigned *current, unsigned *pending) {
  ENTER_DEVICE(nvmlDeviceGetMigMode, handle);
  *current = *pending = device->mig_enabled;
  return SUCCESS;
}

API int nvmlDeviceGetMaxMigDeviceCount(handle_t handle, unsigned *count) {
  ENTER_DEVICE(nvmlDeviceGetMaxMigDeviceCount, handle);
  *count = device->mig_enabled ? 7 : 0;
  return SUCCESS;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(handle_t handle, unsigned index, handle_t *slice) {
  ENTER_DEVICE(nvmlDeviceGetMigDeviceHandleByIndex, handle);
  for (unsigned slot = MAX_GPUS; slot < MAX_GPUS + MAX_SLICES; slot++) {
    if (mapped->devices[slot].parent != (int)slot_of(device) || index-- > 0) continue;
    *slice = handle_of(slot);
    return SUCCESS;
  }
  return NOT_FOUND;
}

API int nvmlDeviceIsMigDeviceHandle(handle_t handle, unsigned *is_slice) {
  ENTER_DEVICE(nvmlDeviceIsMigDeviceHandle, handle);
  *is_slice = device->parent >= 0;
  return SUCCESS;
}

API int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle_t handle, handle_t *parent) {
  ENTER_DEVICE(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle);
  if (device->parent < 0) return INVALID_ARGUMENT;
  *parent = handle_of((unsigned)device->parent);
  return SUCCESS;
}

API int nvmlDeviceGetGpuInstanceId(handle_t handle, unsigned *id) {
  ENTER_DEVICE(nvmlDeviceGetGpuInstanceId, handle);
  *id = device->gpu_instance_id;
  return SUCCESS;
}

API int nvmlDeviceGetComputeInstanceId(handle_t handle, unsigned *id) {
  ENTER_DEVICE(nvmlDeviceGetComputeInstanceId, handle);
  *id = device->compute_instance_id;
  return SUCCESS;
}

/* --- figures ---------------------------------------------------------------------------------- */

static uint64_t free_bytes(const struct device *device) {
  uint64_t taken = device->used_bytes + device->reserved_bytes;
  return taken < device->total_bytes ? device->total_bytes - taken : 0;
}

struct memory_v1 {
  uint64_t total, free, used;
};

/* As in the real one, `used` of the first version includes what the driver reserves. */
API int nvmlDeviceGetMemoryInfo(handle_t handle, struct memory_v1 *memory) {
  ENTER_DEVICE(nvmlDeviceGetMemoryInfo, handle);
  memory->total = device->total_bytes;
  memory->free = free_bytes(device);
  memory->used = device->used_bytes + device->reserved_bytes;
  return SUCCESS;
}

struct memory_v2 {
  unsigned version;
  uint64_t total, reserved, free, used;
};

API int nvmlDeviceGetMemoryInfo_v2(handle_t handle, struct memory_v2 *memory) {
  ENTER_DEVICE(nvmlDeviceGetMemoryInfo_v2, handle);
  if (memory->version != (sizeof *memory | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
  memory->total = device->total_bytes;
  memory->reserved = device->reserved_bytes;
  memory->free = free_bytes(device);
  memory->used = device->used_bytes;
  return SUCCESS;
}

API int nvmlDeviceGetUtilizationRates(handle_t handle, unsigned rates[2]) {
  ENTER_DEVICE(nvmlDeviceGetUtilizationRates, handle);
  if (device->mig_enabled || device->parent >= 0) return NOT_SUPPORTED;
  rates[0] = device->utilization_percent;
  rates[1] = device->memory_utilization_percent;
  return SUCCESS;
}

API int nvmlDeviceGetTemperature(handle_t handle, unsigned sensor, unsigned *temperature) {
  ENTER_DEVICE(nvmlDeviceGetTemperature, handle);
  if (sensor != 0) return INVALID_ARGUMENT;
  if (device->parent >= 0) return NOT_SUPPORTED;
  *temperature = device->temperature_c;
  return SUCCESS;
}

struct temperature_v1 {
  unsigned version;
  unsigned sensor;
  int temperature;
};

API int nvmlDeviceGetTemperatureV(handle_t handle, struct temperature_v1 *reading) {
  ENTER_DEVICE(nvmlDeviceGetTemperatureV, handle);
  if (reading->version != (sizeof *reading | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
  if (device->parent >= 0) return NOT_SUPPORTED;
  reading->temperature = (int)device->temperature_c;
  return SUCCESS;
}

API int nvmlDeviceGetPowerUsage(handle_t handle, unsigned *milliwatts) {
  ENTER_DEVICE(nvmlDeviceGetPowerUsage, handle);
  if (device->parent >= 0) return NOT_SUPPORTED;
  *milliwatts = device->power_mw;
  return SUCCESS;
}

API int nvmlDeviceGetEnforcedPowerLimit(handle_t handle, unsigned *milliwatts) {
  ENTER_DEVICE(nvmlDeviceGetEnforcedPowerLimit, handle);
  if (device->parent >= 0) return NOT_SUPPORTED;
  *milliwatts = device->power_limit_mw;
  return SUCCESS;
}

/* --- processes -------------------------------------------------------------------------------- */

struct process_info {
  unsigned pid;
  uint64_t used_bytes;
  unsigned gpu_instance_id, compute_instance_id;
};

/* A slice tells its own processes; a GPU all of them. */
static int list_processes(const struct device *device, uint32_t kind, unsigned *count,
                          struct process_info *list) {
  const struct device *owner = device->parent >= 0 ? &mapped->devices[device->parent] : device;
  unsigned room = *count, found = 0;
  for (unsigned i = 0; i < owner->process_count && i < MAX_PROCESSES; i++) {
    const struct process *process = &owner->processes[i];
    if (!(process->kinds & kind)) continue;
    if (owner != device && process->slice != (int)slot_of(device)) continue;
    if (list && found < room) {
      const struct device *slice = process->slice >= 0 ? &mapped->devices[process->slice] : NULL;
      list[found].pid = process->pid;
      list[found].used_bytes = process->used_bytes;
      list[found].gpu_instance_id = slice ? slice->gpu_instance_id : 0xffffffffu;
      list[found].compute_instance_id = slice ? slice->compute_instance_id : 0xffffffffu;
    }
    found++;
  }
  *count = found;
  return found > room || (found && !list) ? INSUFFICIENT_SIZE : SUCCESS;
}

API int nvmlDeviceGetComputeRunningProcesses_v2(handle_t handle, unsigned *count,
                                                struct process_info *list) {
  ENTER_DEVICE(nvmlDeviceGetComputeRunningProcesses_v2, handle);
  return list_processes(device, COMPUTE, count, list);
}

API int nvmlDeviceGetComputeRunningProcesses_v3(handle_t handle, unsigned *count,
                                                struct process_info *list) {
  ENTER_DEVICE(nvmlDeviceGetComputeRunningProcesses_v3, handle);
  return list_processes(device, COMPUTE, count, list);
}

API int nvmlDeviceGetGraphicsRunningProcesses_v2(handle_t handle, unsigned *count,
                                                 struct process_info *list) {
  ENTER_DEVICE(nvmlDeviceGetGraphicsRunningProcesses_v2, handle);
  return list_processes(device, GRAPHICS, count, list);
}

API int nvmlDeviceGetGraphicsRunningProcesses_v3(handle_t handle, unsigned *count,
                                                 struct process_info *list) {
  ENTER_DEVICE(nvmlDeviceGetGraphicsRunningProcesses_v3, handle);
  return list_processes(device, GRAPHICS, count, list);
}

/* --- what only peers ask ------------------------------------------------------------------------ */

API int nvmlDeviceGetPcieThroughput(handle_t handle, unsigned counter, unsigned *kb_per_s) {
  ENTER_DEVICE(nvmlDeviceGetPcieThroughput, handle);
  if (counter > 1) return INVALID_ARGUMENT;
  *kb_per_s = device->pcie_kb_per_s;
  return SUCCESS;
}

API int nvmlDeviceGetMaxPcieLinkGeneration(handle_t handle, unsigned *generation) {
  ENTER_DEVICE(nvmlDeviceGetMaxPcieLinkGeneration, handle);
  *generation = device->pcie_generation;
  return SUCCESS;
}

API int nvmlDeviceGetMaxPcieLinkWidth(handle_t handle, unsigned *width) {
  ENTER_DEVICE(nvmlDeviceGetMaxPcieLinkWidth, handle);
  *width = device->pcie_width;
  return SUCCESS;
}

/* These cards have no NVLink. */
API int nvmlDeviceGetNvLinkVersion(handle_t handle, unsigned link, unsigned *version) {
  (void)link, (void)version;
  ENTER_DEVICE(nvmlDeviceGetNvLinkVersion, handle);
  return NOT_SUPPORTED;
}

struct field_value {
  uint32_t field, scope;
  int64_t timestamp, latency_us;
  uint32_t value_type, result;
  uint64_t value;
};

/* The call itself succeeds; every field says for itself that it is not supported. */
API int nvmlDeviceGetFieldValues(handle_t handle, int count, struct field_value *values) {
  ENTER_DEVICE(nvmlDeviceGetFieldValues, handle);
  for (int i = 0; i < count; i++) {
    values[i].result = NOT_SUPPORTED;
    values[i].value = 0;
  }
  return SUCCESS;
}
