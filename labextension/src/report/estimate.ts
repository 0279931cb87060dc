import { IEstimate, IGpuFit, IGrid } from './data';
import { sizeText } from './units';

/** "Dry run: 9.15 GiB of the RTX 4090's 24.0 GiB: fits". */
export function estimateHeadline(estimate: IEstimate): string {
  const needs = `Dry run: ${sizeText(estimate.peak_device_bytes)}`;
  if (estimate.gpu === null || estimate.total_bytes === null) {
    return estimate.parts.length > 1 ? `${needs} on a GPU` : `${needs} on the CPU`;
  }
  const verdict = estimate.fits[0]?.verdict;
  const whole = `${needs} of the ${estimate.gpu}'s ${sizeText(estimate.total_bytes)}`;
  return verdict === undefined ? whole : `${whole}: ${verdict}`;
}

/** How sure it is. */
export function estimateInterval(estimate: IEstimate): string {
  const between = `between ${sizeText(estimate.low_bytes)} and ${sizeText(estimate.high_bytes)}`;
  return `A prediction, ${between}: nothing was computed`;
}

/** "24", "≥ 64", "≈ 11", "none"; nothing where it is not known. */
export function largestText(fit: IGpuFit, variable: string): string {
  const found = fit.largest.find(one => one.variable === variable);
  if (found === undefined) {
    return '';
  }
  if (found.value === null) {
    return 'none';
  }
  const sign = found.at_least ? '≥ ' : found.approximate ? '≈ ' : '';
  return sign + found.value.toLocaleString('en');
}

/** The corner, then the columns' values. */
export function gridHeads(grid: IGrid): string[] {
  const [rows, columns] = grid.axes;
  const name = rows?.variable ?? '';
  return columns === undefined
    ? [name, 'needs']
    : [
        `${name} ↓ ${columns.variable} →`,
        ...columns.values.map(value => value.toLocaleString('en'))
      ];
}

/** By value of the first variable. */
export function gridRows(grid: IGrid): { value: string; cells: (number | null)[] }[] {
  const width = grid.axes[1]?.values.length ?? 1;
  return (grid.axes[0]?.values ?? []).map((value, index) => ({
    value: value.toLocaleString('en'),
    cells: grid.device_bytes.slice(index * width, (index + 1) * width)
  }));
}
