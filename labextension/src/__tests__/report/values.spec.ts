import { moved, phaseAt, pointAt, totalAt } from '../../report/cursor';
import {
  allocatedNothing,
  besidesLines,
  codePieces,
  endedBadly,
  headline,
  nothingText
} from '../../report/phrases';
import {
  figure,
  percent,
  roundMarks,
  scaleFor,
  signed,
  sizeText,
  timeText
} from '../../report/units';
import { reportExample } from '../support/report';

const MIB = 2 ** 20;
const GIB = 2 ** 30;

describe('figures of a column', () => {
  it('share the unit of the largest', () => {
    const scale = scaleFor(3 * MIB, -2 * GIB, 0);
    expect(scale.unit).toBe('GiB');
    expect([2 * GIB, 3 * MIB, 6 * MIB, 0].map(bytes => figure(bytes, scale))).toEqual([
      '2.00',
      '<0.01',
      '0.01',
      '0'
    ]);
    expect([GIB, -GIB, 0, -MIB].map(bytes => signed(bytes, scale))).toEqual([
      '+1.00',
      '−1.00',
      '0',
      '−<0.01'
    ]);
  });

  it('go up to the next unit where they would round to it', () => {
    expect(scaleFor(1023).unit).toBe('B');
    expect(scaleFor(1024 * MIB - 1).unit).toBe('GiB');
    expect(scaleFor(2 ** 55).unit).toBe('TiB');
    expect(scaleFor().unit).toBe('B');
  });
});

describe('sizeText', () => {
  // The same as format_bytes of jupyter_vram/render/text.py.
  it.each([
    [0, '0 B'],
    [512, '512 B'],
    [1536, '1.50 KiB'],
    [412 * MIB, '412 MiB'],
    [12.34 * MIB, '12.3 MiB'],
    [-2 * GIB, '−2.00 GiB']
  ])('%p is %s', (bytes, text) => {
    expect(sizeText(bytes)).toBe(text);
  });
});

describe('times and shares', () => {
  it('are short', () => {
    expect([0, 0.001, 0.42, 1.84, 42, 720].map(seconds => timeText(seconds))).toEqual([
      '0 ms',
      '1.0 ms',
      '420 ms',
      '1.84 s',
      '42.0 s',
      '12.0 min'
    ]);
    expect([percent(0, 0), percent(1, 1000), percent(1, 3)]).toEqual(['0 %', '<1 %', '33 %']);
  });

  it('have round marks on an axis', () => {
    expect(roundMarks(8.9, 3)).toEqual([0, 4, 8]);
    expect(roundMarks(1.84, 6)).toEqual([0, 0.4, 0.8, 1.2, 1.6]);
    expect(roundMarks(0, 3)).toEqual([0]);
    expect(roundMarks(7e9, 3).length).toBeLessThanOrEqual(4);
  });
});

describe('headline', () => {
  it('says peak, rise, what stayed, and how it is known', () => {
    expect(headline(reportExample())).toEqual({
      peak: 'Peak 7.64 GiB',
      how: ['exact', 'allocator blocks, on cuda:0', 'RTX 4090'],
      rise: '+4.79 over the start',
      stayed: '1.21 GiB stayed',
      duration: '1.84 s'
    });
  });

  it('names the unit of the rise where it is another', () => {
    const report = reportExample();
    const start_bytes = report.peak_bytes - 3 * MIB;
    expect(headline({ ...report, start_bytes }).rise).toBe('+3.00 MiB over the start');
  });

  it('says what is a lower bound, predicted, or read from a snapshot', () => {
    const least = headline(reportExample('gpu', { exact: false }));
    expect([least.peak, least.how[0]]).toEqual(['Peak ≥ 7.64 GiB', 'a lower bound']);
    expect(headline(reportExample('gpu', { recorder: 'dry_run' })).how[0]).toBe('predicted');
    expect(headline(reportExample('gpu', { recorder: 'snapshot' })).how).toContain(
      'from a snapshot'
    );
    expect(headline(reportExample('compared')).how).toEqual(['exact', 'tensor bytes, on the CPU']);
    expect(headline(reportExample('gpu', { retained_bytes: 0 })).stayed).toBeNull();
  });
});

describe('phrases', () => {
  it('tell how the cell ended, and that nothing was allocated', () => {
    expect(endedBadly(reportExample())).toBeNull();
    expect(endedBadly(reportExample('compared'))).toContain('KeyboardInterrupt');
    const empty = reportExample('empty');
    expect(nothingText(empty)).toBe('This cell allocated nothing on the CPU.');
    const before = { ...empty, start_bytes: GIB, peak_bytes: GIB, end_bytes: GIB };
    expect([empty, before, reportExample()].map(allocatedNothing)).toEqual([true, true, false]);
    expect(nothingText(before)).toContain('1.00 GiB were there before.');
  });

  it('account for what no line holds: with the lines it is the peak', () => {
    for (const name of ['gpu', 'compared']) {
      const report = reportExample(name);
      const lines = report.source.reduce((sum, line) => sum + line.peak_bytes, 0);
      const rest = besidesLines(report).reduce((sum, one) => sum + one.bytes, 0);
      expect(Math.max(lines + rest, report.peak_bytes) - report.peak_bytes).toBeLessThanOrEqual(12);
      expect(besidesLines(report)[0]!.label).toBe('there before the cell');
    }
  });

  it('find the code in a hint', () => {
    expect(codePieces('holds `loss`: append `loss.item()`')).toEqual([
      { text: 'holds ', code: false },
      { text: 'loss', code: true },
      { text: ': append ', code: false },
      { text: 'loss.item()', code: true }
    ]);
    expect(codePieces('a lone ` stays')).toEqual([{ text: 'a lone ` stays', code: false }]);
  });
});

describe('the cursor', () => {
  const report = reportExample();
  const { curve } = report;

  it('is on the point that holds at a time', () => {
    expect(pointAt(curve, -1)).toBe(0);
    expect(pointAt(curve, curve.time_s[3]! + 0.001)).toBe(3);
    expect(pointAt(curve, 99)).toBe(curve.time_s.length - 1);
    expect(pointAt({ time_s: [], series: [] }, 1)).toBe(0);
    expect(totalAt(curve, pointAt(curve, report.peak_s))).toBe(report.peak_bytes);
  });

  it('knows the innermost phase', () => {
    const inner = { name: 'recompute', start_s: 1, end_s: 1.1 };
    const nested = { ...report, spans: [...report.spans, inner] };
    expect([0, 0.5, 1.05, 1.2].map(seconds => phaseAt(nested, seconds))).toEqual([
      null,
      'forward',
      'recompute',
      'backward'
    ]);
  });

  it('moves by keys within the points', () => {
    expect(moved('ArrowRight', 3, 100)).toBe(4);
    expect(moved('ArrowLeft', 0, 100)).toBe(0);
    expect(moved('PageUp', 3, 100)).toBe(13);
    expect([moved('Home', 50, 100), moved('End', 50, 100)]).toEqual([0, 99]);
    expect(moved('Escape', 50, 100)).toBeNull();
    expect(moved('a', 50, 100)).toBeUndefined();
  });
});
