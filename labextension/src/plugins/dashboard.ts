import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, MainAreaWidget, Notification, WidgetTracker } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import { VramDashboard } from '../dashboard';
import { downloadCsv, downloadPngs } from '../export';
import { vramIcon } from '../icons';
import { CommandIDs, IVramModel } from '../tokens';
import { isNotebook7, openDocument } from './open';

const CATEGORY = 'GPU Memory';

/** The main-area dashboard, its exports, and where all commands are found. */
export const dashboardPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-vram:dashboard',
  description: 'Shows GPU memory of all devices in the main area.',
  autoStart: true,
  requires: [IVramModel],
  optional: [ICommandPalette, ILauncher, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    model: IVramModel,
    palette: ICommandPalette | null,
    launcher: ILauncher | null,
    restorer: ILayoutRestorer | null
  ) => {
    const { commands, shell } = app;
    const tracker = new WidgetTracker<MainAreaWidget<VramDashboard>>({
      namespace: 'jupyter-vram-dashboard'
    });

    const create = () => {
      const content = new VramDashboard(model, {
        open: path => openDocument(app, path),
        exportCsv: () => void commands.execute(CommandIDs.exportCsv),
        exportPng: () => void commands.execute(CommandIDs.exportPng)
      });
      const widget = new MainAreaWidget({ content });
      widget.id = 'jupyter-vram-dashboard-main';
      void tracker.add(widget);
      return widget;
    };

    commands.addCommand(CommandIDs.openDashboard, {
      label: args => (args.isLauncher ? 'GPU Memory' : 'Open GPU Memory Dashboard'),
      caption: 'Which notebook holds how much memory of which GPU',
      icon: vramIcon,
      execute: () => {
        const widget = tracker.currentWidget ?? create();
        if (!widget.isAttached) {
          // The main area of Notebook 7 holds the one document of the page, and nothing else.
          shell.add(widget, isNotebook7() ? 'down' : 'main');
        }
        shell.activateById(widget.id);
      }
    });
    commands.addCommand(CommandIDs.exportCsv, {
      label: 'Export GPU Memory as CSV',
      isEnabled: () => model.snapshot !== null,
      execute: () => downloadCsv(model)
    });
    commands.addCommand(CommandIDs.exportPng, {
      label: 'Export GPU Memory as PNG',
      isEnabled: () => model.snapshot !== null,
      execute: async () => {
        const dashboard = tracker.currentWidget;
        const root = dashboard?.isVisible ? dashboard.node : document.body;
        if ((await downloadPngs(root)) === 0) {
          Notification.warning('There is no chart to export: open the GPU memory panel first.');
        }
      }
    });

    for (const command of Object.values(CommandIDs)) {
      palette?.addItem({ command, category: CATEGORY });
    }
    launcher?.add({
      command: CommandIDs.openDashboard,
      category: 'Other',
      args: { isLauncher: true }
    });
    void restorer?.restore(tracker, {
      command: CommandIDs.openDashboard,
      name: () => 'dashboard'
    });
  }
};
