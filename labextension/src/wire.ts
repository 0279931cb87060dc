/**
 * The HTTP contract as this side sees it: the mirror of `jupyter_vram/model/wire.py`, which
 * documents each field. Both ends are tested against `tests/wire/*.json`.
 */

export type PartName = 'allocated' | 'reserved_free' | 'context' | 'process' | 'resident';

export type Parts = Partial<Record<PartName, number>>;

export interface IProcess {
  pid: number;
  used_bytes: number | null;
  kernel_id: string | null;
  owner: 'kernel' | 'other' | 'unattributed';
}

export interface IDevice {
  id: string;
  kind: 'cuda' | 'host';
  index: number | null;
  name: string;
  parent_id: string | null;
  unified_memory: boolean;
  total_bytes: number | null;
  used_bytes: number | null;
  free_bytes: number | null;
  driver_reserved_bytes: number | null;
  other_bytes: number | null;
  unattributed_bytes: number | null;
  utilization_percent: number | null;
  temperature_c: number | null;
  power_w: number | null;
  power_limit_w: number | null;
  stale: boolean;
  processes: IProcess[];
  reasons: Record<string, string>;
}

export interface ICellRun {
  execution_count: number | null;
  started_at: number;
  ended_at: number | null;
}

export interface ICellDevice {
  id: string;
  start_bytes: number;
  end_bytes: number;
  peak_bytes: number;
  /** Else it was only sampled. */
  peak_exact: boolean;
}

/** A run among a kernel's latest: also what it did to memory, if the server tells. */
export interface IKernelCell extends ICellRun {
  code_crc32?: number | null;
  rss_change_bytes?: number | null;
  /** Those it touched, once it has ended. */
  devices?: ICellDevice[];
}

export interface IKernelDevice {
  id: string;
  process_bytes: number | null;
  allocated_bytes: number | null;
  reserved_bytes: number | null;
  peak_allocated_bytes: number | null;
  peak_reserved_bytes: number | null;
  inactive_split_bytes: number | null;
  parts: Parts;
}

export interface IKernel {
  kernel_id: string;
  pid: number | null;
  name: string;
  paths: string[];
  state: string;
  stale: boolean;
  report_age_s: number | null;
  reason: string | null;
  torch_state: string | null;
  rss_bytes: number | null;
  cells: IKernelCell[];
  devices: IKernelDevice[];
}

export interface INotice {
  code: string;
  severity: 'info' | 'warning' | 'error';
  message: string;
}

export interface ISnapshot {
  schema_version: number;
  time: number;
  interval_s: number;
  stale: boolean;
  devices: IDevice[];
  kernels: IKernel[];
  notices: INotice[];
}

type Column = (number | null)[];

/** The columns of a device's history; each as long as `IHistory.time`. */
export type DeviceColumns = Record<string, Column>;

export interface IKernelHistory {
  name: string;
  paths: string[];
  ended: boolean;
  parts: Partial<Record<PartName, Column>>;
  cells: ICellRun[];
}

export interface IHistory {
  device: string;
  resolution_s: number;
  time: number[];
  columns: DeviceColumns;
  kernels: Record<string, IKernelHistory>;
}

export interface ITickColumns {
  devices: string[];
  kernels: string[];
  kernel_devices: string[];
}

export interface ISnapshotMessage extends ISnapshot {
  type: 'snapshot';
  tick_columns: ITickColumns;
  history: Record<string, IHistory>;
}

/** `[report_age_s, one row per device of that kernel]`, as `ITickColumns.kernels` says. */
export type KernelRow = [number | null, (number | null | (number | null)[])[][]];

export interface ITick {
  type: 'tick';
  time: number;
  /** A row per device, in the order of the last known `devices`. */
  devices: (number | null)[][];
  kernels: KernelRow[];
  /** Whole sections that changed in more than figures. To be applied before the rows. */
  changed?: Partial<ISnapshot>;
}

export interface IErrorMessage {
  type: 'error';
  code: string;
  message: string;
}

export type Message = ISnapshotMessage | ITick | IErrorMessage;
