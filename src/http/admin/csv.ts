/** Rows for spreadsheets (RFC 4180), in which no cell can become a formula, or steer the terminal that shows it. */
import { printable } from '../../projections/printable.ts';

/** What spreadsheets take for the beginning of a formula. */
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
