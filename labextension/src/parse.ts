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
  Parts
} from './wire';

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isFieldsList(value: unknown): value is Fields[] {
  return Array.isArray(value) && value.every(isFields);
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every(item => typeof item === 'string');
}

function isDevices(value: unknown): boolean {
  return (
    isFieldsList(value) &&
    value.every(
      device =>
        typeof device.id === 'string' &&
        typeof device.name === 'string' &&
        isFieldsList(device.processes) &&
        isFields(device.reasons)
    )
  );
}

function isKernels(value: unknown): boolean {
  return (
    isFieldsList(value) &&
    value.every(
      kernel =>
        typeof kernel.kernel_id === 'string' &&
        typeof kernel.name === 'string' &&
        isTexts(kernel.paths) &&
        isFieldsList(kernel.cells) &&
        // A server of an earlier version does not tell what runs did to memory.
        kernel.cells.every(cell => cell.devices === undefined || isFieldsList(cell.devices)) &&
        isFieldsList(kernel.devices) &&
        kernel.devices.every(share => typeof share.id === 'string' && isFields(share.parts))
    )
  );
}

function isNotices(value: unknown): boolean {
  return isFieldsList(value) && value.every(notice => typeof notice.message === 'string');
}

/** Checks of the sections that a tick may bring too. */
const SECTIONS: Record<string, (value: unknown) => boolean> = {
  devices: isDevices,
  kernels: isKernels,
  notices: isNotices,
  interval_s: value => typeof value === 'number',
  stale: value => typeof value === 'boolean'
};

function areColumns(value: unknown, rows: number): boolean {
  return (
    isFields(value) &&
    Object.values(value).every(column => Array.isArray(column) && column.length === rows)
  );
}

function isHistory(value: unknown): boolean {
  if (!isFields(value) || !Array.isArray(value.time) || !isFields(value.kernels)) {
    return false;
  }
  const rows = value.time.length;
  return (
    areColumns(value.columns, rows) &&
    Object.values(value.kernels).every(
      kernel => isFields(kernel) && areColumns(kernel.parts, rows) && isFieldsList(kernel.cells)
    )
  );
}

function isSnapshotMessage(value: Fields): boolean {
  const columns = value.tick_columns;
  return (
    typeof value.time === 'number' &&
    Object.entries(SECTIONS).every(([name, isSection]) => isSection(value[name])) &&
    isFields(value.history) &&
    Object.values(value.history).every(isHistory) &&
    isFields(columns) &&
    [columns.devices, columns.kernels, columns.kernel_devices].every(isTexts)
  );
}

function isTick(value: Fields): boolean {
  const { changed } = value;
  return (
    typeof value.time === 'number' &&
    [value.devices, value.kernels].every(
      rows => Array.isArray(rows) && rows.every(row => Array.isArray(row))
    ) &&
    (changed === undefined ||
      (isFields(changed) &&
        Object.entries(changed).every(([name, section]) => SECTIONS[name]?.(section) ?? true)))
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
 * The snapshot after a tick, made of new objects. Sections under `changed` come first: the rows
 * are in their order.
 *
 * Returns `null` if the rows do not fit the sections, so that something was missed.
 */
export function applyTick(
  snapshot: ISnapshot,
  tick: ITick,
  columns: ITickColumns
): ISnapshot | null {
  const base: ISnapshot = { ...snapshot, ...tick.changed, time: tick.time };
  const devices = merged(base.devices, tick.devices, (device, row) =>
    withRow<IDevice>(device, row, columns.devices)
  );
  const kernels = merged(base.kernels, tick.kernels, (kernel, row) =>
    withKernelRow(kernel, row, columns)
  );
  return devices && kernels && { ...base, devices, kernels };
}

/** Each item with its row; `null` if any does not fit. */
function merged<T>(
  items: readonly T[],
  rows: unknown,
  withItsRow: (item: T, row: unknown) => T | null
): T[] | null {
  if (!Array.isArray(rows) || rows.length !== items.length) {
    return null;
  }
  const result: T[] = [];
  for (const [i, item] of items.entries()) {
    const next = withItsRow(item, rows[i]);
    if (next === null) {
      return null;
    }
    result.push(next);
  }
  return result;
}

function withRow<T extends object>(fields: T, row: unknown, names: string[]): T | null {
  if (!Array.isArray(row) || row.length !== names.length) {
    return null;
  }
  return { ...fields, ...Object.fromEntries(names.map((name, i) => [name, row[i] as unknown])) };
}

function withKernelRow(kernel: IKernel, row: unknown, columns: ITickColumns): IKernel | null {
  const next = withRow<IKernel>(kernel, row, columns.kernels);
  const devices =
    next &&
    merged(kernel.devices, next.devices, (share, shareRow) =>
      withShareRow(share, shareRow, columns.kernel_devices)
    );
  return devices && { ...next, devices };
}

function withShareRow(share: IKernelDevice, row: unknown, names: string[]): IKernelDevice | null {
  const next = withRow(share, row, names);
  if (next === null) {
    return null;
  }
  // A row's parts are bare figures, in the order of the keys of the parts last named.
  const parts = withRow<Parts>({}, next.parts, Object.keys(share.parts));
  return parts && { ...next, parts };
}
