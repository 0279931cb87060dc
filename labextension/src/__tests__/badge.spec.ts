import { Signal } from '@lumino/signaling';
import { NotebookActions } from '@jupyterlab/notebook';
import { NotebookBadges } from '../badge/notebook';
import { crc32 } from '../badge/match';
import { recordedSource, rerunRecorded } from '../badge/rerun';
import { DEFAULT_SETTINGS } from '../settings';
import { IKernelCell, ISnapshot } from '../wire';
import { snapshotExample } from './support/wire';

const GIB = 2 ** 30;

/** As much of a cell as a badge touches. */
class FakeCell {
  constructor(source: string, executionCount: number | null, type = 'code') {
    const shared = {
      getSource: () => this.source,
      getId: () => 'id-1',
      transact: (change: () => void) => change()
    };
    this.source = source;
    this.model = {
      type,
      executionCount,
      executionState: 'idle',
      metadata: { tags: [] },
      getMetadata: () => [],
      trusted: false,
      clearExecution: () => (this.model.executionCount = null),
      sharedModel: shared
    };
  }

  /** As a cell is drawn once it comes into view. */
  draw(): void {
    this.node.innerHTML = '<div class="jp-Cell-inputWrapper"></div>';
  }

  get badge(): HTMLButtonElement | null {
    return this.node.querySelector('.jp-Cell-inputWrapper > button.jp-VramBadge');
  }

  source: string;
  model: any;
  node = document.createElement('div');
  isDisposed = false;
  outputHidden = true;
  outputArea: any = { future: null };
}

class FakePanel {
  constructor(...cells: FakeCell[]) {
    this.content = {
      widgets: cells,
      modelContentChanged: new Signal<object, void>({}),
      cellInViewportChanged: new Signal<object, unknown>({})
    };
  }

  content: any;
  disposed = new Signal<object, void>({});
  isDisposed = false;
  sessionContext: any = {
    kernelChanged: new Signal<object, unknown>({}),
    session: { kernel: { id: 'k' } }
  };
}

class FakeModel {
  constructor(...cells: IKernelCell[]) {
    const example = snapshotExample();
    const kernel = { ...example.kernels[0]!, kernel_id: 'k', pid: 7, cells };
    this.snapshot = { ...example, kernels: [kernel] };
  }

  tell(kernel: Partial<ISnapshot['kernels'][0]>): void {
    this.snapshot = {
      ...this.snapshot,
      kernels: [{ ...this.snapshot.kernels[0]!, ...kernel }]
    };
    this.updated.emit();
  }

  snapshot: ISnapshot;
  settings = DEFAULT_SETTINGS;
  updated = new Signal<object, void>({});
  settingsChanged = new Signal<object, void>({});
  watchers = 0;
  watch() {
    this.watchers++;
    return { dispose: () => this.watchers-- };
  }
}

function run(count: number, source: string): IKernelCell {
  const id = snapshotExample().devices[0]!.id;
  const bytes = { start_bytes: GIB, end_bytes: 3 * GIB, peak_bytes: 5 * GIB, peak_exact: true };
  return {
    execution_count: count,
    started_at: 100 + count,
    ended_at: 200 + count,
    code_crc32: crc32(source),
    rss_change_bytes: 0,
    devices: [{ id, ...bytes }]
  };
}

function badges(panel: FakePanel, model: FakeModel): NotebookBadges {
  const made = new NotebookBadges(panel as any, model as any);
  jest.advanceTimersByTime(200);
  return made;
}

