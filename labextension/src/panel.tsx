import { launchIcon, settingsIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import { Devices } from './components/devices';
import { KernelTable } from './components/kernelTable';
import { Notices } from './components/notices';
import { vramIcon } from './icons';
import { IVramModel } from './tokens';
import { WatchingWidget } from './watchingWidget';

/** What the views ask of the application. */
export interface IActions {
  /** Open a document by its path. */
  open: (path: string) => void;
  openDashboard: () => void;
  /** Open the settings editor, where there is one. */
  openSettings: (() => void) | null;
}

/** The sidebar: devices with their past and who holds what, then the kernels. */
export class VramPanel extends WatchingWidget {
  constructor(
    model: IVramModel,
    private _actions: IActions
  ) {
    super(model);
    this.id = 'jupyter-vram-panel';
    this.addClass('jp-Vram');
    this.addClass('jp-VramPanel');
    this.title.icon = vramIcon;
    this.title.caption = 'GPU memory';
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'GPU memory');
  }

  protected render(): JSX.Element {
    const { model } = this;
    const { snapshot, settings, connection } = model;
    return (
      <>
        <div className="jp-Vram-header">
          <h2>GPU memory</h2>
          <span className="jp-Vram-dim">{snapshot ? rate(snapshot.interval_s) : ''}</span>
          <button
            type="button"
            onClick={this._actions.openDashboard}
            title="Open the dashboard"
            aria-label="Open the dashboard"
          >
            <launchIcon.react tag="span" width="13px" height="13px" />
          </button>
          {this._actions.openSettings && (
            <button
              type="button"
              onClick={this._actions.openSettings}
              title="Settings of the panel"
              aria-label="Settings of the panel"
            >
              <settingsIcon.react tag="span" width="13px" height="13px" />
            </button>
          )}
        </div>
        <Notices snapshot={snapshot} connection={connection} />
        {!snapshot && connection.status === 'connecting' && (
          <p className="jp-Vram-reason">Waiting for the first figures…</p>
        )}
        {snapshot && (
          <div className={connection.status === 'connected' ? undefined : 'jp-Vram-old'}>
            <Devices model={model} snapshot={snapshot} chartHeight={150} />
            <div className="jp-Vram-header">
              <h2>Notebooks</h2>
              <span className="jp-Vram-dim">{settings.unit}</span>
            </div>
            <KernelTable
              snapshot={snapshot}
              unit={settings.unit}
              focusedKernelId={model.focusedKernelId}
              open={this._actions.open}
              wide={false}
            />
          </div>
        )}
      </>
    );
  }
}

export function rate(intervalSeconds: number): string {
  return `every ${Number(intervalSeconds.toFixed(1))} s`;
}
