/** Apart from the rest, which is fetched only with the first report. */
export const MIME_TYPE = 'application/vnd.jupyter-vram.report+json';
