/** Figures of a report for people: binary units, one for each column so that its figures align. */

const STEPS = [
  { unit: 'B', size: 1, digits: 0 },
  { unit: 'KiB', size: 2 ** 10, digits: 1 },
  { unit: 'MiB', size: 2 ** 20, digits: 1 },
  { unit: 'GiB', size: 2 ** 30, digits: 2 },
  { unit: 'TiB', size: 2 ** 40, digits: 2 }
] as const;

/** The unit of a column, and how many digits follow the point. */
export interface IScale {
  unit: (typeof STEPS)[number]['unit'];
  size: number;
  digits: number;
}

/** The unit in which the largest figure of a column is easy to read. */
export function scaleFor(...bytes: number[]): IScale {
  const largest = bytes.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
  // What rounds to 1024 belongs to the next unit.
  return STEPS.find(step => largest / step.size < 1023.5) ?? STEPS[STEPS.length - 1]!;
}

/** In the column's unit, without naming it: "7.62", "0.00" never for what is not zero. */
export function figure(bytes: number, scale: IScale): string {
  const value = Math.abs(bytes) / scale.size;
  const sign = bytes < 0 ? '−' : '';
  const least = 10 ** -scale.digits;
  if (value === 0) {
    return '0';
  }
  return value < least / 2
    ? `${sign}<${least.toFixed(scale.digits)}`
    : `${sign}${value.toFixed(scale.digits)}`;
}

/** A difference: "+4.77", "−0.50", "0". */
export function signed(bytes: number, scale: IScale): string {
  return bytes > 0 ? `+${figure(bytes, scale)}` : figure(bytes, scale);
}

/** With its own unit and three digits, as the report's text has it: "7.62 GiB", "512 B". */
export function sizeText(bytes: number): string {
  const { unit, size } = scaleFor(bytes);
  const value = bytes / size;
  const magnitude = Math.abs(value);
  const digits = unit === 'B' || magnitude >= 99.95 ? 0 : magnitude >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits).replace('-', '−')} ${unit}`;
}

/** For a tooltip: nothing is rounded. */
export function exactBytes(bytes: number): string {
  return `${bytes.toLocaleString('en')} bytes`;
}

export function percent(part: number, whole: number): string {
  const share = whole > 0 ? (100 * part) / whole : 0;
  return share > 0 && share < 0.5 ? '<1 %' : `${Math.round(share)} %`;
}

/** The unit of a time axis. */
export interface ITimeScale {
  unit: 'ms' | 's' | 'min';
  seconds: number;
}

export function timeScaleFor(seconds: number): ITimeScale {
  if (seconds < 1) {
    return { unit: 'ms', seconds: 0.001 };
  }
  return seconds < 600 ? { unit: 's', seconds: 1 } : { unit: 'min', seconds: 60 };
}

/** "12 ms", "1.84 s", "42.0 s", "12.5 min": in the unit of an axis, or in its own. */
export function timeText(seconds: number, scale: ITimeScale = timeScaleFor(seconds)): string {
  const value = seconds / scale.seconds;
  const digits = scale.unit === 'ms' ? (value > 0 && value < 9.95 ? 1 : 0) : value < 9.995 ? 2 : 1;
  return `${value.toFixed(digits)} ${scale.unit}`;
}

/** Round marks from 0 up to `end`, at most `count` steps apart. */
export function roundMarks(end: number, count: number): number[] {
  const least = end / Math.max(1, count);
  if (!(least > 0)) {
    return [0];
  }
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 4, 5, 10].find(one => one * power >= least * 0.999)! * power;
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) =>
    Number((i * step).toPrecision(12))
  );
}
