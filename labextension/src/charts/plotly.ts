import type * as PlotlyModule from 'plotly.js';

export type Plotly = typeof PlotlyModule;

let loading: Promise<Plotly> | null = null;

/** Plotly, fetched as a chunk of its own when the first chart is drawn. */
export function loadPlotly(): Promise<Plotly> {
  loading ??= import(/* webpackChunkName: "plotly" */ 'plotly.js-basic-dist-min').then(
    module => (module as unknown as { default?: Plotly }).default ?? (module as Plotly)
  );
  loading.catch(() => {
    loading = null; // a failed download is tried again by the next chart
  });
  return loading;
}
