import { IDevice, IHistory, IKernel, IKernelDevice, ISnapshot, PartName, Parts } from './wire';

/** Bottom to top in a chart. */
export type OwnerKind = 'driver' | 'unattributed' | 'other' | 'notebook' | PartName;

/** One band of a device: somebody's bytes, told apart from all others. */
export interface IOwner {
  /** Stable over time: for colours and for finding the same band again. */
  key: string;
  kind: OwnerKind;
  label: string;
  /** Which kernel's, if a kernel's. */
  kernelId: string | null;
  bytes: number | null;
  /** Why the figure is unknown, or what it is. */
  hint: string | null;
}

export interface IDeviceOwners {
  /** The focused kernel's parts, if it has a share of this device. */
  own: IOwner[];
  notebooks: IOwner[];
  rest: IOwner[];
  free: IOwner;
}

export const PART_LABELS: Record<PartName, string> = {
  allocated: 'allocated',
  reserved_free: 'reserved, free',
  context: 'context, libraries',
  process: 'process',
  resident: 'resident'
};

const PART_HINTS: Record<PartName, string> = {
  allocated: 'Blocks in use by tensors.',
  reserved_free: "Held by torch's caching allocator for later tensors.",
  context: 'CUDA context, libraries and child processes.',
  process: 'All that the driver charges this process with, undivided.',
  resident: "The kernel's resident memory in this machine's RAM."
};

/** As a table lists them. */
const PART_ORDER: PartName[] = ['allocated', 'reserved_free', 'context', 'process', 'resident'];

const STACK_ORDER: PartName[] = ['resident', 'process', 'context', 'allocated', 'reserved_free'];

const sum = (parts: Parts): number =>
  Object.values(parts).reduce((total, bytes) => total + (bytes ?? 0), 0);

/** What a kernel holds of a device: all its parts. */
export function held(share: IKernelDevice): number {
  return sum(share.parts);
}

export function shareOf(kernel: IKernel, deviceId: string): IKernelDevice | undefined {
  return kernel.devices.find(share => share.id === deviceId);
}

/**
 * What a kernel holds of a device. A share that nobody could measure is unknown, not nothing; and so
 * is one that is not listed, if the processes of the device can't be told apart.
 */
export function heldOf(kernel: IKernel, device: IDevice): number | null {
  const share = shareOf(kernel, device.id);
  if (share) {
    return Object.keys(share.parts).length ? held(share) : null;
  }
  return device.other_bytes === null ? null : 0;
}

/** Who holds what of a device. All bands with known bytes add up to its total. */
export function ownersOf(
  snapshot: ISnapshot,
  device: IDevice,
  focusedKernelId: string | null
): IDeviceOwners {
  const own: IOwner[] = [];
  const notebooks: IOwner[] = [];
  for (const kernel of snapshot.kernels) {
    const share = shareOf(kernel, device.id);
    if (!share) {
      continue;
    }
    if (kernel.kernel_id === focusedKernelId) {
      own.push(...ownParts(kernel, share));
    } else {
      notebooks.push({
        key: `kernel:${kernel.kernel_id}`,
        kind: 'notebook',
        label: kernel.name,
        kernelId: kernel.kernel_id,
        bytes: heldOf(kernel, device),
        hint: kernel.reason
      });
    }
  }
  notebooks.sort((a, b) => (b.bytes ?? -1) - (a.bytes ?? -1) || a.label.localeCompare(b.label));
  return { own, notebooks, rest: restOf(device), free: freeOf(device) };
}

function ownParts(kernel: IKernel, share: IKernelDevice): IOwner[] {
  return PART_ORDER.filter(name => share.parts[name] !== undefined).map(name => ({
    key: `own:${name}`,
    kind: name,
    label: PART_LABELS[name],
    kernelId: kernel.kernel_id,
    bytes: share.parts[name] ?? null,
    hint: PART_HINTS[name]
  }));
}

function restOf(device: IDevice): IOwner[] {
  const rest: IOwner[] = [
    band('other', 'other processes', device.other_bytes, device.reasons.other_bytes)
  ];
  if (device.unattributed_bytes) {
    const why = device.reasons.unattributed_bytes;
    rest.push(band('unattributed', 'unattributed', device.unattributed_bytes, why));
  }
  if (device.kind !== 'host' && device.driver_reserved_bytes !== null) {
    rest.push(band('driver', 'driver', device.driver_reserved_bytes));
  }
  return rest;
}

function band(kind: OwnerKind, label: string, bytes: number | null, hint?: string): IOwner {
  return { key: kind, kind, label, kernelId: null, bytes, hint: hint ?? null };
}

function freeOf(device: IDevice): IOwner {
  const why = device.reasons.free_bytes ?? null;
  return { ...band('other', 'free', device.free_bytes), key: 'free', hint: why };
}

/** One band of a device's past; `values` is as long as the history's time. */
export interface ISeries {
  key: string;
  kind: OwnerKind;
  label: string;
  kernelId: string | null;
  values: (number | null)[];
}

/** The same bands over time, bottom to top: driver, others, notebooks, and this one on top. */
export function seriesOf(history: IHistory, focusedKernelId: string | null): ISeries[] {
  const column = (name: string) => history.columns[name] ?? history.time.map(() => null);
  const series: ISeries[] = [
    line('driver', 'driver', column('driver_reserved_bytes')),
    line('other', 'other processes', column('other_bytes')),
    line('unattributed', 'unattributed', column('unattributed_bytes'))
  ];
  const kernels = Object.entries(history.kernels);
  for (const [id, kernel] of kernels) {
    if (id !== focusedKernelId) {
      const columns = Object.values(kernel.parts);
      const values = history.time.map((_, i) => total(columns.map(item => item[i] ?? null)));
      const label = kernel.ended ? `${kernel.name} (ended)` : kernel.name;
      series.push({ key: `kernel:${id}`, kind: 'notebook', label, kernelId: id, values });
    }
  }
  const focused = focusedKernelId === null ? undefined : history.kernels[focusedKernelId];
  // What the user can act on is on top, where it moves; the context is the steady base.
  for (const name of STACK_ORDER) {
    const values = focused?.parts[name];
    if (values) {
      const label = PART_LABELS[name];
      series.push({ key: `own:${name}`, kind: name, label, kernelId: focusedKernelId, values });
    }
  }
  return series.filter(item => item.values.some(value => value));
}

function line(kind: OwnerKind, label: string, values: (number | null)[]): ISeries {
  return { key: kind, kind, label, kernelId: null, values };
}

function total(values: (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null);
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
}
