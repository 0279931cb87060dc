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
    labShell: ILabShell | null
  ) => {
    let current: ISessionContext | null = null;

    const tell = () => {
      const kernelId = current?.session?.kernel?.id ?? null;
      model.setFocus(kernelId, kernelId === null ? null : (current?.path ?? null));
    };
    const unfollow = () => {
      current?.kernelChanged.disconnect(tell);
      current?.propertyChanged.disconnect(tell);
      current?.disposed.disconnect(onDisposed);
      current = null;
    };
    const onDisposed = () => {
      unfollow();
      tell();
    };
    const follow = (widget: Widget | null) => {
      const context = contextOf(widget);
      // A tab without a kernel (a text file, the dashboard) leaves the last notebook in view.
      if (context === null || context.isDisposed || context === current) {
        return;
      }
      unfollow();
      current = context;
      context.kernelChanged.connect(tell);
      context.propertyChanged.connect(tell);
      context.disposed.connect(onDisposed);
      tell();
    };

    if (labShell) {
      labShell.currentChanged.connect((_, change) => follow(change.newValue));
      follow(labShell.currentWidget);
    } else {
      // Notebook 7 has one document a page, whose widget comes after the shell is ready.
      for (const tracker of [notebooks, consoles]) {
        tracker?.currentChanged.connect((_, panel: Widget | null) => follow(panel));
        follow(tracker?.currentWidget ?? null);
      }
    }
  }
};
