import { loadPlotly } from './charts/plotly';
import { shownDevices } from './components/devices';
import { redraw } from './components/timeline';
import { shortName } from './format';
import { seriesOf } from './owners';
import { IVramModel } from './tokens';

/** The past that is shown, a line for each measurement and band: time, device, holder, bytes. */
export function csvOf(model: IVramModel): string {
  const lines = [['time', 'device', 'device_id', 'holder', 'kernel_id', 'bytes']];
  for (const device of model.snapshot ? shownDevices(model.snapshot, model) : []) {
    const history = model.histories.get(device.id);
    if (!history) {
      continue;
    }
    const free = history.columns.free_bytes ?? [];
    const bands = [
      ...seriesOf(history, model.focusedKernelId),
      { label: 'free', kernelId: null, values: free }
    ];
    history.time.forEach((time, i) => {
      const moment = new Date(time * 1000).toISOString();
      for (const band of bands) {
        const bytes = band.values[i];
        if (bytes !== null && bytes !== undefined) {
          const names = [shortName(device), device.id, band.label, band.kernelId ?? ''];
          lines.push([moment, ...names, String(bytes)]);
        }
      }
    });
  }
  return lines.map(line => line.map(quoted).join(',')).join('\r\n') + '\r\n';
}

/** As RFC 4180 says; a name that a spreadsheet would run as a formula is kept text. */
function quoted(cell: string): string {
  const safe = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function fileName(kind: 'csv' | 'png', suffix = ''): string {
  const moment = new Date().toISOString().slice(0, 19).replace(/[:T]/g, '-');
  return `gpu-memory-${moment}${suffix}.${kind}`;
}

export function downloadCsv(model: IVramModel): void {
  const blob = new Blob([csvOf(model)], { type: 'text/csv;charset=utf-8' });
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = fileName('csv');
  link.click();
  URL.revokeObjectURL(url);
}

/** A picture of each chart that is on the page, in the theme's background. */
export async function downloadPngs(root: HTMLElement): Promise<number> {
  // A hidden panel or dashboard keeps its charts, as they were.
  const charts = [...root.querySelectorAll<HTMLElement>('.jp-Vram-timeline.js-plotly-plot')].filter(
    chart => chart.clientWidth > 0
  );
  const plotly = await loadPlotly();
  const background = getComputedStyle(root).getPropertyValue('--jp-layout-color1').trim();
  for (const [i, chart] of charts.entries()) {
    await redraw(chart);
    const drawn = chart as unknown as { data: unknown; layout: object };
    const picture = {
      data: drawn.data,
      layout: { ...drawn.layout, paper_bgcolor: background, plot_bgcolor: background }
    };
    await plotly.downloadImage(picture as never, {
      format: 'png',
      width: Math.max(chart.clientWidth, 600),
      height: Math.max(chart.clientHeight, 240),
      filename: fileName('png', charts.length > 1 ? `-${i}` : '').replace(/\.png$/, '')
    });
  }
  return charts.length;
}
