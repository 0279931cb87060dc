import { IKernel, IKernelCell } from '../wire';

/** What the cell magic's line is, when a badge runs a cell again. */
export const RECORDED = '%%vram\n';

const TABLE = Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) {
    value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  }
  return value >>> 0;
});

/** CRC-32 (as zlib's) of a text in UTF-8. */
export function crc32(text: string): number {
  let value = 0xffffffff;
  for (const byte of new TextEncoder().encode(text)) {
    value = (value >>> 8) ^ TABLE[(value ^ byte) & 0xff]!;
  }
  return (value ^ 0xffffffff) >>> 0;
}

/** One cell's last run, and in which process it was. */
export interface IMatch {
  kernelId: string;
  pid: number | null;
  run: IKernelCell;
}

/** What of a cell it takes to find its run. */
export interface ICellState {
  executionCount: number | null;
  /** Asked for only where a run may be the cell's. */
  source: () => string;
}

/**
 * The run that a cell shows the result of; `null` if it is not known (any more).
 *
 * A count alone is not enough: a saved notebook, or one whose kernel was restarted, has counts of
 * an earlier process. So the text must be the one that ran, once: after that the cell may be
 * edited, and `known`, what was found before, holds for as long as process and count are the same.
 */
export function matchRun(
  kernel: IKernel | undefined,
  cell: ICellState,
  known: IMatch | null
): IMatch | null {
  const count = cell.executionCount;
  if (!kernel || count === null) {
    return null;
  }
  const { kernel_id: kernelId, pid } = kernel;
  const isSameProcess = pid !== null && known?.pid === pid && known.kernelId === kernelId;
  if (isSameProcess && known.run.execution_count === count) {
    return known;
  }
  const run = [...kernel.cells].reverse().find(item => item.execution_count === count);
  if (!run || run.ended_at === null || typeof run.code_crc32 !== 'number') {
    return null;
  }
  const source = cell.source();
  const isThis = [source, RECORDED + source].some(text => crc32(text) === run.code_crc32);
  return isThis ? { kernelId, pid, run } : null;
}
