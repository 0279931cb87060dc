import { ILayoutRestorer, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { VramPanel } from '../panel';
import { CommandIDs, IVramModel } from '../tokens';
import { openDocument } from './open';

export const PANEL_PLUGIN = 'jupyter-vram:panel';
const EDIT_SETTINGS = 'settingeditor:open';
/** Right-hand sidebars have the debugger and the table of contents first. */
const RANK = 900;

/** The sidebar. */
export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: PANEL_PLUGIN,
  description: 'Shows GPU memory in a sidebar.',
  autoStart: true,
  requires: [IVramModel],
  optional: [ILayoutRestorer, ISettingRegistry],
  activate: (
    app: JupyterFrontEnd,
    model: IVramModel,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null
  ) => {
    const { commands, shell } = app;
    const panel = new VramPanel(model, {
      open: path => openDocument(app, path),
      openDashboard: () => void commands.execute(CommandIDs.openDashboard),
      // The settings editor registers its command after this plugin.
      get openSettings() {
        return commands.hasCommand(EDIT_SETTINGS)
          ? () => void commands.execute(EDIT_SETTINGS, { query: 'GPU memory' })
          : null;
      }
    });
    let side = model.settings.side;
    const place = () => shell.add(panel, side, { rank: RANK, type: 'GPU memory' });
    place();
    restorer?.add(panel, panel.id);

    model.settingsChanged.connect(() => {
      if (model.settings.side !== side) {
        side = model.settings.side;
        const wasVisible = panel.isVisible;
        place();
        if (wasVisible) {
          shell.activateById(panel.id);
        }
      }
    });

    commands.addCommand(CommandIDs.openPanel, {
      label: 'Show GPU Memory Panel',
      execute: () => shell.activateById(panel.id)
    });
    commands.addCommand(CommandIDs.movePanel, {
      label: 'Move GPU Memory Panel to the Other Side',
      execute: async () => {
        // JupyterLab's own menu moves sidebars too, past the setting.
        const isLeft = [...shell.widgets('left')].includes(panel);
        const other = isLeft ? 'right' : 'left';
        if (model.settings.side === other) {
          side = isLeft ? 'left' : 'right';
        }
        model.setSettings({ side: other });
        await registry?.set(PANEL_PLUGIN, 'side', other);
      }
    });

    void app.restored.then(() => {
      if (model.settings.openOnStart) {
        shell.activateById(panel.id);
      }
    });
  }
};
