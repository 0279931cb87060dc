import { ICurve, IReport } from './data';

/** Right edge of the time axis, in seconds. */
export function lastSecond(report: IReport): number {
  const times = report.curve.time_s;
  return Math.max(report.duration_s, times[times.length - 1] ?? 0);
}

/** The point that holds at a time: each lasts until the next. */
export function pointAt(curve: ICurve, seconds: number): number {
  let [from, to] = [0, curve.time_s.length - 1];
  while (from < to) {
    const middle = Math.ceil((from + to) / 2);
    if (curve.time_s[middle]! <= seconds) {
      from = middle;
    } else {
      to = middle - 1;
    }
  }
  return from;
}

/** The live bytes at a point. */
export function totalAt(curve: ICurve, point: number): number {
  return curve.series.reduce((total, series) => total + (series.bytes[point] ?? 0), 0);
}

/** The innermost phase at a time. */
export function phaseAt(report: IReport, seconds: number): string | null {
  const around = report.spans.filter(span => span.start_s <= seconds && seconds < span.end_s);
  const inner = around.reduce<(typeof around)[number] | null>(
    (best, span) => (best === null || span.start_s >= best.start_s ? span : best),
    null
  );
  return inner?.name ?? null;
}

/** Where a key moves the cursor to; `undefined` for keys that don't, `null` back to the peak. */
export function moved(key: string, point: number, count: number): number | null | undefined {
  const page = Math.max(1, Math.round(count / 10));
  const steps: Record<string, number> = {
    ArrowLeft: -1,
    ArrowDown: -1,
    ArrowRight: 1,
    ArrowUp: 1,
    PageDown: -page,
    PageUp: page,
    Home: -count,
    End: count
  };
  if (key === 'Escape') {
    return null;
  }
  const step = steps[key];
  return step === undefined ? undefined : Math.min(count - 1, Math.max(0, point + step));
}
