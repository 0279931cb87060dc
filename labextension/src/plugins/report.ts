import { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { MIME_TYPE } from '../report/mime';
import { ReportWidget } from '../report/widget';

/** Below the rank of HTML (50), which stands beside a report for other front ends. */
const RANK = 10;

/** Draws recordings of cells in their outputs. */
export const reportPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-vram:report',
  description: "Draws a cell's memory report in its output.",
  autoStart: true,
  optional: [IRenderMimeRegistry],
  activate: (_: JupyterFrontEnd, registry: IRenderMimeRegistry | null) => {
    registry?.addFactory(
      {
        // All of it is set as text: an untrusted notebook's may be shown.
        safe: true,
        mimeTypes: [MIME_TYPE],
        createRenderer: () => new ReportWidget()
      },
      RANK
    );
  }
};
