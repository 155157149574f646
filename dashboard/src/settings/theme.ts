/** Light, dark, or as the system is. */
import { effect, signal } from '@preact/signals';
import { storedSignal } from './stored.ts';

export const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

export const theme = storedSignal<Theme>('theme', 'system', (stored) => themes.find((name) => name === stored));

const darkSystem = matchMedia('(prefers-color-scheme: dark)');
const systemIsDark = signal(darkSystem.matches);

/** Sets `data-theme` of the document now and at each change. */
export function followTheme(): void {
  darkSystem.addEventListener('change', () => {
    systemIsDark.value = darkSystem.matches;
  });
  effect(() => {
    const isDark = theme.value === 'dark' || (theme.value === 'system' && systemIsDark.value);
    document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
  });
}
