import * as React from 'react';
import { By, DIMENSIONS, IReport, IRow, rowsBy } from '../data';
import { useRemembered } from '../memory';
import { categoryLabel } from '../phrases';
import { percent, scaleFor } from '../units';
import { Bar, Chip, Choice, Figure, Section } from './parts';

/** As many rows as are shown at first. */
const FIRST = 8;

/** The parts of the peak, by what the reader chooses. They add up to it. */
export function PeakParts(props: { report: IReport }): JSX.Element {
  const { report } = props;
  const [by, setBy] = useRemembered<By>('by', () => report.detail ?? 'category');
  const [isWhole, setWhole] = useRemembered('whole', () => false);
  const rows = rowsBy(report, by);
  const scale = scaleFor(...rows.map(row => row.bytes));
  const most = rows.reduce((top, row) => Math.max(top, row.bytes), 1);
  const shown = isWhole ? rows : rows.slice(0, FIRST);
  return (
    <Section
      title="The peak, by"
      aside={<Choice label="The peak, by" options={DIMENSIONS} value={by} onChange={setBy} />}
    >
      <table className="jp-VramReport-parts">
        <caption className="jp-Vram-hidden">
          The peak by {by}, in {scale.unit}
        </caption>
        <thead>
          <tr>
            <th scope="col">{by}</th>
            <td />
            <th scope="col">blocks</th>
            <th scope="col">share</th>
            <th scope="col">{scale.unit}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((row, index) => (
            <tr key={index}>
              <th scope="row">
                <PartName row={row} by={by} report={report} />
              </th>
              <td className="jp-VramReport-bars">
                <Bar share={row.bytes / most} />
              </td>
              <td className="jp-Vram-dim jp-Vram-number">{row.count.toLocaleString('en')}</td>
              <td className="jp-Vram-dim jp-Vram-number">
                {percent(row.bytes, report.peak_bytes)}
              </td>
              <td>
                <Figure bytes={row.bytes} scale={scale} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > FIRST && (
        <button type="button" className="jp-Vram-link" onClick={() => setWhole(!isWhole)}>
          {isWhole ? 'Show the largest only' : `Show all ${rows.length}`}
        </button>
      )}
    </Section>
  );
}

function PartName(props: { row: IRow; by: By; report: IReport }): JSX.Element {
  const { row, by, report } = props;
  if (by === 'category') {
    return (
      <>
        <Chip category={row.name} />
        {categoryLabel(row.name)}
      </>
    );
  }
  const number = by === 'line' ? /^line (\d+)$/.exec(row.name)?.[1] : undefined;
  const line = report.source.find(one => String(one.number) === number);
  return (
    <>
      {row.name}
      {line && (
        <code className="jp-Vram-dim" title={line.text}>
          {' '}
          {line.text.trim()}
        </code>
      )}
    </>
  );
}
