import * as React from 'react';
import { lastSecond, phaseAt, totalAt } from '../cursor';
import { IReport } from '../data';
import { categoryLabel } from '../phrases';
import { IScale, timeScaleFor, timeText } from '../units';
import { Chip, Figure } from './parts';

/** "At the peak, 0.92 s"; without a time for a dry run, whose times are its own. */
function when(report: IReport, point: number | null, seconds: number): string {
  if (report.recorder === 'dry_run') {
    return point === null ? 'At the peak' : 'There';
  }
  const time = timeText(seconds, timeScaleFor(lastSecond(report)));
  return `${point === null ? 'At the peak, ' : 'At '}${time}`;
}

/** The bands with their figures: at the peak, or at the time that is looked at. */
export function Legend(props: {
  report: IReport;
  scale: IScale;
  point: number | null;
}): JSX.Element {
  const { report, scale, point } = props;
  const { curve } = report;
  const atPeak = new Map(report.by_category.map(row => [row.name, row.bytes]));
  const seconds = point === null ? report.peak_s : (curve.time_s[point] ?? 0);
  const phase = phaseAt(report, seconds);
  const total = point === null ? report.peak_bytes : totalAt(curve, point);
  return (
    <div className="jp-VramReport-legend">
      <span className="jp-VramReport-when">
        {when(report, point, seconds)}
        {phase !== null && ` · ${phase}`}
      </span>
      <span className="jp-VramReport-total">
        <Figure bytes={total} scale={scale} /> {scale.unit}
      </span>
      <ul>
        {curve.series.map(series => (
          <li key={series.name}>
            <Chip category={series.name} />
            {categoryLabel(series.name)}{' '}
            <Figure
              bytes={point === null ? (atPeak.get(series.name) ?? 0) : (series.bytes[point] ?? 0)}
              scale={scale}
            />
          </li>
        ))}
      </ul>
    </div>
  );
}
