import { Token } from '@lumino/coreutils';
import { ISignal } from '@lumino/signaling';
import { IHistory, ISnapshot } from './wire';

/** Whether figures arrive. */
export type Connection =
  | { status: 'connecting' }
  | { status: 'connected' }
  /** `retryAt`: milliseconds since the epoch. */
  | { status: 'disconnected'; retryAt: number; message: string }
  /** The server has no such route: the server extension is not installed or not enabled. */
  | { status: 'missing'; message: string };

export type Unit = 'GiB' | 'GB';

/** What the user has chosen, checked and completed (schema/panel.json). */
export interface ISettings {
  /** Seconds between figures; the server clamps it. */
  intervalSeconds: number;
  /** Seconds that the timelines show. */
  windowSeconds: number;
  /** Percent of a device's memory. */
  warningPercent: number;
  criticalPercent: number;
  unit: Unit;
  hiddenDevices: string[];
  statusBar: 'worst' | 'all' | 'none';
  side: 'left' | 'right';
  openOnStart: boolean;
  /** Show at each executed cell what it did to memory. */
  cellBadge: boolean;
  /** On a machine without a GPU: the least change of resident memory that is shown. */
  cellBadgeThresholdMiB: number;
}

/**
 * The state that every view shows: no DOM, no network of its own.
 *
 * Views call `watch` while they are visible; without a watcher no figures are asked for.
 */
export interface IVramModel {
  /** The latest figures; `null` before the first. Replaced, never changed in place. */
  readonly snapshot: ISnapshot | null;
  /** The past of each device by its id, up to now: ticks are appended, old rows dropped. */
  readonly histories: ReadonlyMap<string, IHistory>;
  readonly connection: Connection;
  readonly settings: ISettings;
  /** The kernel of the focused notebook or console: "this notebook". */
  readonly focusedKernelId: string | null;
  /** The document of the focused tab, for its name; `null` if none has a kernel. */
  readonly focusedPath: string | null;

  /** New figures, or another connection. */
  readonly updated: ISignal<IVramModel, void>;
  readonly settingsChanged: ISignal<IVramModel, void>;
  readonly focusChanged: ISignal<IVramModel, void>;

  /** Ask for figures until the result is disposed of. */
  watch(): { dispose(): void };
  /** Set by the plugins that know the application. */
  setFocus(kernelId: string | null, path: string | null): void;
  setSettings(settings: Partial<ISettings>): void;
}

export const IVramModel = new Token<IVramModel>(
  'jupyter-vram:IVramModel',
  'Live GPU memory: figures, history, connection, focus and settings.'
);

export namespace CommandIDs {
  export const openPanel = 'jupyter-vram:open-panel';
  export const openDashboard = 'jupyter-vram:open-dashboard';
  export const exportCsv = 'jupyter-vram:export-csv';
  export const exportPng = 'jupyter-vram:export-png';
  export const movePanel = 'jupyter-vram:move-panel';
}
