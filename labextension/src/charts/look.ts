import { currentTheme, palette } from '../palette';

/** What the theme gives to every chart. */
export interface IThemeLook {
  text: string;
  grid: string;
  background: string;
  accent: string;
  fontFamily: string;
}

export function themeLook(node: HTMLElement): IThemeLook {
  const style = getComputedStyle(node);
  const variable = (name: string) => style.getPropertyValue(name).trim();
  return {
    text: variable('--jp-ui-font-color1') || '#000',
    grid: variable('--jp-border-color2') || '#ccc',
    background: variable('--jp-layout-color1') || '#fff',
    accent: palette.color('allocated', null, currentTheme()),
    fontFamily: variable('--jp-ui-font-family') || 'sans-serif'
  };
}
