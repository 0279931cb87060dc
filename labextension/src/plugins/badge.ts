import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { NotebookBadges } from '../badge/notebook';
import { IVramModel } from '../tokens';

/** A badge at each executed cell: what it did to memory. */
export const badgePlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-vram:badge',
  description: 'Shows at each executed cell what it did to GPU memory.',
  autoStart: true,
  requires: [IVramModel],
  optional: [INotebookTracker],
  activate: (_: JupyterFrontEnd, model: IVramModel, notebooks: INotebookTracker | null) => {
    notebooks?.forEach(panel => new NotebookBadges(panel, model));
    notebooks?.widgetAdded.connect((_, panel) => {
      new NotebookBadges(panel, model);
    });
  }
};
