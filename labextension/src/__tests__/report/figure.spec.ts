import { IReport } from '../../report/data';
import { IReportLook, MARGIN, reportFigure } from '../../report/figure';
import { scaleFor } from '../../report/units';
import { reportExample } from '../support/report';

const look: IReportLook = {
  text: '#000',
  grid: '#ccc',
  background: '#fff',
  accent: '#00f',
  fontFamily: 'sans-serif',
  color: category => `color of ${category}`
};

function figure(changes: Partial<IReport> = {}, width = 800) {
  const report = reportExample('gpu', changes);
  return reportFigure({ report, scale: scaleFor(report.peak_bytes), width, height: 190 }, look);
}

function texts(changes: Partial<IReport> = {}, width?: number): string[] {
  return (figure(changes, width).layout.annotations ?? []).map(note => note.text ?? '');
}

describe('reportFigure', () => {
  it('stacks the categories, which add up to the peak where it is marked', () => {
    const report = reportExample();
    const traces = figure().data as any[];
    const bands = traces.slice(0, -1);
    const dot = traces[traces.length - 1];
    expect(bands.map(band => band.name)).toEqual(report.curve.series.map(series => series.name));
    expect(new Set(bands.map(band => band.stackgroup)).size).toBe(1);
    const at = report.curve.time_s.indexOf(report.peak_s);
    const top = bands.reduce((sum, band) => sum + band.y[at], 0);
    expect(top).toBeCloseTo(report.peak_bytes / 2 ** 30, 9);
    expect(dot.x).toEqual([report.peak_s]);
    expect(dot.y[0]).toBeCloseTo(top, 9);
    expect(bands[0].fillcolor).toBe(`color of ${report.curve.series[0]!.name}`);
  });

  it('holds bytes until the next event: no slope where there is none', () => {
    const bands = (figure().data as any[]).slice(0, -1);
    expect(bands.every(band => band.line.shape === 'hv')).toBe(true);
  });

  it('leaves room above the peak, whose label says if it was only sampled', () => {
    const { layout } = figure();
    expect(layout.yaxis!.range![1]).toBeGreaterThan(reportExample().peak_bytes / 2 ** 30);
    expect(texts()).toContain('<b>peak 7.64 GiB</b>');
    expect(texts({ exact: false })).toContain('<b>peak ≥ 7.64 GiB</b>');
  });

  it('names both units', () => {
    const { layout } = figure();
    expect(texts()).toContain('GiB');
    expect(layout.xaxis!.ticktext).toEqual(['0.4 s', '0.8 s', '1.2 s', '1.6 s']);
    const short = figure({
      duration_s: 0.002,
      peak_s: 0.001,
      spans: [],
      curve: { time_s: [0, 0.001], series: [{ name: 'input', bytes: [0, 8] }] }
    });
    expect(short.layout.xaxis!.ticktext).toContain('2 ms');
    expect((short.data[0] as any).x).toEqual([0, 1]);
  });

  it('shades the phases, each with its label', () => {
    const { layout } = figure();
    const shaded = layout.shapes!.filter(shape => shape.type === 'rect');
    expect(shaded.map(shape => [shape.x0, shape.x1])).toEqual(
      reportExample().spans.map(span => [span.start_s, span.end_s])
    );
    expect(texts()).toEqual(expect.arrayContaining(['forward', 'backward', 'optimizer']));
  });

  it('drops labels without room, and phases narrower than a pixel', () => {
    const spans = Array.from({ length: 1000 }, (_, i) => ({
      name: i % 2 ? 'backward' : 'forward',
      start_s: (1.84 * i) / 1000,
      end_s: (1.84 * (i + 1)) / 1000
    }));
    expect(figure({ spans }).layout.shapes!.filter(shape => shape.type === 'rect')).toEqual([]);
    const loop = spans.slice(0, 40).map((span, i) => ({
      ...span,
      start_s: (1.84 * i) / 40,
      end_s: (1.84 * (i + 1)) / 40
    }));
    expect(figure({ spans: loop }).layout.shapes!.length).toBeGreaterThan(40);
    expect(texts({ spans: loop })).not.toContain('forward');
  });

  it('keeps the labels of a phase within another apart', () => {
    const spans = [
      { name: 'backward', start_s: 0.5, end_s: 1.5 },
      { name: 'recompute', start_s: 0.5, end_s: 1.2 }
    ];
    const notes = figure({ spans }).layout.annotations!;
    const [outer, inner] = ['backward', 'recompute'].map(
      name => notes.find(note => note.text === name)!.x as number
    );
    const plot = 800 - MARGIN.l - MARGIN.r;
    expect(((inner! - outer!) / 1.84) * plot).toBeGreaterThan(8 * 5);
  });

  it('keeps the name of a phase text', () => {
    const spans = [{ name: '<a href="x">%{y}</a>', start_s: 0, end_s: 1.8 }];
    const label = texts({ spans }).find(text => text.includes('href'));
    expect(label).toBe('&lt;a href="x"&gt;% {y}&lt;/a&gt;');
  });

  it('draws a report without any bytes, too', () => {
    const report = reportExample('empty');
    const chart = { report, scale: scaleFor(0), width: 400, height: 190 };
    const { layout } = reportFigure(chart, look);
    expect(layout.yaxis!.range).toEqual([0, 1]);
  });
});
