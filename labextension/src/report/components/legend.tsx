import * as React from 'react';
import { lastSecond, phaseAt, totalAt } from '../cursor';
import { IReport } from '../data';
import { categoryLabel } from '../phrases';
import { IScale, timeScaleFor, timeText } from '../units';
import { Chip, Figure } from './parts';

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
        {point === null ? 'At the peak, ' : 'At '}
        {timeText(seconds, timeScaleFor(lastSecond(report)))}
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
