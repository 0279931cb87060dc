import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { StreamClient } from '../client';
import { VramModel } from '../model';
import { DEFAULT_SETTINGS } from '../settings';
import { IVramModel } from '../tokens';

/** Provides the state that every view shows. */
export const modelPlugin: JupyterFrontEndPlugin<IVramModel> = {
  id: 'jupyter-vram:model',
  description: 'Provides the live figures of GPU memory.',
  autoStart: true,
  provides: IVramModel,
  activate: (app: JupyterFrontEnd): IVramModel => {
    const client = new StreamClient(app.serviceManager.serverSettings, DEFAULT_SETTINGS);
    const model = new VramModel(client);
    const onVisibility = () => model.setPageVisible(document.visibilityState !== 'hidden');
    document.addEventListener('visibilitychange', onVisibility);
    onVisibility();
    return model;
  }
};
