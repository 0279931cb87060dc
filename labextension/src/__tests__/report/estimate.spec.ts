import { IEstimate } from '../../report/data';
import {
  estimateHeadline,
  estimateInterval,
  gridHeads,
  gridRows,
  largestText
} from '../../report/estimate';
import { parseReport } from '../../report/parse';
import * as example from '../../../../tests/reports/estimate.json';

function estimate(): IEstimate {
  const parsed = parseReport(JSON.parse(JSON.stringify(example)));
  if (!('report' in parsed) || parsed.report.estimate === null) {
    throw new Error('the example has no estimate');
  }
  return parsed.report.estimate;
}

describe('estimate', () => {
  it('says first whether it fits', () => {
    expect(estimateHeadline(estimate())).toBe("Dry run: 9.15 GiB of the RTX 4090's 24.0 GiB: fits");
    expect(estimateHeadline({ ...estimate(), gpu: null, fits: [] })).toBe(
      'Dry run: 9.15 GiB on a GPU'
    );
    expect(estimateInterval(estimate())).toMatch(/^A prediction, between 8\.65 GiB and 9\.75 GiB/);
  });

  it('tells the largest values, and how sure they are', () => {
    const [asked, small, tight] = estimate().fits;
    expect(largestText(asked!, 'batch_size')).toBe('24');
    expect(largestText(asked!, 'seq_len')).toBe('≥ 1,024');
    expect(largestText(small!, 'batch_size')).toBe('≈ 4');
    expect(largestText(small!, 'seq_len')).toBe('none');
    expect(largestText(tight!, 'seq_len')).toBe('');
  });

  it('lays the grid out by its first variable', () => {
    const { grid } = estimate();
    expect(gridHeads(grid!)).toEqual(['batch_size ↓ seq_len →', '256', '512']);
    expect(gridRows(grid!).map(({ value }) => value)).toEqual(['8', '16', '32']);
    expect(gridRows(grid!)[2]!.cells).toEqual([17_100 * 2 ** 20, null]);
    const single = { ...grid!, axes: grid!.axes.slice(0, 1), device_bytes: [1, 2, 3] };
    expect(gridHeads(single)).toEqual(['batch_size', 'needs']);
    expect(gridRows(single).map(({ cells }) => cells)).toEqual([[1], [2], [3]]);
  });
});
