import * as React from 'react';
import { currentTheme, ThemeKind } from '../palette';

const ATTRIBUTES = ['data-jp-theme-light', 'data-jp-theme-name'];

function subscribe(changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  observer.observe(document.body, { attributeFilter: ATTRIBUTES });
  return () => observer.disconnect();
}

/** Two dark themes differ too: a chart is drawn anew when this changes. */
function themeKey(): string {
  return `${currentTheme()} ${document.body.dataset.jpThemeName ?? ''}`;
}

/** The application's theme, kept up to date. */
export function useTheme(): { kind: ThemeKind; key: string } {
  const key = React.useSyncExternalStore(subscribe, themeKey);
  return { kind: key.startsWith('dark') ? 'dark' : 'light', key };
}
