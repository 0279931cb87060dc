import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ReactWidget } from '@jupyterlab/ui-components';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import { isNotebook7 } from '../plugins/open';
import type * as OutputModule from './components/output';
import { MIME_TYPE } from './mime';

/** Keys that a notebook's command mode takes, and that a control of the report needs itself. */
const OWN_KEYS = /^(Arrow.*|Enter| |Home|End|PageUp|PageDown|Escape|\*)$/;

let loading: Promise<typeof OutputModule> | null = null;

/** All that draws a report, fetched as a chunk of its own with the first one. */
function loadOutput(): Promise<typeof OutputModule> {
  loading ??= import(/* webpackChunkName: "report" */ './components/output');
  loading.catch(() => {
    loading = null; // a failed download is tried again by the next report
  });
  return loading;
}

/** A report in the output of a cell. */
export class ReportWidget extends ReactWidget implements IRenderMime.IRenderer {
  constructor() {
    super();
    this.addClass('jp-Vram');
    this.addClass('jp-VramReport');
    this.node.setAttribute('role', 'group');
    this.node.setAttribute('aria-label', 'Memory report');
  }

  /** Draw what an output holds. */
  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const value = model.data[MIME_TYPE];
    const text = JSON.stringify(value) ?? '';
    if (text === this._text) {
      // Asked again for what is shown: the reader keeps place and focus.
      return;
    }
    this._text = text;
    const memory = new Map<string, unknown>();
    const element = await loadOutput().then(
      ({ ReportOutput }) => <ReportOutput key={text} value={value} memory={memory} />,
      () => (
        <p className="jp-Vram-reason">
          What draws memory reports could not be loaded; reload the page.
        </p>
      )
    );
    if (this._text === text && !this.isDisposed) {
      this._element = element;
      if (this.isAttached) {
        MessageLoop.sendMessage(this, Widget.Msg.UpdateRequest);
        await this.renderPromise;
      }
    }
  }

  protected render(): JSX.Element {
    return (
      <div onKeyDown={keepKeys} onFocus={isNotebook7() ? suppressShortcuts : undefined}>
        {this._element}
      </div>
    );
  }

  /** The JSON of what is drawn. */
  private _text: string | null = null;
  private _element: JSX.Element | null = null;
}

/** A key for a control of the report is none for the notebook around it. */
function keepKeys(event: React.KeyboardEvent): void {
  if (!event.ctrlKey && !event.metaKey && !event.altKey && OWN_KEYS.test(event.key)) {
    event.stopPropagation();
  }
}

/** Notebook 7 looks for shortcuts before a key reaches its element; it spares those marked so. */
function suppressShortcuts(event: React.FocusEvent): void {
  event.target.setAttribute('data-lm-suppress-shortcuts', 'true');
}
