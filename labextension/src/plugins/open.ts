import { JupyterFrontEnd } from '@jupyterlab/application';
import { PageConfig, URLExt } from '@jupyterlab/coreutils';

export function isNotebook7(): boolean {
  return PageConfig.getOption('notebookPage') !== '';
}

/** Show a document: in JupyterLab as a tab, in Notebook 7 as a page of its own. */
export function openDocument(app: JupyterFrontEnd, path: string): void {
  if (isNotebook7()) {
    const url = URLExt.join(PageConfig.getBaseUrl(), 'notebooks', URLExt.encodeParts(path));
    window.open(url, '_blank', 'noopener');
    return;
  }
  // A console's path is no file; its tab has to be there already.
  for (const widget of app.shell.widgets('main')) {
    const context = (widget as { sessionContext?: { path?: string } }).sessionContext;
    if (context?.path === path) {
      app.shell.activateById(widget.id);
      return;
    }
  }
  void app.commands.execute('docmanager:open', { path });
}
