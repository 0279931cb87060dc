import * as React from 'react';
import { amount } from '../format';
import { ISeries } from '../owners';
import { Unit } from '../tokens';
import { IHistory } from '../wire';

const ROWS = 12;

/** The rows of the past that the table shows: evenly spread, the latest first. */
export function sampledRows(history: IHistory, windowSeconds: number, now: number): number[] {
  const first = history.time.findIndex(time => time >= now - windowSeconds);
  const count = first < 0 ? 0 : history.time.length - first;
  const step = Math.max(1, Math.ceil(count / ROWS));
  const rows: number[] = [];
  for (let i = history.time.length - 1; i >= first && rows.length < count; i -= step) {
    rows.push(i);
  }
  return rows;
}

/** The chart's past in words, for those who don't see it. Built only while it is open. */
export function PastTable(props: {
  history: IHistory;
  series: ISeries[];
  unit: Unit;
  windowSeconds: number;
  now: number;
  title: string;
}): JSX.Element {
  const [open, setOpen] = React.useState(false);
  const { history, series, unit } = props;
  return (
    <details className="jp-Vram-past" onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>Past as a table</summary>
      {open && (
        <div
          className="jp-Vram-scroll"
          tabIndex={0}
          role="region"
          aria-label={`Past of ${props.title}`}
        >
          <table>
            <caption className="jp-Vram-hidden">
              Memory of {props.title} over time, in {unit}
            </caption>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {series.map(item => (
                  <th key={item.key} scope="col">
                    {item.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {sampledRows(history, props.windowSeconds, props.now).map(i => (
                <tr key={history.time[i]}>
                  <th scope="row">
                    {new Date((history.time[i] ?? 0) * 1000).toLocaleTimeString()}
                  </th>
                  {series.map(item => (
                    <td key={item.key} className="jp-Vram-number">
                      {amount(item.values[i], unit)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
