import { DeviceColumns, ICellRun, IHistory, IKernelHistory, ISnapshot, PartName } from './wire';

/** Beyond this many rows the older ones are thinned; a chart has no more pixels. */
const MAX_ROWS = 2400;
/** The newest rows, which stay as fine as they came. */
const FINE_ROWS = 600;
/** Into so many pieces of equal length the window is cut; of the older rows each keeps one. */
const COARSE_ROWS = 1200;
/** Less is the measurement that came with the past, which may be a little newer. */
const SET_BACK_SECONDS = 5;

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
  const seen = base.time[base.time.length - 1] ?? -Infinity;
  if (snapshot.time <= seen) {
    if (seen - snapshot.time < SET_BACK_SECONDS) {
      return base; // the same measurement again
    }
    cutFrom(base, snapshot.time);
  }
  const rows = base.time.length;
  base.time.push(snapshot.time);
  const figures = (device ?? {}) as unknown as Record<string, unknown>;
  for (const [name, column] of Object.entries(base.columns)) {
    const figure = figures[name];
    column.push(typeof figure === 'number' ? figure : null);
  }
  const kernels = appendKernels(base.kernels, snapshot, deviceId, rows, seen);
  // Rows this far apart are no gap in the measuring.
  const resolution_s = Math.max(base.resolution_s, snapshot.interval_s);
  const next = { ...base, resolution_s, kernels };
  drop(next, outdated(next.time, snapshot.time - windowSeconds));
  if (next.time.length > MAX_ROWS) {
    thin(next, windowSeconds);
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
  rows: number,
  seen: number
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
      cells: mergeCells(known?.cells ?? [], kernel.cells, seen)
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

/** A run that the kernel tells no more and never ended was cut off, at the latest when last seen. */
function mergeCells(known: ICellRun[], latest: ICellRun[], seen: number): ICellRun[] {
  const first = latest[0]?.started_at ?? Infinity;
  const earlier = known
    .filter(cell => cell.started_at < first)
    .map(cell => ({ ...cell, ended_at: cell.ended_at ?? Math.max(cell.started_at, seen) }));
  return [...earlier, ...latest];
}

/** The server's clock was set back: rows of times to come are dropped, as the server does. */
function cutFrom(history: IHistory, time: number): void {
  const first = history.time.findIndex(item => item >= time);
  for (const column of columnsOf(history)) {
    column.splice(first);
  }
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
    if (kernel.ended && isEmpty(kernel)) {
      delete history.kernels[id];
    }
  }
}

function isEmpty(kernel: IKernelHistory): boolean {
  return Object.values(kernel.parts).every(column => column.every(bytes => bytes === null));
}

/** Keeps, of each piece of the window, the row with the most in use: no peak is lost. */
function thin(history: IHistory, windowSeconds: number): void {
  const { time } = history;
  const used = history.columns.used_bytes ?? [];
  const piece = (row: number) => Math.floor(((time[row] ?? 0) * COARSE_ROWS) / windowSeconds);
  const kept: number[] = [];
  for (let row = 0; row < time.length; row++) {
    const last = kept[kept.length - 1];
    const isFine = row >= time.length - FINE_ROWS;
    if (isFine || last === undefined || piece(last) !== piece(row)) {
      kept.push(row);
    } else if ((used[row] ?? -1) > (used[last] ?? -1)) {
      kept[kept.length - 1] = row;
    }
  }
  history.resolution_s = Math.max(history.resolution_s, windowSeconds / COARSE_ROWS);
  for (const column of columnsOf(history)) {
    column.splice(0, column.length, ...kept.map(row => column[row] ?? null));
  }
}
