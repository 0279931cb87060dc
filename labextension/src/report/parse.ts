import {
  Check,
  DamagedError,
  flag,
  integer,
  list,
  nullable,
  number,
  object,
  oneOf,
  optional,
  text
} from './check';
import {
  DIMENSIONS,
  IAllocator,
  IAssumption,
  IAxis,
  IChange,
  IComparison,
  ICurve,
  IDevicePart,
  IDevicePeak,
  IEstimate,
  IGpuFit,
  IGrid,
  IKept,
  ILargest,
  IModuleNode,
  IReport,
  IRow,
  ISeries,
  ISourceLine,
  ISpan,
  SCHEMA_MAJOR
} from './data';

const row = object<IRow>({ name: text, bytes: integer, count: integer });

const curveFields = object<ICurve>({
  time_s: list(number),
  series: list(object<ISeries>({ name: text, bytes: list(integer) }))
});

const curve: Check<ICurve> = (value, place) => {
  const found = curveFields(value, place);
  const odd = found.series.find(series => series.bytes.length !== found.time_s.length);
  if (odd) {
    throw new DamagedError(`${place.path} has a series of another length than its times`);
  }
  return found;
};

const span = object<ISpan>({ name: text, start_s: number, end_s: number });

const sourceLine = object<ISourceLine>({
  number: integer,
  text,
  peak_bytes: integer,
  kept_bytes: integer
});

const moduleNode: Check<IModuleNode> = (value, place) => moduleFields(value, place);

const moduleFields = object<IModuleNode>({
  name: text,
  class_name: text,
  bytes: integer,
  repeats: optional(integer, 1),
  children: optional(list(moduleNode), [])
});

const kept = object<IKept>({
  name: nullable(text),
  bytes: integer,
  count: integer,
  category: text,
  line: nullable(integer),
  hint: optional(nullable(text), null)
});

const allocator = object<IAllocator>({
  reserved_bytes: integer,
  peak_reserved_bytes: nullable(integer),
  inactive_split_bytes: nullable(integer),
  fragmentation: nullable(number),
  private_pool_bytes: nullable(integer),
  alloc_retries: nullable(integer),
  ooms: nullable(integer)
});

const devicePeak = object<IDevicePeak>({
  device: text,
  start_bytes: integer,
  peak_bytes: integer,
  end_bytes: integer
});

const changes = list(object<IChange>({ name: text, before_bytes: integer, bytes: integer }));

const comparison = object<IComparison>({
  name: text,
  peak_bytes: integer,
  start_bytes: integer,
  end_bytes: integer,
  duration_s: number,
  categories: changes,
  lines: changes,
  modules: changes
});

const devicePart = object<IDevicePart>({
  name: text,
  bytes: integer,
  low_bytes: integer,
  high_bytes: integer,
  source: text
});

const largest = object<ILargest>({
  variable: text,
  value: nullable(integer),
  at_least: optional(flag, false),
  approximate: optional(flag, false)
});

const gpuFit = object<IGpuFit>({
  gpu: text,
  total_bytes: integer,
  usable_bytes: integer,
  verdict: oneOf('fits', 'tight', 'does not fit'),
  largest: optional(list(largest), [])
});

const grid = object<IGrid>({
  axes: list(object<IAxis>({ variable: text, values: list(integer) })),
  device_bytes: list(nullable(integer)),
  peak_bytes: list(nullable(integer)),
  failures: optional(list(text), [])
});

const estimate = object<IEstimate>({
  gpu: nullable(text),
  total_bytes: nullable(integer),
  peak_device_bytes: integer,
  low_bytes: integer,
  high_bytes: integer,
  parts: list(devicePart),
  fits: optional(list(gpuFit), []),
  assumptions: optional(list(object<IAssumption>({ text, effect: text })), []),
  grid: optional(nullable(grid), null),
  emulated_s: optional(number, 0)
});

const report = object<IReport>({
  recorder: oneOf('cpu', 'cuda', 'snapshot', 'dry_run'),
  bytes_kind: oneOf('tensor', 'block'),
  exact: flag,
  device: text,
  device_name: nullable(text),
  name: nullable(text),
  execution_count: nullable(integer),
  duration_s: number,
  start_bytes: integer,
  peak_bytes: integer,
  peak_s: number,
  end_bytes: integer,
  retained_bytes: integer,
  peak_requested_bytes: nullable(integer),
  curve,
  spans: list(span),
  by_category: list(row),
  by_line: list(row),
  by_module: list(row),
  by_op: list(row),
  source: list(sourceLine),
  modules: list(moduleNode),
  kept: list(kept),
  allocator: optional(nullable(allocator), null),
  other_devices: optional(list(devicePeak), []),
  comparison: optional(nullable(comparison), null),
  error: optional(nullable(text), null),
  truncated: optional(flag, false),
  notes: optional(list(text), []),
  estimate: optional(nullable(estimate), null),
  detail: optional(nullable(oneOf(...DIMENSIONS)), null)
});

/** A report, or a sentence that says why there is none. */
export type Parsed = { report: IReport } | { problem: string };

/** Check what a notebook holds under the report's mime type. Never throws. */
export function parseReport(value: unknown): Parsed {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { problem: 'This output holds no memory report. Run the cell again to make one.' };
  }
  const version = (value as Record<string, unknown>).schema_version;
  if (!Array.isArray(version) || typeof version[0] !== 'number') {
    return {
      problem: 'This output is no memory report of jupyter_vram: it names no schema version.'
    };
  }
  if (version[0] !== SCHEMA_MAJOR) {
    const other = version.slice(0, 2).map(Number).join('.');
    const where = 'in the environment that JupyterLab runs in';
    return {
      problem:
        version[0] > SCHEMA_MAJOR
          ? `This report has schema version ${other}, and this page reads ${SCHEMA_MAJOR}.x: update jupyter-vram ${where}.`
          : `This report has schema version ${other}, and this page reads ${SCHEMA_MAJOR}.x: run the cell again.`
    };
  }
  try {
    return { report: report(value, { path: 'report', depth: 0 }) };
  } catch (reason) {
    if (reason instanceof DamagedError) {
      return { problem: `This memory report is damaged: ${reason.message}. Run the cell again.` };
    }
    throw reason;
  }
}
