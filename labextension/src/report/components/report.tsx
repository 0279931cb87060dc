import * as React from 'react';
import { IReport } from '../data';
import { scaleFor } from '../units';
import { Chart } from './chart';
import { ComparisonTable } from './comparisonTable';
import { Estimate } from './estimate';
import { Facts } from './facts';
import { Headline } from './headline';
import { KeptTable } from './keptTable';
import { Legend } from './legend';
import { ModuleTree } from './moduleTree';
import { PeakParts } from './peakParts';
import { Source } from './source';

/** All of a recording, from the headline to the notes. */
export function ReportView(props: { report: IReport }): JSX.Element {
  const { report } = props;
  const { comparison } = report;
  if (report.peak_bytes === 0) {
    return (
      <>
        {report.estimate && <Estimate estimate={report.estimate} />}
        <Headline report={report} />
        {comparison && <ComparisonTable report={report} comparison={comparison} />}
        <Facts report={report} />
      </>
    );
  }
  return (
    <>
      {report.estimate && <Estimate estimate={report.estimate} />}
      <Headline report={report} />
      <Timeline report={report} />
      {comparison && <ComparisonTable report={report} comparison={comparison} />}
      <div className="jp-VramReport-columns">
        <div>
          {report.source.length > 0 && <Source report={report} />}
          <KeptTable report={report} />
        </div>
        <div>
          {report.modules.length > 0 && <ModuleTree report={report} />}
          <PeakParts report={report} />
        </div>
      </div>
      <Facts report={report} />
    </>
  );
}

/** The chart and its legend, which follows the pointer. Apart, since they are drawn at each move. */
function Timeline(props: { report: IReport }): JSX.Element {
  const { report } = props;
  const [point, setPoint] = React.useState<number | null>(null);
  const scale = React.useMemo(() => scaleFor(report.peak_bytes), [report]);
  return (
    <>
      <Chart report={report} scale={scale} point={point} onPoint={setPoint} />
      <Legend report={report} scale={scale} point={point} />
    </>
  );
}
