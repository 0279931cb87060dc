/** Plotly reads a little HTML in labels; a name must stay text. */
export function escaped(text: string): string {
  return text
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/%\{/g, '% {');
}
