import { LabIcon } from '@jupyterlab/ui-components';

/** A memory chip. */
export const vramIcon = new LabIcon({
  name: 'jupyter-vram:vram',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3 jp-icon-selectable" fill="#616161" d="M3 6h18a1 1 0 0 1 1 1v9h-2v2h-2v-2h-2v2h-2v-2h-4v2H8v-2H6v2H4v-2H2V7a1 1 0 0 1 1-1zm1 2v6h16V8zm2 1.5h3v3H6zm4.5 0h3v3h-3zm4.5 0h3v3h-3z"/>
</svg>`
});
