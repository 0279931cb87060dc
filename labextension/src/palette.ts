import { OwnerKind } from './owners';

export type ThemeKind = 'light' | 'dark';

/**
 * One accent for the focused notebook, in shades; other notebooks in hues that stay apart for
 * protanopia, deuteranopia and tritanopia (after Okabe and Ito, "Color Universal Design", 2008),
 * darkened on white and lightened on black to a contrast of at least 3 : 1 with the background.
 */
const OWN: Record<ThemeKind, Partial<Record<OwnerKind, string>>> = {
  light: {
    allocated: '#1a5fb4',
    reserved_free: '#6493d6',
    context: '#5d6b7e',
    process: '#1a5fb4',
    resident: '#1a5fb4',
    other: '#b06c00',
    unattributed: '#8d7a5c',
    driver: '#878d96'
  },
  dark: {
    allocated: '#62a0ea',
    reserved_free: '#4677b0',
    context: '#8593a8',
    process: '#62a0ea',
    resident: '#62a0ea',
    other: '#e0a030',
    unattributed: '#a39274',
    driver: '#747b86'
  }
};

const NOTEBOOKS: Record<ThemeKind, string[]> = {
  light: ['#00866a', '#b5568f', '#a08200', '#2f8fbf', '#c2571a', '#6f5bb5'],
  dark: ['#2bbf9b', '#dd8fbb', '#d8c74a', '#7cc8f0', '#f08a50', '#a996e6']
};

/** The categories of a recording: activations, which mostly make the peak, have the accent. */
const CATEGORIES: Record<ThemeKind, Record<string, string>> = {
  light: {
    parameter: '#5d6b7e',
    buffer: '#878d96',
    gradient: '#00866a',
    'optimizer state': '#c9850f',
    activation: '#1a5fb4',
    input: '#2f8fbf',
    temporary: '#a06f98',
    unknown: '#8d7a5c'
  },
  dark: {
    parameter: '#8593a8',
    buffer: '#747b86',
    gradient: '#2bbf9b',
    'optimizer state': '#e0a030',
    activation: '#62a0ea',
    input: '#7cc8f0',
    temporary: '#c795bd',
    unknown: '#a39274'
  }
};

export function categoryColor(name: string, theme: ThemeKind): string {
  const colors = CATEGORIES[theme];
  const known = Object.prototype.hasOwnProperty.call(colors, name) ? colors[name] : undefined;
  return known ?? colors.unknown!;
}

/**
 * A kernel keeps its colour as long as the page lives, whatever comes and goes beside it. A new one
 * gets the colour that has been out of sight for longest: those of ended kernels before any shown.
 */
export class Palette {
  color(kind: OwnerKind, kernelId: string | null, theme: ThemeKind): string {
    if (kind === 'notebook' && kernelId !== null) {
      const place = this._place(kernelId);
      this._asked[place] = ++this._count;
      return NOTEBOOKS[theme][place] ?? '';
    }
    return OWN[theme][kind] ?? '';
  }

  private _place(kernelId: string): number {
    let place = this._places.get(kernelId);
    if (place === undefined) {
      place = this._asked.indexOf(Math.min(...this._asked));
      this._places.set(kernelId, place);
    }
    return place;
  }

  private _places = new Map<string, number>();
  /** When each colour was last asked for. */
  private _asked = NOTEBOOKS.light.map(() => 0);
  private _count = 0;
}

/** The one of this page: a notebook has the same colour in the panel and in the dashboard. */
export const palette = new Palette();

/** The application's theme, as its stylesheets say it. */
export function currentTheme(): ThemeKind {
  return document.body.dataset.jpThemeLight === 'false' ? 'dark' : 'light';
}
