import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const css = readFileSync(new URL('../../dashboard/src/styles/tokens.css', import.meta.url), 'utf8');

/** The colours of a theme; the dark one overrides the light one. */
function coloursOf(theme: 'light' | 'dark'): Map<string, string> {
  const blocks = [...css.matchAll(/(:root[^{]*)\{([^}]*)\}/g)];
  const colours = new Map<string, string>();
  for (const [, selector = '', body = ''] of blocks) {
    if (selector.includes('dark') && theme === 'light') continue;
    for (const [, name = '', value = ''] of body.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})\b/g)) colours.set(name, value);
  }
  return colours;
}

/** WCAG 2.2, "relative luminance". */
function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
    const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [darker = 0, lighter = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

const surfaces = ['page', 'panel', 'panel-raised'];
const soft = ['accent-soft', 'ok-soft', 'warn-soft', 'bad-soft', 'info-soft'];
const texts = ['text', 'text-muted', 'accent', 'ok', 'warn', 'bad', 'info'];

/** WCAG 2.2, 1.4.3: text on what can be behind it. */
const textPairs = [
  ...texts.flatMap((text) => surfaces.map((behind) => [text, behind] as const)),
  ...soft.map((behind) => ['text', behind] as const),
  ...(['ok', 'warn', 'bad', 'info'] as const).map((tone) => [tone, `${tone}-soft`] as const),
  ['accent', 'accent-soft'] as const,
  ['on-accent', 'accent'] as const,
  ['text-muted', 'accent-soft'] as const,
];

/** 1.4.11: borders of controls, the focus, and marks of charts. */
const shapePairs = [
  ...['line-strong', 'focus'].flatMap((shape) => surfaces.map((behind) => [shape, behind] as const)),
  ...Array.from({ length: 8 }, (_, at) => [`series-${at + 1}`, 'panel'] as const),
];

describe.each(['light', 'dark'] as const)('the %s theme', (theme) => {
  const colours = coloursOf(theme);
  const ratio = (one: string, other: string) => contrast(colours.get(one) ?? '', colours.get(other) ?? '');

  it.each(textPairs)('shows %s on %s with a contrast of at least 4.5', (text, behind) => {
    expect(ratio(text, behind)).toBeGreaterThanOrEqual(4.5);
  });

  it.each(shapePairs)('shows %s on %s with a contrast of at least 3', (shape, behind) => {
    expect(ratio(shape, behind)).toBeGreaterThanOrEqual(3);
  });
});
