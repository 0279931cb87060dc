import { append } from '../history';
import { IHistory, ISnapshot } from '../wire';
import { snapshotExample } from './support/wire';

const START = 1_000_000;

function snapshotAt(time: number, usedBytes: number | null = 0): ISnapshot {
  const snapshot: ISnapshot = snapshotExample();
  snapshot.time = time;
  snapshot.devices[0]!.used_bytes = usedBytes;
  return snapshot;
}

const DEVICE = snapshotAt(START).devices[0]!.id;
const TRAIN = snapshotAt(START).kernels[0]!.kernel_id;
const EXPLORE = snapshotAt(START).kernels[1]!.kernel_id;

/** The past after a figure at each of these times. */
function past(times: number[], windowSeconds: number, used: (i: number) => number): IHistory {
  const snapshot = snapshotAt(START);
  let history: IHistory | undefined;
  times.forEach((time, i) => {
    snapshot.time = time;
    snapshot.devices[0]!.used_bytes = used(i);
    history = append(history, snapshot, DEVICE, windowSeconds);
  });
  return history!;
}

function seconds(count: number, step = 1): number[] {
  return Array.from({ length: count }, (_, i) => START + i * step);
}

function expectRectangular(history: IHistory): void {
  const rows = history.time.length;
  const columns = [
    ...Object.values(history.columns),
    ...Object.values(history.kernels).flatMap(kernel => Object.values(kernel.parts))
  ];
  expect(new Set(columns.map(column => column.length))).toEqual(new Set([rows]));
}

