/** Rows for spreadsheets (RFC 4180). No cell can become a formula or send control sequences to a terminal. */
import { printable } from '../../projections/printable.ts';

/** First characters that spreadsheets read as the beginning of a formula. */
const FORMULA = /^[=+\-@\t\r\n]/;

export function csvLine(cells: readonly (string | number | boolean | null)[]): string {
  return `${cells.map(cell).join(',')}\r\n`;
}

function cell(value: string | number | boolean | null): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  const shown = printable(value);
  const safe = FORMULA.test(shown.trimStart()) || FORMULA.test(shown) ? `'${shown}` : shown;
  return /[",\r\n\t]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}
