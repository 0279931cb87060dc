import { IBadgeText } from './text';

const INPUT = ':scope > .jp-Cell-inputWrapper';

/**
 * A button over the lower edge of a cell's input. It belongs to the page alone: the cell's model,
 * and so the notebook, knows nothing of it, and it takes no room in the layout.
 */
export class BadgeView {
  constructor(onClick: () => void) {
    this.node = document.createElement('button');
    this.node.type = 'button';
    this.node.className = 'jp-VramBadge';
    // In command mode the notebook would take Enter and Space for its own.
    this.node.setAttribute('data-lm-suppress-shortcuts', 'true');
    this.node.addEventListener('click', onClick);
  }

  readonly node: HTMLButtonElement;

  /** Show a run's memory at a cell. Once more after the cell was drawn anew. */
  show(badge: IBadgeText, cell: HTMLElement): void {
    const { node } = this;
    const details = badge.details.join('\n');
    if (node.textContent !== badge.text || this._details !== details) {
      this._details = details;
      node.textContent = badge.text;
      node.title = `${details}\nClick to run this cell again and record where its memory goes.`;
      node.setAttribute(
        'aria-label',
        `Memory of this cell: ${badge.text}. ${details} Run it again and record.`
      );
    }
    // A cell that was never in view has no input yet.
    const host = cell.querySelector(INPUT);
    if (host !== null && node.parentElement !== host) {
      this._host?.classList.remove('jp-mod-vramBadge');
      this._host = host;
      host.classList.add('jp-mod-vramBadge');
      host.append(node);
    }
  }

  dispose(): void {
    this.node.remove();
    this._host?.classList.remove('jp-mod-vramBadge');
    this._host = null;
  }

  private _details = '';
  private _host: Element | null = null;
}
