import { ILabShell, JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISessionContext } from '@jupyterlab/apputils';
import { IConsoleTracker } from '@jupyterlab/console';
import { INotebookTracker } from '@jupyterlab/notebook';
import { Widget } from '@lumino/widgets';
import { IVramModel } from '../tokens';

function contextOf(widget: Widget | null): ISessionContext | null {
  return (widget as { sessionContext?: ISessionContext } | null)?.sessionContext ?? null;
}

/** Tells the model which notebook or console is the focused one, and what kernel it has. */
export const focusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-vram:focus',
  description: 'Follows the focused notebook or console.',
  autoStart: true,
  requires: [IVramModel],
  optional: [INotebookTracker, IConsoleTracker, ILabShell],
  activate: (
    _: JupyterFrontEnd,
    model: IVramModel,
    notebooks: INotebookTracker | null,
    consoles: IConsoleTracker | null,
    shell: ILabShell | null
  ) => {
    let current: ISessionContext | null = null;

    const tell = () => {
      const kernelId = current?.session?.kernel?.id ?? null;
      model.setFocus(kernelId, kernelId === null ? null : (current?.path ?? null));
    };
    const follow = (context: ISessionContext | null) => {
      // A tab without a kernel (a text file, the dashboard) leaves the last notebook in view.
      if (context === null || context === current) {
        return;
      }
      current?.kernelChanged.disconnect(tell);
      current = context;
      current.kernelChanged.connect(tell);
      current.disposed.connect(gone => {
        if (gone === current) {
          current = null;
          tell();
        }
      });
      tell();
    };

    notebooks?.currentChanged.connect((_, panel) => follow(contextOf(panel)));
    consoles?.currentChanged.connect((_, panel) => follow(contextOf(panel)));
    shell?.currentChanged.connect((_, change) => follow(contextOf(change.newValue)));
    follow(contextOf(notebooks?.currentWidget ?? null));
  }
};
