import { csvOf } from '../export';
import { DEFAULT_SETTINGS } from '../settings';
import { IVramModel } from '../tokens';
import { snapshotExample } from './support/wire';

function model(name = 'train.ipynb'): IVramModel {
  const { history, ...snapshot } = snapshotExample();
  const [first] = snapshot.kernels;
  for (const past of Object.values(history)) {
    const kernel = past.kernels[first!.kernel_id];
    if (kernel) {
      kernel.name = name;
    }
  }
  return {
    snapshot,
    histories: new Map(Object.entries(history)),
    settings: DEFAULT_SETTINGS,
    focusedKernelId: null
  } as unknown as IVramModel;
}

describe('csvOf', () => {
  it('has a line for each measurement and holder, which add up to the device', () => {
    const { snapshot, histories } = model();
    const gpu = snapshot!.devices[0]!;
    const lines = csvOf(model()).trim().split('\r\n');
    expect(lines[0]).toBe('time,device,device_id,holder,kernel_id,bytes');
    const last = histories.get(gpu.id)!.time.slice(-1)[0]!;
    const moment = new Date(last * 1000).toISOString();
    const sum = lines
      .map(line => line.split(','))
      .filter(cells => cells[0] === moment && cells[2] === gpu.id)
      .reduce((total, cells) => total + Number(cells[5]), 0);
    expect(sum).toBe(gpu.total_bytes);
  });

  it('quotes, and keeps a name from being run as a formula', () => {
    expect(csvOf(model('a "b", c.ipynb'))).toContain('"a ""b"", c.ipynb"');
    expect(csvOf(model('=HYPERLINK(1).ipynb'))).toContain(",'=HYPERLINK(1).ipynb,");
  });

  it('leaves hidden devices out', () => {
    const shown = model();
    const [gpu] = shown.snapshot!.devices;
    const settings = { ...DEFAULT_SETTINGS, hiddenDevices: [gpu!.id] };
    expect(csvOf({ ...shown, settings })).not.toContain(gpu!.id);
  });
});
