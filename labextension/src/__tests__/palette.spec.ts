import { OwnerKind } from '../owners';
import { Palette, ThemeKind } from '../palette';

const KINDS: OwnerKind[] = [
  'allocated',
  'reserved_free',
  'context',
  'process',
  'resident',
  'other',
  'unattributed',
  'driver'
];
/** `--jp-layout-color1` of JupyterLab's own themes. */
const BACKGROUND: Record<ThemeKind, string> = { light: '#ffffff', dark: '#111111' };

/** Relative luminance, as WCAG 2.2 defines it. */
function luminance(color: string): number {
  const [r, g, b] = [1, 3, 5].map(i => {
    const part = parseInt(color.slice(i, i + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
}

function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high! + 0.05) / (low! + 0.05);
}

describe.each(['light', 'dark'] as ThemeKind[])('the %s palette', theme => {
  const palette = new Palette();
  const notebooks = [...'abcdef'].map(id => palette.color('notebook', id, theme));

  it.each(KINDS)('shows %s against the background (WCAG 1.4.11: at least 3 : 1)', kind => {
    const color = palette.color(kind, null, theme);
    expect(contrast(color, BACKGROUND[theme])).toBeGreaterThanOrEqual(3);
  });

  it('shows notebooks against the background, each in a colour of its own', () => {
    expect(new Set(notebooks).size).toBe(notebooks.length);
    for (const color of notebooks) {
      expect(contrast(color, BACKGROUND[theme])).toBeGreaterThanOrEqual(3);
    }
  });

  it('gives a new notebook the colour that has been out of sight for longest', () => {
    const used = new Palette();
    const [first] = [...'abcdef'].map(id => used.color('notebook', id, theme));
    for (const id of 'bcdef') {
      used.color('notebook', id, theme); // still shown; a has ended
    }
    expect(used.color('notebook', 'g', theme)).toBe(first);
  });

  it('keeps the colour of a notebook', () => {
    expect(palette.color('notebook', 'c', theme)).toBe(notebooks[2]);
  });
});
