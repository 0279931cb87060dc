import { age, amount, shortName, size, title, usedPercent } from '../format';
import { snapshotExample } from './support/wire';

describe('amount', () => {
  it.each([
    [0, 'GiB', '0'],
    [3 * 2 ** 20, 'GiB', '<0.01'],
    [2 ** 30 / 2, 'GiB', '0.50'],
    [13.84 * 2 ** 30, 'GiB', '13.8'],
    [80 * 2 ** 30, 'GiB', '80.0'],
    [640 * 2 ** 30, 'GiB', '640'],
    [80e9, 'GB', '80.0'],
    [2 ** 30, 'GB', '1.1']
  ] as const)('%d bytes in %s', (bytes, unit, text) => {
    expect(amount(bytes, unit)).toBe(text);
  });

  it('never makes an unknown figure a number', () => {
    expect(amount(null, 'GiB')).toBe('–');
    expect(size(null, 'GiB')).toBe('–');
  });
});

describe('devices', () => {
  const [gpu, old] = snapshotExample().devices;

  it('are named shortly', () => {
    expect(shortName(gpu!)).toBe('GPU 0');
    expect(title(gpu!)).toBe('GPU 0 · RTX 4090');
    const slice = { ...gpu!, id: 'MIG-ab12cd34-0000', parent_id: 'GPU-1' };
    expect(shortName({ ...slice, name: 'A100 MIG 1g.5gb' })).toBe('GPU 0 · MIG 1g.5gb ab12');
    expect(shortName({ ...slice, name: 'slice' })).toBe('GPU 0 · MIG ab12');
    expect(title({ ...gpu!, kind: 'host', name: 'Host memory' })).toBe('Host memory');
  });

  it('are as full as what nobody can have any more', () => {
    const taken = gpu!.total_bytes! - gpu!.free_bytes!;
    expect(usedPercent(gpu!)).toBeCloseTo((100 * taken) / gpu!.total_bytes!);
    expect(usedPercent({ ...old!, total_bytes: null })).toBeNull();
    expect(usedPercent({ ...old!, free_bytes: null, used_bytes: null })).toBeNull();
  });
});

describe('age', () => {
  it.each([
    [0.4, 'just now'],
    [12, '12 s'],
    [180, '3 min'],
    [7200, '2 h']
  ])('%d s', (seconds, text) => {
    expect(age(seconds)).toBe(text);
  });
});
