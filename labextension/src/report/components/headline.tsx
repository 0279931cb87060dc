import * as React from 'react';
import { IReport } from '../data';
import {
  allocatedNothing,
  endedBadly,
  headline,
  nothingText,
  recordingName,
  TRUNCATED
} from '../phrases';
import { exactBytes } from '../units';

/** The figures that matter most, and what to know before reading them. */
export function Headline(props: { report: IReport }): JSX.Element {
  const { report } = props;
  const { peak, how, rise, stayed, duration } = headline(report);
  const nothing = allocatedNothing(report) ? nothingText(report) : null;
  const name = report.name === null ? [] : [recordingName(report)];
  return (
    <>
      <div className="jp-VramReport-headline">
        <h2 title={exactBytes(report.peak_bytes)}>{report.peak_bytes > 0 ? peak : nothing}</h2>
        {report.peak_bytes > 0 && (
          <span className="jp-Vram-dim">{[...how, ...name].join(' · ')}</span>
        )}
        <span className="jp-VramReport-changes">
          {nothing === null && (
            <>
              {rise} ·{' '}
              {stayed === null ? (
                'nothing stayed'
              ) : (
                <strong className="jp-VramReport-stayed" title={exactBytes(report.retained_bytes)}>
                  {stayed}
                </strong>
              )}{' '}
              ·{' '}
            </>
          )}
          {duration}
        </span>
      </div>
      {nothing !== null && report.peak_bytes > 0 && <p className="jp-Vram-dim">{nothing}</p>}
      {[
        { text: endedBadly(report), level: 'error' },
        { text: report.truncated ? TRUNCATED : null, level: 'warning' }
      ].map(
        ({ text, level }) =>
          text !== null && (
            <p key={level} className={`jp-Vram-notice jp-mod-${level}`}>
              {text}
            </p>
          )
      )}
    </>
  );
}
