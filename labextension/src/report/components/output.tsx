import * as React from 'react';
import { ViewMemory } from '../memory';
import { parseReport } from '../parse';
import { ReportView } from './report';

/** What an output holds under the report's mime type: drawn, or why it cannot be. */
export function ReportOutput(props: { value: unknown; memory: Map<string, unknown> }): JSX.Element {
  const { value, memory } = props;
  const parsed = React.useMemo(() => parseReport(value), [value]);
  if ('problem' in parsed) {
    return <p className="jp-Vram-reason">{parsed.problem}</p>;
  }
  return (
    <Guard>
      <ViewMemory.Provider value={memory}>
        <ReportView report={parsed.report} />
      </ViewMemory.Provider>
    </Guard>
  );
}

/** A mistake in drawing costs the report, never the notebook. */
class Guard extends React.Component<{ children: React.ReactNode }, { message: string | null }> {
  state = { message: null as string | null };

  static getDerivedStateFromError(reason: unknown): { message: string } {
    return { message: reason instanceof Error ? reason.message : String(reason) };
  }

  render(): React.ReactNode {
    const { message } = this.state;
    return message === null ? (
      this.props.children
    ) : (
      <p className="jp-Vram-reason">This memory report could not be drawn: {message}</p>
    );
  }
}
