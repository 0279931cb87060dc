import { Unit } from './tokens';
import { IDevice } from './wire';

const SIZES: Record<Unit, number> = { GiB: 2 ** 30, GB: 1e9 };

/** What stands where a figure is unknown. */
export const UNKNOWN = '–';

/** In the unit, without naming it: "13.8", "0.52", "80"; from three digits on, rounded to whole. */
export function amount(bytes: number | null | undefined, unit: Unit): string {
  if (bytes === null || bytes === undefined) {
    return UNKNOWN;
  }
  const value = bytes / SIZES[unit];
  if (value === 0) {
    return '0';
  }
  if (value < 0.005) {
    return '<0.01';
  }
  return value < 0.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

/** With its unit: "13.8 GiB". */
export function size(bytes: number | null | undefined, unit: Unit): string {
  return bytes === null || bytes === undefined ? UNKNOWN : `${amount(bytes, unit)} ${unit}`;
}

export function inUnit(bytes: number | null, unit: Unit): number | null {
  return bytes === null ? null : bytes / SIZES[unit];
}

/** "GPU 0", "GPU 0 · MIG 1g.5gb ab12", "Host": what a device is called where there is little room. */
export function shortName(device: IDevice): string {
  if (device.kind === 'host') {
    return 'Host';
  }
  const index = device.index === null ? '' : ` ${device.index}`;
  if (device.parent_id === null) {
    return `GPU${index}`;
  }
  // Slices of one GPU often have one name: the beginning of the UUID tells them apart.
  const profile = /MIG\s+(\S+)/.exec(device.name)?.[1] ?? '';
  return `GPU${index} · MIG ${profile} ${device.id.replace(/^MIG-/, '').slice(0, 4)}`.replace(
    / +/g,
    ' '
  );
}

/** "GPU 0 · RTX 4090": without the maker's name, which all have. */
export function title(device: IDevice): string {
  const model = device.name.replace(/^NVIDIA\s+/i, '').replace(/^GeForce\s+/i, '');
  return device.kind === 'host' ? device.name : `${shortName(device)} · ${model}`;
}

/** The part of a device's memory that can't be given to anyone any more, from 0 to 100. */
export function usedPercent(device: IDevice): number | null {
  const { total_bytes, used_bytes, free_bytes } = device;
  if (!total_bytes) {
    return null;
  }
  const taken = free_bytes !== null ? total_bytes - free_bytes : used_bytes;
  return taken === null ? null : (100 * taken) / total_bytes;
}

/** "just now", "12 s", "3 min", "2 h". */
export function age(seconds: number): string {
  if (seconds < 2) {
    return 'just now';
  }
  if (seconds < 100) {
    return `${Math.round(seconds)} s`;
  }
  const minutes = seconds / 60;
  return minutes < 100 ? `${Math.round(minutes)} min` : `${Math.round(minutes / 60)} h`;
}
