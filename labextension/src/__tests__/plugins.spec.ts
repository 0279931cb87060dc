import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { CommandRegistry } from '@lumino/commands';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';
import plugins from '../index';
import { CommandIDs, IVramModel } from '../tokens';
import { FakeServer } from './support/server';

type Plugin = JupyterFrontEndPlugin<unknown>;

/** As little of an application as there can be: no service that is optional. */
class Application {
  constructor() {
    this.serviceManager = { serverSettings: new FakeServer().settings() };
  }

  readonly commands = new CommandRegistry();
  readonly serviceManager: { serverSettings: unknown };
  readonly restored = Promise.resolve();
  readonly added: [string, string][] = [];
  readonly activated: string[] = [];
  /** The sidebar that the panel is in; JupyterLab's own menu moves it, too. */
  area: string | null = null;
  panel: Widget | null = null;
  readonly shell = {
    currentChanged: new Signal<object, unknown>({}),
    currentWidget: null,
    widgets: (area: string) => (this.area === area ? [this.panel] : []),
    add: (widget: Widget, area: string) => {
      this.added.push([widget.id, area]);
      if (widget.id === 'jupyter-vram-panel') {
        this.panel = widget;
        this.area = area;
      }
    },
    activateById: (id: string) => void this.activated.push(id)
  };
}

async function activateAll(): Promise<{ app: Application; model: IVramModel }> {
  const app = new Application();
  let model: unknown = null;
  for (const plugin of plugins as Plugin[]) {
    const required = (plugin.requires ?? []).map(() => model);
    const optional = (plugin.optional ?? []).map(() => null);
    const service = await plugin.activate(
      app as unknown as JupyterFrontEnd,
      ...required,
      ...optional
    );
    model ??= service;
  }
  return { app, model: model as IVramModel };
}

describe('the plugins, with no optional service at all', () => {
  it('have ids of this package, each its own', () => {
    const ids = (plugins as Plugin[]).map(plugin => plugin.id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.every(id => id.startsWith('jupyter-vram:'))).toBe(true);
  });

  it('add the panel, and the status item at the top', async () => {
    const { app } = await activateAll();
    expect(app.added).toEqual([
      ['jupyter-vram-panel', 'right'],
      ['jupyter-vram-status', 'top']
    ]);
  });

  it('register every command, with a label', async () => {
    const { app } = await activateAll();
    for (const id of Object.values(CommandIDs)) {
      expect(app.commands.hasCommand(id)).toBe(true);
      expect(app.commands.label(id)).toContain('GPU Memory');
    }
  });

  it('open and move the panel, and open the dashboard', async () => {
    const { app, model } = await activateAll();
    await app.commands.execute(CommandIDs.openPanel);
    expect(app.activated).toEqual(['jupyter-vram-panel']);
    await app.commands.execute(CommandIDs.movePanel);
    expect(model.settings.side).toBe('left');
    expect(app.added).toContainEqual(['jupyter-vram-panel', 'left']);
    await app.commands.execute(CommandIDs.openDashboard);
    expect(app.added).toContainEqual(['jupyter-vram-dashboard-main', 'main']);
  });

  it('move the panel from where it is, whatever the setting says', async () => {
    const { app, model } = await activateAll();
    app.area = 'left';
    await app.commands.execute(CommandIDs.movePanel);
    expect(app.area).toBe('right');
    expect(model.settings.side).toBe('right');
  });

  it('export nothing before there are figures', async () => {
    const { app } = await activateAll();
    expect(app.commands.isEnabled(CommandIDs.exportCsv)).toBe(false);
    expect(app.commands.isEnabled(CommandIDs.exportPng)).toBe(false);
  });
});
