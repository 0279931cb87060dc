import { DeviceColumns, ICellRun, IHistory, IKernelHistory, ISnapshot, PartName } from './wire';

/** Beyond this many rows every second one of the older half is dropped. */
const MAX_ROWS = 2400;

type Column = (number | null)[];

/**
 * A device's past with the newest snapshot appended, and rows older than the window dropped.
 *
 * The arrays are those of `history`, changed in place: appending is constant in time. The object
 * is a new one, so that views see a change.
 */
export function append(
  history: IHistory | undefined,
  snapshot: ISnapshot,
  deviceId: string,
  windowSeconds: number
): IHistory {
  const base = history ?? empty(deviceId, snapshot.interval_s);
  const device = snapshot.devices.find(item => item.id === deviceId);
  const rows = base.time.length;
  if (rows > 0 && snapshot.time <= (base.time[rows - 1] ?? 0)) {
    return base; // the same measurement again
  }
  base.time.push(snapshot.time);
  const figures = (device ?? {}) as unknown as Record<string, unknown>;
  for (const [name, column] of Object.entries(base.columns)) {
    const figure = figures[name];
    column.push(typeof figure === 'number' ? figure : null);
  }
  const kernels = appendKernels(base.kernels, snapshot, deviceId, rows);
  const next = { ...base, kernels };
  drop(next, outdated(next.time, snapshot.time - windowSeconds));
  if (next.time.length > MAX_ROWS) {
    thin(next);
  }
  return next;
}

function empty(deviceId: string, interval: number): IHistory {
  const names = [
    'used_bytes',
    'free_bytes',
    'driver_reserved_bytes',
    'other_bytes',
    'unattributed_bytes',
    'utilization_percent',
    'temperature_c',
    'power_w'
  ];
  const columns: DeviceColumns = Object.fromEntries(names.map(name => [name, []]));
  return { device: deviceId, resolution_s: interval, time: [], columns, kernels: {} };
}

function appendKernels(
  kernels: Record<string, IKernelHistory>,
  snapshot: ISnapshot,
  deviceId: string,
  rows: number
): Record<string, IKernelHistory> {
  const next: Record<string, IKernelHistory> = {};
  for (const [id, kernel] of Object.entries(kernels)) {
    next[id] = { ...kernel, ended: true };
  }
  for (const kernel of snapshot.kernels) {
    const share = kernel.devices.find(item => item.id === deviceId);
    const known = next[kernel.kernel_id];
    if (!share && !known) {
      continue;
    }
    const parts = known?.parts ?? {};
    for (const name of Object.keys(share?.parts ?? {}) as PartName[]) {
      parts[name] ??= new Array<number | null>(rows).fill(null);
    }
    next[kernel.kernel_id] = {
      name: kernel.name,
      paths: kernel.paths,
      ended: false,
      parts,
      cells: mergeCells(known?.cells ?? [], kernel.cells)
    };
    for (const [name, column] of Object.entries(parts) as [PartName, Column][]) {
      column.push(share?.parts[name] ?? null);
    }
  }
  for (const [id, kernel] of Object.entries(next)) {
    if (!snapshot.kernels.some(item => item.kernel_id === id)) {
      Object.values(kernel.parts).forEach(column => column?.push(null));
    }
  }
  return next;
}

function mergeCells(known: ICellRun[], latest: ICellRun[]): ICellRun[] {
  const first = latest[0]?.started_at ?? Infinity;
  return [...known.filter(cell => cell.started_at < first), ...latest];
}

function outdated(time: number[], since: number): number {
  let count = 0;
  // The last row before the window stays, so that the lines reach its edge.
  while (count + 1 < time.length && (time[count + 1] ?? 0) < since) {
    count++;
  }
  return count;
}

function columnsOf(history: IHistory): (number | null)[][] {
  return [
    history.time,
    ...Object.values(history.columns),
    ...Object.values(history.kernels).flatMap(kernel => Object.values(kernel.parts))
  ];
}

function drop(history: IHistory, count: number): void {
  if (count === 0) {
    return;
  }
  for (const column of columnsOf(history)) {
    column.splice(0, count);
  }
  const since = history.time[0] ?? 0;
  for (const [id, kernel] of Object.entries(history.kernels)) {
    kernel.cells = kernel.cells.filter(cell => (cell.ended_at ?? Infinity) >= since);
    const gone = Object.values(kernel.parts).every(column => column.every(x => x === null));
    if (kernel.ended && gone) {
      delete history.kernels[id];
    }
  }
}

/** Drops every second row of the older half, but never the one with the most in use of a pair. */
function thin(history: IHistory): void {
  const used = history.columns.used_bytes ?? [];
  const half = Math.floor(history.time.length / 4) * 2;
  const dropped = new Set<number>();
  for (let i = 0; i < half; i += 2) {
    dropped.add((used[i] ?? -1) > (used[i + 1] ?? -1) ? i + 1 : i);
  }
  for (const column of columnsOf(history)) {
    const kept = column.filter((_, i) => !dropped.has(i));
    column.splice(0, column.length, ...kept);
  }
}
