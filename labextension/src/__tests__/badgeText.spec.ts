import { badgeText, bytesText } from '../badge/text';
import { ICellDevice, IDevice, IKernelCell } from '../wire';
import { snapshotExample } from './support/wire';

const GIB = 2 ** 30;
const MIB = 2 ** 20;
const SETTINGS = { unit: 'GiB', cellBadgeThresholdMiB: 100 } as const;

const gpus: IDevice[] = snapshotExample().devices;
const host: IDevice[] = [{ ...gpus[0]!, id: 'host', kind: 'host', name: 'Host memory' }];

function device(start: number, end: number, peak: number, exact = true, number = 0): ICellDevice {
  return {
    id: gpus[number]!.id,
    start_bytes: start,
    end_bytes: end,
    peak_bytes: peak,
    peak_exact: exact
  };
}

function run(devices: ICellDevice[] | undefined, rss: number | null = null): IKernelCell {
  return { execution_count: 3, started_at: 1, ended_at: 2, devices, rss_change_bytes: rss };
}

describe('bytesText', () => {
  it.each([
    [0, '0 B'],
    [512, '512 B'],
    [3 * 1024, '3.0 KiB'],
    [100 * MIB, '100 MiB'],
    [1000 * MIB, '1.0 GiB'],
    [7.62 * GIB, '7.6 GiB'],
    [79.96 * GIB, '80.0 GiB'],
    [141.2 * GIB, '141 GiB']
  ])('shows %d bytes as %s', (bytes, text) => {
    expect(bytesText(bytes, 'GiB')).toBe(text);
  });

  it('knows the decimal unit', () => {
    expect(bytesText(7.62e9, 'GB')).toBe('7.6 GB');
    expect(bytesText(350e6, 'GB')).toBe('350 MB');
    expect(bytesText(2e3, 'GB')).toBe('2.0 kB');
  });
});

describe('badgeText', () => {
  const text = (...args: Parameters<typeof run>) => badgeText(run(...args), gpus, SETTINGS)?.text;

  it('tells the peak and what was kept', () => {
    expect(text([device(2 * GIB, 3.2 * GIB, 7.6 * GIB)])).toBe('7.6 GiB peak · +1.2 GiB kept');
  });

  it('marks a peak that was only sampled', () => {
    expect(text([device(2 * GIB, 2 * GIB, 3 * GIB, false)])).toBe('≥ 3.0 GiB peak');
  });

  it('tells what was released', () => {
    expect(text([device(2 * GIB, GIB, 2 * GIB)])).toBe('2.0 GiB peak · −1.0 GiB released');
  });

  it('tells of the fullest of several GPUs, and of each in the details', () => {
    const badge = badgeText(
      run([device(0, GIB, GIB), device(0, 0, 4 * GIB, false, 1)]),
      gpus,
      SETTINGS
    );
    expect(badge?.text).toBe('≥ 4.0 GiB peak · 2 GPUs');
    expect(badge?.details).toEqual([
      'GPU 0: allocated 1.0 GiB at the end (+1.0 GiB since the start), peak 1.0 GiB.',
      'GPU 1: allocated 0 B at the end (as at the start), peak 4.0 GiB or more, as it was only' +
        ' sampled.'
    ]);
  });

  it('names a GPU that has gone by its id', () => {
    const gone = { ...device(0, GIB, GIB), id: 'GPU-gone' };
    expect(badgeText(run([gone]), gpus, SETTINGS)?.details[0]).toMatch(/^GPU-gone: /);
  });

  it('is silent about a run that touched no device memory', () => {
    expect(text([])).toBeUndefined();
    expect(text(undefined)).toBeUndefined();
    expect(text([], 4 * GIB)).toBeUndefined();
  });

  it('tells the change of resident memory where there is no GPU', () => {
    const text = (rss: number | null) => badgeText(run([], rss), host, SETTINGS)?.text;
    expect(text(350 * MIB)).toBe('+350 MiB resident');
    expect(text(-350 * MIB)).toBe('−350 MiB resident');
    expect(text(99 * MIB)).toBeUndefined();
    expect(text(null)).toBeUndefined();
  });
});
