import { heldOf, ownersOf, seriesOf } from '../owners';
import { snapshotExample } from './support/wire';

const snapshot = snapshotExample();
const gpu = snapshot.devices[0]!;
const [train, explore] = snapshot.kernels;

function bands(focused: string | null) {
  const { own, notebooks, rest, free } = ownersOf(snapshot, gpu, focused);
  return [...own, ...notebooks, ...rest, free];
}

describe('ownersOf', () => {
  it.each([
    ['no notebook', null],
    ['a kernel that reports', train!.kernel_id],
    ['a kernel without a report', explore!.kernel_id]
  ])('adds up to the total with %s in focus', (_, focused) => {
    const sum = bands(focused).reduce((total, band) => total + (band.bytes ?? 0), 0);
    expect(sum).toBe(gpu.total_bytes);
  });

  it('tells the parts of the focused notebook apart, the others by name', () => {
    const { own, notebooks } = ownersOf(snapshot, gpu, train!.kernel_id);
    expect(own.map(band => band.label)).toEqual([
      'allocated',
      'reserved, free',
      'context, libraries'
    ]);
    expect(notebooks.map(band => band.label)).toEqual(['explore.ipynb']);
  });

  it('has a distinct key for every band', () => {
    const keys = bands(train!.kernel_id).map(band => band.key);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('shows unattributed bytes only where there are some, with the reason', () => {
    const why = 'No process is named.';
    const device = { ...gpu, reasons: { unattributed_bytes: why } };
    const found = ownersOf(snapshot, device, null).rest.find(b => b.kind === 'unattributed');
    expect(found?.hint).toBe(why);
    const none = ownersOf(snapshot, { ...gpu, unattributed_bytes: 0 }, null).rest;
    expect(none.map(band => band.kind)).not.toContain('unattributed');
  });

  it('leaves a share without figures unknown', () => {
    const share = { ...explore!.devices[0]!, parts: {} };
    const kernels = [{ ...explore!, devices: [share] }];
    const { notebooks } = ownersOf({ ...snapshot, kernels }, gpu, null);
    expect(notebooks[0]!.bytes).toBeNull();
  });
});

describe('heldOf', () => {
  const elsewhere = { ...explore!, devices: [] };

  it('is nothing where the processes of the device are known, and none is this kernel’s', () => {
    expect(heldOf(elsewhere, { ...gpu, other_bytes: 0 })).toBe(0);
  });

  it('is unknown where they can’t be told apart', () => {
    expect(heldOf(elsewhere, { ...gpu, other_bytes: null })).toBeNull();
  });

  it('is unknown where the driver names the process without its bytes', () => {
    const share = { ...explore!.devices[0]!, parts: {} };
    expect(heldOf({ ...explore!, devices: [share] }, gpu)).toBeNull();
  });
});

describe('seriesOf', () => {
  const history = snapshot.history[gpu.id]!;

  it('stacks the focused notebook on top, what moves most uppermost', () => {
    const kinds = seriesOf(history, train!.kernel_id).map(series => series.kind);
    expect(kinds[0]).toBe('driver');
    expect(kinds.slice(-3)).toEqual(['context', 'allocated', 'reserved_free']);
  });

  it('sums another notebook up', () => {
    const series = seriesOf(history, explore!.kernel_id).find(
      item => item.kernelId === train!.kernel_id
    );
    const parts = history.kernels[train!.kernel_id]!.parts;
    const last = history.time.length - 1;
    const sum = Object.values(parts).reduce((total, column) => total + (column[last] ?? 0), 0);
    expect(series?.values[last]).toBe(sum);
    expect(series?.values[0]).toBeNull(); // it did not hold anything yet
  });

  it('marks a kernel that has ended', () => {
    const ended = { ...history.kernels[train!.kernel_id]!, ended: true };
    const past = { ...history, kernels: { [train!.kernel_id]: ended } };
    expect(seriesOf(past, null).map(item => item.label)).toContain('train.ipynb (ended)');
  });
});
