import { JupyterFrontEnd } from '@jupyterlab/application';
import { Signal } from '@lumino/signaling';
import { StreamClient } from '../client';
import { VramModel } from '../model';
import { focusPlugin } from '../plugins/focus';
import { DEFAULT_SETTINGS } from '../settings';
import { FakeServer } from './support/server';

/** What the plugin sees of a notebook's or console's session. */
class Session {
  constructor(
    public path: string,
    kernelId: string | null
  ) {
    this.session = { kernel: kernelId === null ? null : { id: kernelId } };
  }

  session: { kernel: { id: string } | null } | null;
  isDisposed = false;
  kernelChanged = new Signal<this, void>(this);
  propertyChanged = new Signal<this, void>(this);
  disposed = new Signal<this, void>(this);

  setKernel(id: string | null): void {
    this.session = id === null ? null : { kernel: { id } };
    this.kernelChanged.emit();
  }

  rename(path: string): void {
    this.path = path;
    this.propertyChanged.emit();
  }

  dispose(): void {
    this.isDisposed = true;
    this.disposed.emit();
  }
}

type Tab = { sessionContext?: Session } | null;

class Shell {
  currentWidget: Tab = null;
  currentChanged = new Signal<this, { newValue: Tab }>(this);

  focus(tab: Tab): void {
    this.currentWidget = tab;
    this.currentChanged.emit({ newValue: tab });
  }
}

class Tracker {
  currentWidget: Tab = null;
  currentChanged = new Signal<this, Tab>(this);

  focus(tab: Tab): void {
    this.currentWidget = tab;
    this.currentChanged.emit(tab);
  }
}

function activate(
  model: VramModel,
  notebooks: Tracker | null,
  consoles: Tracker | null,
  shell: Shell | null
): void {
  void focusPlugin.activate({} as JupyterFrontEnd, model, notebooks, consoles, shell);
}

let model: VramModel;
let train: Session;
let other: Session;

beforeEach(() => {
  model = new VramModel(new StreamClient(new FakeServer().settings(), DEFAULT_SETTINGS));
  train = new Session('train.ipynb', 'k-train');
  other = new Session('other.ipynb', 'k-other');
});

describe('in JupyterLab', () => {
  let shell: Shell;

  beforeEach(() => {
    shell = new Shell();
    activate(model, new Tracker(), new Tracker(), shell);
  });

  it('"this notebook" is the focused tab', () => {
    expect(model.focusedKernelId).toBeNull();
    shell.focus({ sessionContext: train });
    expect([model.focusedKernelId, model.focusedPath]).toEqual(['k-train', 'train.ipynb']);
    shell.focus({ sessionContext: other });
    expect([model.focusedKernelId, model.focusedPath]).toEqual(['k-other', 'other.ipynb']);
  });

  it('a tab without a kernel leaves the last notebook in view', () => {
    shell.focus({ sessionContext: train });
    shell.focus({});
    shell.focus(null);
    expect(model.focusedKernelId).toBe('k-train');
  });

  it('follows a kernel that starts, is changed or is shut down', () => {
    const fresh = new Session('fresh.ipynb', null);
    shell.focus({ sessionContext: fresh });
    expect([model.focusedKernelId, model.focusedPath]).toEqual([null, null]);
    fresh.setKernel('k-1');
    expect([model.focusedKernelId, model.focusedPath]).toEqual(['k-1', 'fresh.ipynb']);
    fresh.setKernel('k-2');
    expect(model.focusedKernelId).toBe('k-2');
    fresh.setKernel(null);
    expect(model.focusedKernelId).toBeNull();
  });

  it('follows a renamed notebook', () => {
    shell.focus({ sessionContext: train });
    train.rename('better.ipynb');
    expect(model.focusedPath).toBe('better.ipynb');
  });

  it('leaves alone what is no longer focused', () => {
    shell.focus({ sessionContext: train });
    shell.focus({ sessionContext: other });
    train.setKernel('k-new');
    train.dispose();
    expect(model.focusedKernelId).toBe('k-other');
  });

  it('forgets a notebook that is closed', () => {
    shell.focus({ sessionContext: train });
    train.dispose();
    expect([model.focusedKernelId, model.focusedPath]).toEqual([null, null]);
    shell.focus({ sessionContext: train });
    expect(model.focusedKernelId).toBeNull();
  });
});

it('in JupyterLab, a tab that is open already is seen', () => {
  const shell = new Shell();
  shell.currentWidget = { sessionContext: train };
  activate(model, null, null, shell);
  expect(model.focusedKernelId).toBe('k-train');
});

it('in Notebook 7, "this notebook" is the page’s, which comes later', () => {
  const notebooks = new Tracker();
  activate(model, notebooks, null, null);
  expect(model.focusedKernelId).toBeNull();
  notebooks.focus({ sessionContext: train });
  expect(model.focusedKernelId).toBe('k-train');
});

it('in Notebook 7, a console’s page has a kernel, too', () => {
  const consoles = new Tracker();
  consoles.currentWidget = { sessionContext: other };
  activate(model, null, consoles, null);
  expect(model.focusedKernelId).toBe('k-other');
});
