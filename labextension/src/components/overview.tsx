import * as React from 'react';
import { IVramModel } from '../tokens';
import { Devices } from './devices';
import { KernelTable } from './kernelTable';
import { Notices } from './notices';

/** What the panel and the dashboard both show: notices, devices, kernels. */
export function Overview(props: {
  model: IVramModel;
  open: (path: string) => void;
  chartHeight: number;
  wide: boolean;
}): JSX.Element {
  const { model } = props;
  const { snapshot, settings, connection } = model;
  return (
    <>
      <Notices snapshot={snapshot} connection={connection} />
      {!snapshot && connection.status === 'connecting' && (
        <p className="jp-Vram-reason">Waiting for the first figures…</p>
      )}
      {snapshot && (
        <div className={connection.status === 'connected' ? undefined : 'jp-Vram-old'}>
          <Devices model={model} snapshot={snapshot} chartHeight={props.chartHeight} />
          <div className="jp-Vram-header">
            <h2>Notebooks</h2>
            <span className="jp-Vram-dim">{settings.unit}</span>
          </div>
          <KernelTable
            snapshot={snapshot}
            unit={settings.unit}
            focusedKernelId={model.focusedKernelId}
            open={props.open}
            wide={props.wide}
          />
        </div>
      )}
    </>
  );
}
