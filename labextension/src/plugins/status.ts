import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { StatusItem } from '../statusItem';
import { CommandIDs, IVramModel } from '../tokens';

/** The status item: in the status bar, or at the top where there is none (Notebook 7). */
export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-vram:status',
  description: 'Shows GPU memory in the status bar.',
  autoStart: true,
  requires: [IVramModel],
  optional: [IStatusBar],
  activate: (app: JupyterFrontEnd, model: IVramModel, statusBar: IStatusBar | null) => {
    const item = new StatusItem(model, () => void app.commands.execute(CommandIDs.openPanel));
    const isActive = () => model.settings.statusBar !== 'none';
    if (statusBar) {
      statusBar.registerStatusItem(item.id, {
        item,
        align: 'left',
        rank: 10,
        isActive,
        activeStateChanged: model.settingsChanged
      });
    } else {
      app.shell.add(item, 'top', { rank: 1000 });
      const show = () => item.setHidden(!isActive());
      model.settingsChanged.connect(show);
      show();
    }
  }
};
