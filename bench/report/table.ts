/** Tables in Markdown, and the format of their figures. */

import type { Interval } from '../sections/median.ts';

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** The same columns padded to equal widths, for a terminal: figures to the right, texts to the left. */
export function plainTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const isText = head.map((_, column) => rows.some((row) => /^[^\d–-]/.test(row[column] ?? '')));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => (isText[column] ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd();
  return [head, ...rows].map(line).join('\n');
}

export const whole = (value: number | null) => (value === null ? '–' : Math.round(value).toLocaleString('en'));
export const milliseconds = (value: number | null) => (value === null ? '–' : value.toFixed(2));
export const ratio = (value: number | null) => (value === null ? '' : value.toFixed(2));
export const interval = (value: Interval | null) =>
  value === null ? '' : `${ratio(value.middle)} (${ratio(value.low)}–${ratio(value.high)})`;
