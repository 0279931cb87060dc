/**
 * What a report holds: mirrors jupyter_vram/model/report_data.py. tests/reports/*.json is loaded by
 * the tests of both ends.
 */

export const SCHEMA_MAJOR = 1;

export type RecorderKind = 'cpu' | 'cuda' | 'snapshot' | 'dry_run';
export type BytesKind = 'tensor' | 'block';

/** By what the peak is taken apart. */
export const DIMENSIONS = ['category', 'line', 'module', 'op'] as const;
export type By = (typeof DIMENSIONS)[number];

/** A part of the peak: `activation`, `line 4`, `before: parameter`. */
export interface IRow {
  name: string;
  bytes: number;
  /** Blocks. */
  count: number;
}

/** One band of the timeline: a category. */
export interface ISeries {
  name: string;
  bytes: number[];
}

export interface ICurve {
  /** Since the recording began. */
  time_s: number[];
  /** From the bottom; at each time they add up to the live bytes. */
  series: ISeries[];
}

/** A phase on the time axis. */
export interface ISpan {
  name: string;
  start_s: number;
  end_s: number;
}

export interface ISourceLine {
  number: number;
  text: string;
  /** Allocated by it during the recording and alive at the peak. */
  peak_bytes: number;
  /** Allocated by it and alive at the end. */
  kept_bytes: number;
}

/** A module at the peak, its children's bytes included. */
export interface IModuleNode {
  name: string;
  class_name: string;
  bytes: number;
  /** Equal siblings that are folded into this node. */
  repeats: number;
  children: IModuleNode[];
}

/** Allocated during the recording and alive at its end, by holder. */
export interface IKept {
  /** The expression that holds it; `null` if no holder was found. */
  name: string | null;
  bytes: number;
  count: number;
  category: string;
  line: number | null;
  hint: string | null;
}

/** The caching allocator at the end. `fragmentation` = inactive split / reserved. */
export interface IAllocator {
  reserved_bytes: number;
  peak_reserved_bytes: number | null;
  inactive_split_bytes: number | null;
  fragmentation: number | null;
  private_pool_bytes: number | null;
  alloc_retries: number | null;
  ooms: number | null;
}

/** Another device that the recording used. */
export interface IDevicePeak {
  device: string;
  start_bytes: number;
  peak_bytes: number;
  end_bytes: number;
}

export interface IChange {
  name: string;
  before_bytes: number;
  bytes: number;
}

/** This report beside an earlier one, at their peaks. */
export interface IComparison {
  name: string;
  peak_bytes: number;
  start_bytes: number;
  end_bytes: number;
  duration_s: number;
  categories: IChange[];
  lines: IChange[];
  modules: IChange[];
}

/** A part of what the device must hold in a dry run. */
export interface IDevicePart {
  name: string;
  bytes: number;
  low_bytes: number;
  high_bytes: number;
  source: string;
}

/** The largest value of a variable with which the cell fits; `null`: not even 1 does. */
export interface ILargest {
  variable: string;
  value: number | null;
  at_least: boolean;
  approximate: boolean;
}

export type Verdict = 'fits' | 'tight' | 'does not fit';

export interface IGpuFit {
  gpu: string;
  total_bytes: number;
  usable_bytes: number;
  verdict: Verdict;
  largest: ILargest[];
}

export interface IAxis {
  variable: string;
  values: number[];
}

/** Row by row; the first axis is the rows. */
export interface IGrid {
  axes: IAxis[];
  device_bytes: (number | null)[];
  peak_bytes: (number | null)[];
  failures: string[];
}

export interface IAssumption {
  text: string;
  effect: string;
}

/** What a dry run says of the device. */
export interface IEstimate {
  gpu: string | null;
  total_bytes: number | null;
  peak_device_bytes: number;
  low_bytes: number;
  high_bytes: number;
  parts: IDevicePart[];
  fits: IGpuFit[];
  assumptions: IAssumption[];
  grid: IGrid | null;
  /** How long the dry run took: the curve's times are its own. */
  emulated_s: number;
}

/** All figures of one recording on one device. */
export interface IReport {
  recorder: RecorderKind;
  bytes_kind: BytesKind;
  /** False where not every change was seen, so that the peak may have been higher. */
  exact: boolean;
  device: string;
  device_name: string | null;
  name: string | null;
  execution_count: number | null;
  duration_s: number;
  start_bytes: number;
  peak_bytes: number;
  peak_s: number;
  end_bytes: number;
  /** Allocated during the recording and alive at its end. */
  retained_bytes: number;
  /** What the blocks alive at the peak had asked for, where it differs. */
  peak_requested_bytes: number | null;
  curve: ICurve;
  spans: ISpan[];
  by_category: IRow[];
  by_line: IRow[];
  by_module: IRow[];
  by_op: IRow[];
  source: ISourceLine[];
  modules: IModuleNode[];
  kept: IKept[];
  allocator: IAllocator | null;
  other_devices: IDevicePeak[];
  comparison: IComparison | null;
  /** How the cell ended, if not well. */
  error: string | null;
  truncated: boolean;
  notes: string[];
  /** Of a dry run. */
  estimate: IEstimate | null;
  /** The dimension that the user asked for: it is shown first. */
  detail: By | null;
}

/** The parts of the peak, largest first. */
export function rowsBy(report: IReport, by: By): IRow[] {
  return report[`by_${by}`];
}
