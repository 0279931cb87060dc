import { ISettings } from './tokens';

/** The defaults of schema/panel.json; a test compares them. */
export const DEFAULT_SETTINGS: ISettings = {
  intervalSeconds: 1,
  windowSeconds: 300,
  warningPercent: 80,
  criticalPercent: 92,
  unit: 'GiB',
  hiddenDevices: [],
  statusBar: 'worst',
  side: 'right',
  openOnStart: false,
  cellBadge: true,
  cellBadgeThresholdMiB: 100
};

function numberIn(value: unknown, least: number, most: number, otherwise: number): number {
  return typeof value === 'number' && Number.isFinite(value)
    ? Math.min(most, Math.max(least, value))
    : otherwise;
}

function oneOf<T extends string>(value: unknown, allowed: readonly T[], otherwise: T): T {
  return allowed.includes(value as T) ? (value as T) : otherwise;
}

/** What a user wrote, within its limits; what makes no sense is the default. */
export function checkedSettings(written: Record<string, unknown>): ISettings {
  const d = DEFAULT_SETTINGS;
  const warningPercent = numberIn(written.warningPercent, 1, 100, d.warningPercent);
  const hidden = written.hiddenDevices;
  return {
    intervalSeconds: numberIn(written.intervalSeconds, 0.1, 60, d.intervalSeconds),
    windowSeconds: numberIn(written.windowSeconds, 30, 86400, d.windowSeconds),
    warningPercent,
    criticalPercent: numberIn(written.criticalPercent, warningPercent, 100, d.criticalPercent),
    unit: oneOf(written.unit, ['GiB', 'GB'] as const, d.unit),
    hiddenDevices: Array.isArray(hidden) ? hidden.filter(id => typeof id === 'string') : [],
    statusBar: oneOf(written.statusBar, ['worst', 'all', 'none'] as const, d.statusBar),
    side: oneOf(written.side, ['left', 'right'] as const, d.side),
    openOnStart: written.openOnStart === true,
    cellBadge: typeof written.cellBadge === 'boolean' ? written.cellBadge : d.cellBadge,
    cellBadgeThresholdMiB: numberIn(
      written.cellBadgeThresholdMiB,
      0.1,
      1e6,
      d.cellBadgeThresholdMiB
    )
  };
}
