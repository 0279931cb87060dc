import {
  IDevice,
  IErrorMessage,
  IKernel,
  IKernelDevice,
  ISnapshot,
  ISnapshotMessage,
  ITick,
  ITickColumns,
  Message,
  PartName,
  Parts
} from './wire';

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isSnapshot(value: Fields): boolean {
  return (
    typeof value.time === 'number' &&
    typeof value.interval_s === 'number' &&
    [value.devices, value.kernels, value.notices].every(Array.isArray)
  );
}

function isSnapshotMessage(value: Fields): boolean {
  const columns = value.tick_columns;
  return (
    isSnapshot(value) &&
    isFields(value.history) &&
    isFields(columns) &&
    [columns.devices, columns.kernels, columns.kernel_devices].every(Array.isArray)
  );
}

function isTick(value: Fields): boolean {
  return (
    typeof value.time === 'number' &&
    Array.isArray(value.devices) &&
    Array.isArray(value.kernels) &&
    (value.changed === undefined || isFields(value.changed))
  );
}

/** A message of the stream, or `null` if it is none that this version understands. */
export function parseMessage(text: string): Message | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isFields(value)) {
    return null;
  }
  switch (value.type) {
    case 'snapshot':
      return isSnapshotMessage(value) ? (value as unknown as ISnapshotMessage) : null;
    case 'tick':
      return isTick(value) ? (value as unknown as ITick) : null;
    case 'error':
      return typeof value.message === 'string' ? (value as unknown as IErrorMessage) : null;
    default:
      return null;
  }
}

/**
 * The snapshot after a tick. Sections under `changed` come first: the rows refer to them.
 *
 * Returns `null` if the rows do not fit the sections, so that something was missed.
 */
export function applyTick(
  snapshot: ISnapshot,
  tick: ITick,
  columns: ITickColumns
): ISnapshot | null {
  const base: ISnapshot = { ...snapshot, ...tick.changed, time: tick.time };
  if (base.devices.length !== tick.devices.length || base.kernels.length !== tick.kernels.length) {
    return null;
  }
  const devices = base.devices.map((device, i) =>
    withRow<IDevice>(device, tick.devices[i] ?? [], columns.devices)
  );
  const kernels: IKernel[] = [];
  for (const [i, kernel] of base.kernels.entries()) {
    const row = withRow(
      { report_age_s: kernel.report_age_s, devices: [] as unknown[][] },
      tick.kernels[i] ?? [],
      columns.kernels
    );
    if (row.devices.length !== kernel.devices.length) {
      return null;
    }
    kernels.push({
      ...kernel,
      report_age_s: row.report_age_s,
      devices: kernel.devices.map((device, j) =>
        withShare(device, row.devices[j] ?? [], columns.kernel_devices)
      )
    });
  }
  return { ...base, devices, kernels };
}

function withRow<T extends object>(fields: T, row: readonly unknown[], names: string[]): T {
  const figures = Object.fromEntries(names.map((name, i) => [name, row[i] ?? null]));
  return { ...fields, ...figures };
}

function withShare(device: IKernelDevice, row: readonly unknown[], names: string[]): IKernelDevice {
  const share = withRow(device, row, names);
  // A row's parts are bare figures, in the order of the parts last named.
  const figures = share.parts as unknown;
  const parts: Parts = {};
  if (Array.isArray(figures)) {
    (Object.keys(device.parts) as PartName[]).forEach((name, i) => {
      const figure: unknown = figures[i];
      if (typeof figure === 'number') {
        parts[name] = figure;
      }
    });
  }
  return { ...share, parts };
}
