import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { checkedSettings } from '../settings';
import { IVramModel } from '../tokens';
import { PANEL_PLUGIN } from './panel';

/** Gives the model what the user has set (schema/panel.json). */
export const settingsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-vram:settings',
  description: 'Reads the settings of the GPU memory panel.',
  autoStart: true,
  requires: [IVramModel],
  optional: [ISettingRegistry],
  activate: async (_: JupyterFrontEnd, model: IVramModel, registry: ISettingRegistry | null) => {
    if (!registry) {
      return;
    }
    try {
      const settings = await registry.load(PANEL_PLUGIN);
      const read = () => model.setSettings(checkedSettings(settings.composite));
      settings.changed.connect(read);
      read();
    } catch (reason) {
      console.error('jupyter-vram: the settings could not be read; the defaults hold.', reason);
    }
  }
};
