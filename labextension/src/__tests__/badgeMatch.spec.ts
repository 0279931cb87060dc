import { crc32, IMatch, matchRun } from '../badge/match';
import { IKernel, IKernelCell } from '../wire';
import { snapshotExample } from './support/wire';

function run(count: number, source: string, more: Partial<IKernelCell> = {}): IKernelCell {
  return {
    execution_count: count,
    started_at: 100 + count,
    ended_at: 200 + count,
    code_crc32: crc32(source),
    ...more
  };
}

function kernel(cells: IKernelCell[], more: Partial<IKernel> = {}): IKernel {
  return { ...snapshotExample().kernels[0]!, kernel_id: 'k', pid: 7, cells, ...more };
}

function match(
  of: IKernel | undefined,
  count: number | null,
  source: string,
  known: IMatch | null = null
): IKernelCell | null {
  return matchRun(of, { executionCount: count, source: () => source }, known)?.run ?? null;
}

describe('crc32', () => {
  it('is zlib’s, of the text in UTF-8', () => {
    expect(crc32('')).toBe(0);
    expect(crc32('123456789')).toBe(0xcbf43926);
    expect(crc32('größe = 1')).toBe(0x79cba387);
  });

  it('is what the kernel’s side tells in the examples of the contract', () => {
    const [first, second] = snapshotExample().kernels[0]!.cells;
    expect(first!.code_crc32).toBe(crc32('model = build()'));
    expect(second!.code_crc32).toBe(crc32('train(model)'));
  });
});

describe('matchRun', () => {
  it('finds a run by its count and its text', () => {
    const runs = [run(1, 'a'), run(2, 'b')];
    expect(match(kernel(runs), 2, 'b')).toBe(runs[1]);
    expect(match(kernel(runs), 2, 'a')).toBeNull();
    expect(match(kernel(runs), 3, 'b')).toBeNull();
  });

  it('finds nothing for a cell that runs or was cleared, or without a kernel', () => {
    expect(match(kernel([run(1, 'a')]), null, 'a')).toBeNull();
    expect(match(kernel([run(1, 'a', { ended_at: null })]), 1, 'a')).toBeNull();
    expect(match(undefined, 1, 'a')).toBeNull();
  });

  it('finds nothing in runs of a kernel that does not tell their text', () => {
    expect(match(kernel([run(1, '', { code_crc32: null })]), 1, '')).toBeNull();
    expect(match(kernel([run(1, '', { code_crc32: undefined })]), 1, '')).toBeNull();
  });

  it('finds the run of a cell that its badge has run again', () => {
    expect(match(kernel([run(4, '%%vram\nx = 1')]), 4, 'x = 1')).not.toBeNull();
  });

  it('takes the latest of equal counts, as %reset lets them begin anew', () => {
    const runs = [run(1, 'a'), run(2, 'b'), run(1, 'a', { started_at: 300 })];
    expect(match(kernel(runs), 1, 'a')).toBe(runs[2]);
  });

  describe('after it was found', () => {
    const known: IMatch = { kernelId: 'k', pid: 7, run: run(1, 'a') };

    it('holds though the text changes and the run is no longer told', () => {
      expect(match(kernel([run(40, 'z')]), 1, 'edited', known)).toBe(known.run);
    });

    it.each([
      ['another process', kernel([], { pid: 8 })],
      ['another kernel', kernel([], { kernel_id: 'other' })],
      ['a process that is not known', kernel([], { pid: null })]
    ])('is gone with %s', (_, of) => {
      expect(match(of, 1, 'a', known)).toBeNull();
    });

    it('is gone with another count', () => {
      expect(match(kernel([run(2, 'z')]), 2, 'a', known)).toBeNull();
    });
  });
});
