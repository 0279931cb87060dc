import * as React from 'react';
import { Overview } from './components/overview';
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
    const { snapshot } = model;
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
        <Overview model={model} open={this._actions.open} chartHeight={240} wide={true} />
      </>
    );
  }
}
