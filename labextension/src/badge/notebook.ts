import type { Cell, CodeCell } from '@jupyterlab/cells';
import { Notebook, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { IDisposable } from '@lumino/disposable';
import { IVramModel } from '../tokens';
import { IMatch, matchRun } from './match';
import { confirmRerun, rerunRecorded } from './rerun';
import { badgeText } from './text';
import { BadgeView } from './view';

/** Cells change in bursts: all that run, all outputs of one. */
const PASS_MS = 100;
/** After a cell has ended, its figures are asked for so long, though no view may watch. */
const LEAST_WAIT_S = 5;

/** The badges of one notebook. */
export class NotebookBadges implements IDisposable {
  constructor(
    private _panel: NotebookPanel,
    private _model: IVramModel
  ) {
    const notebook = _panel.content;
    _model.updated.connect(this._schedule, this);
    _model.settingsChanged.connect(this._schedule, this);
    notebook.modelContentChanged.connect(this._schedule, this);
    notebook.cellInViewportChanged.connect(this._schedule, this);
    _panel.sessionContext.kernelChanged.connect(this._onKernelChanged, this);
    NotebookActions.executed.connect(this._onExecuted, this);
    NotebookActions.outputCleared.connect(this._schedule, this);
    _panel.disposed.connect(this.dispose, this);
    this._await();
    this._schedule();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    const { _model: model, _panel: panel } = this;
    model.updated.disconnect(this._schedule, this);
    model.settingsChanged.disconnect(this._schedule, this);
    NotebookActions.executed.disconnect(this._onExecuted, this);
    NotebookActions.outputCleared.disconnect(this._schedule, this);
    panel.disposed.disconnect(this.dispose, this);
    if (!panel.isDisposed) {
      panel.content.modelContentChanged.disconnect(this._schedule, this);
      panel.content.cellInViewportChanged.disconnect(this._schedule, this);
      panel.sessionContext.kernelChanged.disconnect(this._onKernelChanged, this);
    }
    clearTimeout(this._pass);
    this._unwatch();
    this._views.forEach(view => view.dispose());
    this._views.clear();
  }

  private _onExecuted(_: unknown, args: { notebook: Notebook }): void {
    if (args.notebook === this._panel.content) {
      this._await();
      this._schedule();
    }
  }

  private _onKernelChanged(): void {
    this._await();
    this._schedule();
  }

  /** Let figures come for a while, as if a view watched. */
  private _await(): void {
    const { settings } = this._model;
    clearTimeout(this._waiting);
    if (!settings.cellBadge) {
      this._unwatch();
      return;
    }
    this._watching ??= this._model.watch();
    const wait = Math.max(LEAST_WAIT_S, 2 * settings.intervalSeconds);
    this._waiting = setTimeout(() => this._unwatch(), wait * 1000);
  }

  private _unwatch(): void {
    clearTimeout(this._waiting);
    this._watching?.dispose();
    this._watching = null;
  }

  private _schedule(): void {
    this._pass ??= setTimeout(() => {
      this._pass = undefined;
      this._update();
    }, PASS_MS);
  }

  private _update(): void {
    const { snapshot, settings } = this._model;
    const kernelId = this._panel.sessionContext.session?.kernel?.id;
    const kernel = snapshot?.kernels.find(item => item.kernel_id === kernelId);
    const cells = new Set<Cell>(this._panel.content.widgets);
    for (const cell of cells) {
      if (!isCode(cell)) {
        continue;
      }
      const { model } = cell;
      const found = matchRun(
        kernel,
        { executionCount: model.executionCount, source: () => model.sharedModel.getSource() },
        this._found.get(model) ?? null
      );
      if (found) {
        this._found.set(model, found);
      } else {
        this._found.delete(model);
      }
      const badge =
        found && settings.cellBadge
          ? badgeText(found.run, snapshot?.devices ?? [], settings)
          : null;
      if (badge) {
        this._viewOf(cell).show(badge, cell.node);
      } else {
        this._drop(cell);
      }
    }
    for (const cell of this._views.keys()) {
      if (!cells.has(cell)) {
        this._drop(cell);
      }
    }
  }

  private _viewOf(cell: CodeCell): BadgeView {
    let view = this._views.get(cell);
    if (!view) {
      view = new BadgeView(() => void this._onClick(cell));
      this._views.set(cell, view);
    }
    return view;
  }

  private _drop(cell: Cell): void {
    this._views.get(cell)?.dispose();
    this._views.delete(cell);
  }

  private async _onClick(cell: CodeCell): Promise<void> {
    if ((await confirmRerun()) && !this._isDisposed && !cell.isDisposed) {
      await rerunRecorded(cell, this._panel.sessionContext);
      if (!this._isDisposed) {
        this._await();
        this._schedule();
      }
    }
  }

  private _views = new Map<Cell, BadgeView>();
  /** By the cell's model. */
  private _found = new WeakMap<object, IMatch>();
  private _watching: { dispose(): void } | null = null;
  private _waiting: ReturnType<typeof setTimeout> | undefined;
  private _pass: ReturnType<typeof setTimeout> | undefined;
  private _isDisposed = false;
}

function isCode(cell: Cell): cell is CodeCell {
  return cell.model.type === 'code';
}