describe('append', () => {
  it('goes on where the server’s history ends', () => {
    const message = snapshotExample();
    const before = message.history[DEVICE]!;
    const rows = before.time.length;
    const next = append(before, snapshotAt(message.time + 1, 7), DEVICE, 300);
    expect(next).not.toBe(before);
    expect(next.time).toHaveLength(rows + 1);
    expect(next.columns.used_bytes![rows]).toBe(7);
    expect(next.kernels[TRAIN]!.parts.allocated![rows]).toBe(8589934592);
    expect(next.kernels[EXPLORE]!.parts.process![rows]).toBe(1610612736);
    expectRectangular(next);
  });

  it('takes no measurement twice', () => {
    const message = snapshotExample();
    const before = message.history[DEVICE]!;
    expect(append(before, snapshotAt(message.time), DEVICE, 300)).toBe(before);
  });

  it('keeps what is unknown unknown', () => {
    const first = append(undefined, snapshotAt(START, null), DEVICE, 300);
    expect(first.columns.used_bytes).toEqual([null]);
    const gone = snapshotAt(START + 1);
    gone.devices = [];
    const second = append(first, gone, DEVICE, 300);
    expect(second.columns.free_bytes![1]).toBeNull();
    expectRectangular(second);
  });

  it('begins the part of a kernel that came later with nothing', () => {
    const alone = snapshotAt(START);
    alone.kernels = alone.kernels.slice(1);
    const first = append(undefined, alone, DEVICE, 300);
    const next = append(first, snapshotAt(START + 1), DEVICE, 300);
    expect(next.kernels[TRAIN]!.parts.allocated).toEqual([null, 8589934592]);
    expectRectangular(next);
  });

  it('marks a kernel that is gone as ended, and forgets it when its past has left the window', () => {
    let history = append(undefined, snapshotAt(START), DEVICE, 10);
    for (let i = 1; i <= 5; i++) {
      const alone = snapshotAt(START + i);
      alone.kernels = alone.kernels.slice(1);
      history = append(history, alone, DEVICE, 10);
    }
    expect(history.kernels[TRAIN]).toMatchObject({ ended: true, name: 'train.ipynb' });
    expect(history.kernels[EXPLORE]!.ended).toBe(false);
    expectRectangular(history);
    for (let i = 6; i <= 12; i++) {
      const alone = snapshotAt(START + i);
      alone.kernels = alone.kernels.slice(1);
      history = append(history, alone, DEVICE, 10);
    }
    expect(Object.keys(history.kernels)).toEqual([EXPLORE]);
  });

  it('remembers cells that the kernel no longer tells, and how a running one ended', () => {
    const cell = (at: number, ended_at: number | null) => ({
      execution_count: at,
      started_at: START + at,
      ended_at
    });
    const first = snapshotAt(START + 3);
    first.kernels[0]!.cells = [cell(1, START + 2), cell(2, null)];
    const second = snapshotAt(START + 4);
    second.kernels[0]!.cells = [cell(2, START + 3.5), cell(3, null)];
    const history = append(append(undefined, first, DEVICE, 300), second, DEVICE, 300);
    expect(history.kernels[TRAIN]!.cells).toEqual([
      cell(1, START + 2),
      cell(2, START + 3.5),
      cell(3, null)
    ]);
  });

  it('ends the run of a kernel that was restarted and never told its end', () => {
    const first = snapshotAt(START + 3);
    first.kernels[0]!.cells = [{ execution_count: 1, started_at: START + 1, ended_at: null }];
    const second = snapshotAt(START + 4);
    second.kernels[0]!.cells = [];
    const history = append(append(undefined, first, DEVICE, 300), second, DEVICE, 300);
    expect(history.kernels[TRAIN]!.cells).toEqual([
      { execution_count: 1, started_at: START + 1, ended_at: START + 3 }
    ]);
  });

  it('goes on when the clock of the server was set back', () => {
    const before = past(seconds(100), 300, i => i);
    const history = append(before, snapshotAt(START + 49.5), DEVICE, 300);
    expect(history.time.slice(-2)).toEqual([START + 49, START + 49.5]);
    expectRectangular(history);
  });

  it('tells how far apart its rows may be', () => {
    const slow = snapshotAt(START + 60);
    slow.interval_s = 60;
    const first = append(undefined, snapshotAt(START), DEVICE, 300);
    expect(first.resolution_s).toBe(1);
    expect(append(first, slow, DEVICE, 300).resolution_s).toBe(60);
  });

  it('keeps the window, and the row before it', () => {
    const history = past(seconds(100), 30, i => i);
    expect(history.time[0]).toBe(START + 68);
    expect(history.time[1]).toBe(START + 69);
    expect(history.time[history.time.length - 1]).toBe(START + 99);
    expectRectangular(history);
  });
});

describe('a long past', () => {
  const PEAK = 4242;
  const times = seconds(12_000);
  const history = past(times, 86_400, i => (i === PEAK ? 99 : i % 7));

  it('has a bounded number of rows', () => {
    expect(history.time.length).toBeLessThanOrEqual(2400);
    expectRectangular(history);
  });

  it('goes back to its beginning, with no gap wider than a chart can show', () => {
    expect(history.time[0]! - START).toBeLessThan(86_400 / 1200);
    expect(history.time[history.time.length - 1]).toBe(times[times.length - 1]);
    const gaps = history.time.slice(1).map((time, i) => time - history.time[i]!);
    expect(Math.min(...gaps)).toBeGreaterThan(0);
    expect(Math.max(...gaps)).toBeLessThanOrEqual((2 * 86_400) / 1200);
    expect(history.resolution_s).toBe(86_400 / 1200);
  });

  it('has every figure of the last minutes', () => {
    expect(history.time.slice(-600)).toEqual(times.slice(-600));
  });

  it('still shows a peak of one second', () => {
    const row = history.time.indexOf(START + PEAK);
    expect(history.columns.used_bytes![row]).toBe(99);
  });

  it('is bounded at the fastest rate, too', () => {
    const fast = past(seconds(5000, 0.1), 300, i => i);
    expect(fast.time.length).toBeLessThanOrEqual(2400);
    expect(fast.time[fast.time.length - 1]! - fast.time[0]!).toBeGreaterThanOrEqual(299);
  });
});
