import { ReactWidget } from '@jupyterlab/ui-components';
import { Message } from '@lumino/messaging';
import { IVramModel } from './tokens';

/** The eye sees no more of a memory chart, and drawing costs the main thread. */
const REDRAW_MS = 250;

/** A React view of the model, which asks for figures while it is visible, and only then. */
export abstract class WatchingWidget extends ReactWidget {
  constructor(protected readonly model: IVramModel) {
    super();
    model.updated.connect(this._schedule, this);
    model.settingsChanged.connect(this._schedule, this);
    model.focusChanged.connect(this._schedule, this);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    const { model } = this;
    model.updated.disconnect(this._schedule, this);
    model.settingsChanged.disconnect(this._schedule, this);
    model.focusChanged.disconnect(this._schedule, this);
    clearTimeout(this._redraw);
    this._unwatch();
    super.dispose();
  }

  protected onAfterShow(msg: Message): void {
    super.onAfterShow(msg);
    this._watch();
  }

  protected onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    if (this.isVisible) {
      this._watch();
    }
  }

  protected onBeforeHide(msg: Message): void {
    super.onBeforeHide(msg);
    this._unwatch();
  }

  protected onBeforeDetach(msg: Message): void {
    this._unwatch();
    super.onBeforeDetach(msg);
  }

  protected onUpdateRequest(msg: Message): void {
    // Lumino asks for it at every attachment too: drawn out of sight, the first chart would fetch Plotly.
    if (this._watching) {
      super.onUpdateRequest(msg);
    }
  }

  private _watch(): void {
    this._watching ??= this.model.watch();
    this.update();
  }

  private _unwatch(): void {
    this._watching?.dispose();
    this._watching = null;
  }

  private _schedule(): void {
    if (this._watching && this._redraw === undefined) {
      this._redraw = setTimeout(() => {
        this._redraw = undefined;
        this.update();
      }, REDRAW_MS);
    }
  }

  private _watching: { dispose(): void } | null = null;
  private _redraw: ReturnType<typeof setTimeout> | undefined;
}