describe('badges of a notebook', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('stand at the cells that ran in this kernel, as buttons with a name', () => {
    const ran = new FakeCell('a', 1);
    const stale = new FakeCell('b', 2);
    const text = new FakeCell('a', 1, 'markdown');
    [ran, stale, text].forEach(cell => cell.draw());
    badges(new FakePanel(ran, stale, text), new FakeModel(run(1, 'a'), run(2, 'other')));
    expect(ran.badge?.textContent).toBe('5.0 GiB peak · +2.0 GiB kept');
    expect(ran.badge?.type).toBe('button');
    expect(ran.badge?.getAttribute('aria-label')).toContain('5.0 GiB peak');
    expect(ran.badge?.title).toContain('allocated 3.0 GiB at the end');
    expect(stale.badge).toBeNull();
    expect(text.badge).toBeNull();
  });

  it('come to a cell once it is drawn, and to its new input when it is drawn anew', () => {
    const cell = new FakeCell('a', 1);
    const panel = new FakePanel(cell);
    badges(panel, new FakeModel(run(1, 'a')));
    expect(cell.badge).toBeNull();
    for (let times = 0; times < 2; times++) {
      cell.draw();
      panel.content.cellInViewportChanged.emit(cell);
      jest.advanceTimersByTime(200);
      expect(cell.badge).not.toBeNull();
    }
  });

  it('stay while the cell is edited, go while it runs, and when its kernel was restarted', () => {
    const cell = new FakeCell('a', 1);
    cell.draw();
    const panel = new FakePanel(cell);
    const model = new FakeModel(run(1, 'a'));
    badges(panel, model);
    const look = () => {
      panel.content.modelContentChanged.emit();
      jest.advanceTimersByTime(200);
      return cell.badge;
    };
    cell.source = 'edited';
    expect(look()).not.toBeNull();
    model.tell({ cells: [] });
    expect(look()).not.toBeNull();
    cell.model.executionCount = null;
    expect(look()).toBeNull();
    cell.model.executionCount = 2;
    model.tell({ cells: [run(2, 'edited')] });
    expect(look()).not.toBeNull();
    model.tell({ pid: 8, cells: [] });
    expect(look()).toBeNull();
  });

  it('go with the setting, with the cell, and with the notebook', () => {
    const cells = [new FakeCell('a', 1), new FakeCell('b', 2)];
    cells.forEach(cell => cell.draw());
    const panel = new FakePanel(...cells);
    const model = new FakeModel(run(1, 'a'), run(2, 'b'));
    const made = badges(panel, model);
    model.settings = { ...DEFAULT_SETTINGS, cellBadge: false };
    model.settingsChanged.emit();
    jest.advanceTimersByTime(200);
    expect(cells[0]!.badge).toBeNull();
    model.settings = DEFAULT_SETTINGS;
    model.settingsChanged.emit();
    jest.advanceTimersByTime(200);
    expect(cells.every(cell => cell.badge)).toBe(true);
    panel.content.widgets = cells.slice(1);
    panel.content.modelContentChanged.emit();
    jest.advanceTimersByTime(200);
    expect(cells[0]!.badge).toBeNull();
    panel.disposed.emit();
    expect(made.isDisposed).toBe(true);
    expect(cells[1]!.badge).toBeNull();
    expect(cells[1]!.node.querySelector('.jp-mod-vramBadge')).toBeNull();
    expect(model.watchers).toBe(0);
  });

  it('let figures come for a while after a run, whether or not a panel shows', () => {
    const panel = new FakePanel();
    const model = new FakeModel();
    const made = badges(panel, model);
    expect(model.watchers).toBe(1);
    jest.advanceTimersByTime(10_000);
    expect(model.watchers).toBe(0);
    const executed = NotebookActions.executed as Signal<object, unknown>;
    executed.emit({ notebook: {} });
    expect(model.watchers).toBe(0);
    executed.emit({ notebook: panel.content });
    expect(model.watchers).toBe(1);
    made.dispose();
    made.dispose();
    expect(model.watchers).toBe(0);
    executed.emit({ notebook: panel.content });
    expect(model.watchers).toBe(0);
  });
});

describe('running a cell again', () => {
  it('puts the magic in front, once', () => {
    expect(recordedSource('%%time\nx')).toBe('%%vram\n%%time\nx');
    expect(recordedSource('%%vram --no-plot\nx')).toBe('%%vram --no-plot\nx');
  });

  function context(done: Promise<unknown>) {
    const requests: any[] = [];
    const requestExecute = (...request: unknown[]) => {
      requests.push(request);
      return { done };
    };
    return { requests, session: { kernel: { requestExecute } }, isTerminating: false };
  }

  it('lets the cell look as after any run, with its text untouched', async () => {
    const cell = new FakeCell('x = 1', 3);
    const kernel = context(Promise.resolve({ content: { status: 'error', execution_count: 4 } }));
    const ran = rerunRecorded(cell as any, kernel as any);
    expect(cell.model.executionState).toBe('running');
    expect(cell.model.executionCount).toBeNull();
    expect(await ran).toBe(true);
    expect(kernel.requests).toEqual([
      [{ code: '%%vram\nx = 1', stop_on_error: true }, false, { tags: [], cellId: 'id-1' }]
    ]);
    expect(cell.outputArea.future).not.toBeNull();
    expect(cell.outputHidden).toBe(false);
    expect(cell.model.executionCount).toBe(4);
    expect(cell.source).toBe('x = 1');
  });

  it('leaves no star behind when the kernel is restarted', async () => {
    const warn = jest.spyOn(console, 'warn').mockImplementation();
    const cell = new FakeCell('x = 1', 3);
    const kernel = context(Promise.reject(new Error('Canceled')));
    expect(await rerunRecorded(cell as any, kernel as any)).toBe(false);
    expect(cell.model.executionState).toBe('idle');
    warn.mockRestore();
  });

  it('does nothing without a kernel or without code', async () => {
    const kernel = context(Promise.resolve({}));
    expect(await rerunRecorded(new FakeCell('  ', 1) as any, kernel as any)).toBe(false);
    expect(await rerunRecorded(new FakeCell('x', 1) as any, { session: null } as any)).toBe(false);
    expect(kernel.requests).toEqual([]);
  });
});
