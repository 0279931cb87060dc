import { launchIcon, settingsIcon } from '@jupyterlab/ui-components';
import * as React from 'react';
import { Overview } from './components/overview';
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
    const { snapshot } = model;
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
        <Overview model={model} open={this._actions.open} chartHeight={150} wide={false} />
      </>
    );
  }
}

export function rate(intervalSeconds: number): string {
  return `every ${Number(intervalSeconds.toFixed(1))} s`;
}
