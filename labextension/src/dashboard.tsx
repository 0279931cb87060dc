import * as React from 'react';
import { Devices } from './components/devices';
import { KernelTable } from './components/kernelTable';
import { Notices } from './components/notices';
import { vramIcon } from './icons';
import { IActions, rate } from './panel';
import { IVramModel } from './tokens';
import { WatchingWidget } from './watchingWidget';

export interface IDashboardActions extends Pick<IActions, 'open'> {
  exportCsv: () => void;
  exportPng: () => void;
}

/** The main area: all devices side by side, and the kernels. */
export class VramDashboard extends WatchingWidget {
  constructor(
    model: IVramModel,
    private _actions: IDashboardActions
  ) {
    super(model);
    this.id = 'jupyter-vram-dashboard';
    this.addClass('jp-Vram');
    this.addClass('jp-VramDashboard');
    this.title.icon = vramIcon;
    this.title.label = 'GPU memory';
    this.title.closable = true;
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'GPU memory dashboard');
  }

  protected render(): JSX.Element {
    const { model } = this;
    const { snapshot, settings, connection } = model;
    return (
      <>
        <div className="jp-Vram-header">
          <h2>GPU memory</h2>
          <span className="jp-Vram-dim">{snapshot ? rate(snapshot.interval_s) : ''}</span>
          <button type="button" onClick={this._actions.exportCsv} disabled={!snapshot}>
            Export CSV
          </button>
          <button type="button" onClick={this._actions.exportPng} disabled={!snapshot}>
            Export PNG
          </button>
        </div>
        <Notices snapshot={snapshot} connection={connection} />
        {!snapshot && connection.status === 'connecting' && (
          <p className="jp-Vram-reason">Waiting for the first figures…</p>
        )}
        {snapshot && (
          <div className={connection.status === 'connected' ? undefined : 'jp-Vram-old'}>
            <Devices model={model} snapshot={snapshot} chartHeight={240} />
            <div className="jp-Vram-header">
              <h2>Notebooks</h2>
              <span className="jp-Vram-dim">{settings.unit}</span>
            </div>
            <KernelTable
              snapshot={snapshot}
              unit={settings.unit}
              focusedKernelId={model.focusedKernelId}
              open={this._actions.open}
              wide={true}
            />
          </div>
        )}
      </>
    );
  }
}
