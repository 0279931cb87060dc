import { shortName } from '../format';
import { Unit } from '../tokens';
import { ICellDevice, IDevice, IKernelCell } from '../wire';

const MIB = 2 ** 20;
const STEPS: Record<Unit, [number, string][]> = {
  GiB: [
    [2 ** 30, 'GiB'],
    [MIB, 'MiB'],
    [2 ** 10, 'KiB']
  ],
  GB: [
    [1e9, 'GB'],
    [1e6, 'MB'],
    [1e3, 'kB']
  ]
};
/** Below this part of a unit the next smaller one is used: no "0.3 GiB", and no "1010 MiB". */
const LEAST = 0.975;

export interface IBadgeText {
  /** "7.6 GiB peak · +1.2 GiB kept" */
  text: string;
  /** A sentence per device, or about the process. */
  details: string[];
}

/** What of the settings a badge depends on. */
export interface IBadgeSettings {
  unit: Unit;
  cellBadgeThresholdMiB: number;
}

/** "7.6 GiB", "512 MiB", "3.0 KiB", "40 B". */
export function bytesText(bytes: number, unit: Unit): string {
  for (const [step, name] of STEPS[unit]) {
    const value = bytes / step;
    if (value >= LEAST) {
      return `${value.toFixed(value < 9.95 || (value < 99.95 && step > 1e8) ? 1 : 0)} ${name}`;
    }
  }
  return `${bytes} B`;
}

function signed(bytes: number, unit: Unit): string {
  return `${bytes < 0 ? '−' : '+'}${bytesText(Math.abs(bytes), unit)}`;
}

/**
 * What stands at a cell after a run; `null` if nothing does: it touched no device memory or, on a
 * machine without a GPU, changed its process's resident memory by less than the threshold.
 */
export function badgeText(
  run: IKernelCell,
  devices: readonly IDevice[],
  settings: IBadgeSettings
): IBadgeText | null {
  const { unit } = settings;
  const touched = run.devices ?? [];
  const main = [...touched].sort((a, b) => b.peak_bytes - a.peak_bytes)[0];
  if (main) {
    const others = touched.length > 1 ? ` · ${touched.length} GPUs` : '';
    return {
      text: deviceText(main, unit) + others,
      details: touched.map(device => deviceDetail(device, devices, unit))
    };
  }
  if (devices.some(device => device.kind === 'cuda')) {
    return null;
  }
  const change = run.rss_change_bytes ?? null;
  if (change === null || Math.abs(change) < settings.cellBadgeThresholdMiB * MIB) {
    return null;
  }
  const text = `${signed(change, unit)} resident`;
  return { text, details: [`Host memory: ${text} in the kernel’s process, from start to end.`] };
}

function deviceText(device: ICellDevice, unit: Unit): string {
  const peak = `${device.peak_exact ? '' : '≥ '}${bytesText(device.peak_bytes, unit)} peak`;
  const change = device.end_bytes - device.start_bytes;
  return change === 0
    ? peak
    : `${peak} · ${signed(change, unit)} ${change > 0 ? 'kept' : 'released'}`;
}

function deviceDetail(device: ICellDevice, devices: readonly IDevice[], unit: Unit): string {
  const known = devices.find(item => item.id === device.id);
  const name = known ? shortName(known) : device.id;
  const change = device.end_bytes - device.start_bytes;
  const peak = bytesText(device.peak_bytes, unit);
  return (
    `${name}: allocated ${bytesText(device.end_bytes, unit)} at the end` +
    ` (${change === 0 ? 'as at the start' : `${signed(change, unit)} since the start`}),` +
    ` peak ${device.peak_exact ? peak : `${peak} or more, as it was only sampled`}.`
  );
}
