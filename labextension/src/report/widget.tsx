import { ReactWidget } from '@jupyterlab/ui-components';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';
import { isNotebook7 } from '../plugins/open';
import { ReportView } from './components/report';
import { MIME_TYPE } from './data';
import { ViewMemory } from './memory';
import { Parsed, parseReport } from './parse';

/** Keys that a notebook's command mode takes, and that a control of the report needs itself. */
const OWN_KEYS = /^(Arrow.*|Enter| |Home|End|PageUp|PageDown|Escape|\*)$/;

/** A report in the output of a cell. */
export class ReportWidget extends ReactWidget implements IRenderMime.IRenderer {
  constructor() {
    super();
    this.addClass('jp-Vram');
    this.addClass('jp-VramReport');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Memory report');
    if (isNotebook7()) {
      // It hands keys to its shortcuts before any element sees them.
      this.node.setAttribute('data-lm-suppress-shortcuts', 'true');
    }
  }

  /** Draw what an output holds. */
  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this._parsed = parseReport(model.data[MIME_TYPE]);
    this._count++;
    if (this.isAttached) {
      MessageLoop.sendMessage(this, Widget.Msg.UpdateRequest);
      await this.renderPromise;
    }
  }

  protected render(): JSX.Element | null {
    const parsed = this._parsed;
    if (parsed === null) {
      return null;
    }
    if ('problem' in parsed) {
      return <p className="jp-Vram-reason">{parsed.problem}</p>;
    }
    return (
      <Guard key={this._count}>
        <ViewMemory.Provider value={this._memory}>
          <div onKeyDown={keepKeys}>
            <ReportView report={parsed.report} />
          </div>
        </ViewMemory.Provider>
      </Guard>
    );
  }

  private _parsed: Parsed | null = null;
  /** How many models were given. */
  private _count = 0;
  private readonly _memory = new Map<string, unknown>();
}

/** A key for a control of the report is none for the notebook around it. */
function keepKeys(event: React.KeyboardEvent): void {
  if (!event.ctrlKey && !event.metaKey && !event.altKey && OWN_KEYS.test(event.key)) {
    event.stopPropagation();
  }
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
