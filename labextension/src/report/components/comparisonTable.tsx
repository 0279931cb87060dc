import * as React from 'react';
import { IChange, IComparison, IReport } from '../data';
import { useRemembered } from '../memory';
import { categoryLabel, recordingName } from '../phrases';
import { figure, IScale, percent, scaleFor, signed, timeText } from '../units';
import { Choice, Figure, Section } from './parts';

const DIMENSIONS = ['category', 'line', 'module'] as const;
type Dimension = (typeof DIMENSIONS)[number];
const FIRST = 8;

function changesBy(comparison: IComparison, by: Dimension): IChange[] {
  return { category: comparison.categories, line: comparison.lines, module: comparison.modules }[
    by
  ];
}

/** Two recordings side by side: their totals, and the difference of each part of their peaks. */
export function ComparisonTable(props: { report: IReport; comparison: IComparison }): JSX.Element {
  const { report, comparison } = props;
  const [by, setBy] = useRemembered<Dimension>('compared by', () => 'category');
  const totals: IChange[] = [
    { name: 'peak', before_bytes: comparison.peak_bytes, bytes: report.peak_bytes },
    { name: 'at the start', before_bytes: comparison.start_bytes, bytes: report.start_bytes },
    { name: 'at the end', before_bytes: comparison.end_bytes, bytes: report.end_bytes }
  ];
  const changes = changesBy(comparison, by);
  const scale = scaleFor(comparison.peak_bytes, report.peak_bytes);
  const most = [...totals, ...changes].reduce(
    (top, change) => Math.max(top, Math.abs(change.bytes - change.before_bytes)),
    1
  );
  const names: [string, string] = [comparison.name, recordingName(report)];
  const row = { scale, most };
  return (
    <div className="jp-VramReport-columns jp-VramReport-comparison">
      <Section
        title={
          <>
            Beside <span className="jp-VramReport-name">{comparison.name}</span>
          </>
        }
        aside={<span className="jp-VramReport-unit">{scale.unit}</span>}
      >
        <p>{verdict(report.peak_bytes, comparison, scale)}</p>
        <Changes caption={`Totals, in ${scale.unit}`} names={names}>
          {totals.map(change => (
            <ChangeRow key={change.name} change={change} {...row} />
          ))}
          <tr>
            <th scope="row">time</th>
            <td className="jp-Vram-number">{timeText(comparison.duration_s)}</td>
            <td className="jp-Vram-number">{timeText(report.duration_s)}</td>
            <td />
            <td className="jp-Vram-number">{timeChange(report, comparison)}</td>
          </tr>
        </Changes>
      </Section>
      <Section
        title="Changed at the peak"
        aside={<Choice label="Changes by" options={DIMENSIONS} value={by} onChange={setBy} />}
      >
        <Changes caption={`Changes by ${by}, in ${scale.unit}`} names={names}>
          {changes.slice(0, FIRST).map((change, index) => (
            <ChangeRow
              key={index}
              change={change}
              label={by === 'category' ? categoryLabel(change.name) : change.name.trim()}
              isCode={by === 'line'}
              {...row}
            />
          ))}
        </Changes>
        {changes.length > FIRST && (
          <p className="jp-Vram-dim">{changes.length - FIRST} more, none of them larger</p>
        )}
        {changes.length === 0 && <p className="jp-Vram-dim">Nothing to compare by {by}.</p>}
      </Section>
    </div>
  );
}

function Changes(props: {
  caption: string;
  names: [string, string];
  children: React.ReactNode;
}): JSX.Element {
  return (
    <table>
      <caption className="jp-Vram-hidden">{props.caption}</caption>
      <thead>
        <tr>
          <td />
          <th scope="col" title={props.names[0]}>
            before
          </th>
          <th scope="col" title={props.names[1]}>
            now
          </th>
          <td />
          <th scope="col">change</th>
        </tr>
      </thead>
      <tbody>{props.children}</tbody>
    </table>
  );
}

/** "2.00 GiB less at the peak than plain (−20 %)." */
function verdict(bytes: number, comparison: IComparison, scale: IScale): string {
  const change = bytes - comparison.peak_bytes;
  if (change === 0) {
    return `The same peak as ${comparison.name}.`;
  }
  const share = percent(Math.abs(change), comparison.peak_bytes);
  const sign = change < 0 ? '−' : '+';
  const amount = `${figure(Math.abs(change), scale)} ${scale.unit}`;
  const of = comparison.peak_bytes > 0 ? ` (${sign}${share})` : '';
  return `${amount} ${change < 0 ? 'less' : 'more'} at the peak than ${comparison.name}${of}.`;
}

function timeChange(report: IReport, comparison: IComparison): string {
  if (comparison.duration_s <= 0) {
    return '';
  }
  return `× ${(report.duration_s / comparison.duration_s).toFixed(2)}`;
}

function ChangeRow(props: {
  change: IChange;
  scale: IScale;
  most: number;
  label?: string;
  isCode?: boolean;
}): JSX.Element {
  const { change, scale, most } = props;
  const difference = change.bytes - change.before_bytes;
  const label = props.label ?? change.name;
  return (
    <tr>
      <th scope="row" title={label}>
        {props.isCode ? <code>{label}</code> : label}
      </th>
      <td>
        <Figure bytes={change.before_bytes} scale={scale} />
      </td>
      <td>
        <Figure bytes={change.bytes} scale={scale} />
      </td>
      <td className="jp-VramReport-bars">
        <SignedBar share={difference / most} />
      </td>
      <td className="jp-Vram-number">{signed(difference, scale)}</td>
    </tr>
  );
}

/** To the left what is less, to the right what is more. */
function SignedBar(props: { share: number }): JSX.Element {
  const half = Math.min(50, 50 * Math.abs(props.share));
  const isLess = props.share < 0;
  return (
    <span className="jp-VramReport-bar jp-mod-signed" aria-hidden>
      <i
        className={isLess ? 'jp-mod-less' : 'jp-mod-more'}
        style={{ left: `${isLess ? 50 - half : 50}%`, width: `${half}%` }}
      />
    </span>
  );
}
