import { IReport, IRow } from './data';
import { sizeText, timeText } from './units';

const CATEGORY_LABELS: Record<string, string> = {
  parameter: 'parameters',
  buffer: 'buffers',
  gradient: 'gradients',
  'optimizer state': 'optimizer state',
  activation: 'activations',
  input: 'inputs',
  temporary: 'temporaries',
  unknown: 'unknown'
};

/** A category's name for many blocks. */
export function categoryLabel(name: string): string {
  return Object.prototype.hasOwnProperty.call(CATEGORY_LABELS, name)
    ? (CATEGORY_LABELS[name] ?? name)
    : name;
}

/** "the CPU", "cuda:0": after "on". */
export function deviceLabel(device: string): string {
  return device === 'cpu' ? 'the CPU' : device;
}

/** "NVIDIA GeForce RTX 4090" → "RTX 4090": without the maker's name, which all have. */
export function modelLabel(name: string): string {
  return name.replace(/^NVIDIA\s+/i, '').replace(/^GeForce\s+/i, '');
}

export interface IHeadline {
  /** "Peak 7.62 GiB". */
  peak: string;
  /** How it was measured: "exact", "allocator blocks". */
  how: string[];
  /** "+4.77 over the start". */
  rise: string;
  /** "1.21 GiB stayed"; `null` if nothing did. */
  stayed: string | null;
  duration: string;
}

export function headline(report: IReport): IHeadline {
  const peak = sizeText(report.peak_bytes);
  const rise = sizeText(report.peak_bytes - report.start_bytes);
  const unit = / \S+$/.exec(peak)?.[0] ?? '';
  return {
    peak: `Peak ${report.exact ? '' : '≥ '}${peak}`,
    how: how(report),
    // In the peak's unit it need not be named twice.
    rise: `+${rise.endsWith(unit) ? rise.slice(0, -unit.length) : rise} over the start`,
    stayed: report.retained_bytes > 0 ? `${sizeText(report.retained_bytes)} stayed` : null,
    duration:
      report.recorder === 'dry_run'
        ? `dry run of ${timeText(report.duration_s)}`
        : timeText(report.duration_s)
  };
}

function how(report: IReport): string[] {
  const kind = report.bytes_kind === 'block' ? 'allocator blocks' : 'tensor bytes';
  const where = report.device === 'cpu' ? `${kind}, on the CPU` : `${kind}, on ${report.device}`;
  return [
    report.recorder === 'dry_run' ? 'predicted' : report.exact ? 'exact' : 'a lower bound',
    where,
    ...(report.device_name === null ? [] : [modelLabel(report.device_name)]),
    ...(report.recorder === 'snapshot' ? ['from a snapshot'] : [])
  ];
}

/** "checkpointed", "[12]", "this run": which recording it is. */
export function recordingName(report: IReport): string {
  return (
    report.name ?? (report.execution_count === null ? 'this run' : `[${report.execution_count}]`)
  );
}

/** What the reader has to know before the figures, `null` if all went well. */
export function endedBadly(report: IReport): string | null {
  return report.error === null
    ? null
    : `The cell ended with ${report.error}. The figures are those up to there.`;
}

export const TRUNCATED =
  'The recording outgrew its buffer: its beginning is missing, and what was allocated there counts' +
  ' as from before.';

/** Whether the bytes stood still: no line, no curve, nothing that stayed. */
export function allocatedNothing(report: IReport): boolean {
  const still = (bytes: number) => bytes === report.start_bytes;
  if (report.peak_bytes === 0) {
    return true;
  }
  return (
    report.retained_bytes === 0 &&
    still(report.peak_bytes) &&
    still(report.end_bytes) &&
    report.source.every(line => line.peak_bytes === 0 && line.kept_bytes === 0) &&
    report.curve.series.every(series => series.bytes.every(bytes => bytes === series.bytes[0]))
  );
}

/** "This cell allocated nothing on the CPU." */
export function nothingText(report: IReport): string {
  const before =
    report.start_bytes > 0 ? ` ${sizeText(report.start_bytes)} were there before.` : '';
  return `This cell allocated nothing on ${deviceLabel(report.device)}.${before}`;
}

const BEFORE = 'before: ';

/** Whether a row of `by_line` or `by_op` was there before the recording. */
export function isBefore(row: IRow): boolean {
  return row.name.startsWith(BEFORE);
}

export interface IRest {
  label: string;
  bytes: number;
}

/** What the peak holds besides the lines of the cell. Together they add up to the peak. */
export function besidesLines(report: IReport): IRest[] {
  const before = report.by_line.filter(isBefore).reduce((total, one) => total + one.bytes, 0);
  const lines = report.source.reduce((total, line) => total + line.peak_bytes, 0);
  return [
    { label: 'there before the cell', bytes: before },
    { label: 'from no line of the cell', bytes: report.peak_bytes - lines - before }
  ].filter(rest => rest.bytes > 0);
}

/** "holds the graph of `loss`" in pieces: what stands between backticks is code. */
export function codePieces(text: string): { text: string; code: boolean }[] {
  return text
    .split(/(`[^`]+`)/)
    .filter(piece => piece !== '')
    .map(piece =>
      /^`[^`]+`$/.test(piece)
        ? { text: piece.slice(1, -1), code: true }
        : { text: piece, code: false }
    );
}
