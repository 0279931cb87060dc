import { IChartLook, ITimeline, timelineFigure } from '../charts/timeline';
import { seriesOf } from '../owners';
import { ICellRun } from '../wire';
import { snapshotExample } from './support/wire';

const snapshot = snapshotExample();
const gpu = snapshot.devices[0]!;
const kernel = snapshot.kernels[0]!;
const history = snapshot.history[gpu.id]!;

const look: IChartLook = {
  text: '#000',
  grid: '#ccc',
  background: '#fff',
  accent: '#00f',
  fontFamily: 'sans-serif',
  color: series => `color of ${series.key}`
};

function chart(changes: Partial<ITimeline> = {}): ITimeline {
  return {
    history,
    series: seriesOf(history, kernel.kernel_id),
    cells: [],
    totalBytes: gpu.total_bytes,
    unit: 'GiB',
    windowSeconds: 300,
    now: snapshot.time,
    height: 150,
    ...changes
  };
}

function cell(count: number, start: number, end: number | null): ICellRun {
  const at = (ago: number) => snapshot.time - ago;
  return { execution_count: count, started_at: at(start), ended_at: end === null ? null : at(end) };
}

const texts = (cells: ICellRun[]) =>
  (timelineFigure(chart({ cells }), look).layout.annotations ?? []).map(note => note.text);

describe('timelineFigure', () => {
  it('stacks the bands in the unit, up to the total', () => {
    const { data, layout } = timelineFigure(chart(), look);
    const last = history.time.length - 1;
    const top = data.reduce((sum, trace) => sum + (trace as { y: number[] }).y[last]!, 0);
    const free = history.columns.free_bytes![last]!;
    expect(top).toBeCloseTo((gpu.total_bytes! - free) / 2 ** 30, 6);
    const total = gpu.total_bytes! / 2 ** 30;
    expect(layout.yaxis!.tickvals![2]).toBeCloseTo(total);
    expect(layout.yaxis!.range![1]).toBeGreaterThan(total);
  });

  it('shows the window that ends now', () => {
    const [from, to] = timelineFigure(chart({ windowSeconds: 60 }), look).layout.xaxis!.range!;
    expect(Number(to) - Number(from)).toBe(60_000);
    expect(Number(to)).toBe(snapshot.time * 1000);
  });

  /** What is drawn of other processes' GiB at these seconds, a list for each stretch. */
  function drawn(rows: [number, number | null][]): (number | null)[][] {
    const time = rows.map(([after]) => snapshot.time - 1000 + after);
    const column = rows.map(([, gib]) => (gib === null ? null : gib * 2 ** 30));
    const past = { ...history, time, columns: { other_bytes: column }, kernels: {} };
    const series = seriesOf(past, null);
    const data = timelineFigure(chart({ history: past, series }), look).data;
    const traces = data as { y: (number | null)[]; stackgroup: string }[];
    expect(new Set(traces.map(trace => trace.stackgroup)).size).toBe(traces.length);
    return traces.map(trace => trace.y);
  }

  it('draws nothing, not zero, while nobody measured', () => {
    const rows: [number, number][] = [0, 1, 2, 500, 501].map(after => [after, 1]);
    expect(drawn(rows)).toEqual([
      [1, 1, 1],
      [1, 1]
    ]);
  });

  it('draws nothing, not zero, while the device did not answer', () => {
    const rows: [number, number | null][] = [
      [0, 2],
      [1, null],
      [2, null],
      [3, 2],
      [4, 0]
    ];
    expect(drawn(rows)).toEqual([[2], [2, 0]]);
  });

  it('goes on through the slower measuring while nobody looks', () => {
    const rows: [number, number][] = [0, 10, 20, 21, 22].map(after => [after, 1]);
    expect(drawn(rows)).toHaveLength(1);
  });

  it('says nothing of a band that is unknown in a row', () => {
    const [known, late] = chart().series;
    const values = history.time.map((_, i) => (i === 0 ? null : 2 ** 30));
    const { data } = timelineFigure(chart({ series: [known!, { ...late!, values }] }), look);
    expect((data[1] as { y: (number | null)[] }).y[0]).toBeNull();
  });

  it('keeps the name of a notebook text', () => {
    const series = [
      { ...chart().series[0]!, label: '<b>%{x}</b>', values: history.time.map(() => 1) }
    ];
    const [trace] = timelineFigure(chart({ series }), look).data;
    expect((trace as { hovertemplate: string }).hovertemplate).not.toMatch(/<b>|%\{x\}/);
  });

  it('marks the runs of cells in the window, the running one by a word', () => {
    const cells = [cell(1, 900, 800), cell(2, 250, 200), cell(3, 100, null)];
    const { layout } = timelineFigure(chart({ cells }), look);
    expect(layout.shapes).toHaveLength(2);
    expect(texts(cells)).toEqual(['[3] running', '[2]']);
  });

  it('drops labels that would overlap, the older ones first', () => {
    const cells = [cell(2, 60, 45), cell(3, 40, null)];
    expect(texts(cells)).toEqual(['[3] running']);
  });
});
