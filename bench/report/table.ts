/** Tables in Markdown, and figures as they stand in them. */

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

/** The same columns padded to equal widths, for a terminal. The first column is text, the others are figures. */
export function plainTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd();
  return [head, ...rows].map(line).join('\n');
}

export const whole = (value: number | null) => (value === null ? '–' : Math.round(value).toLocaleString('en'));
export const milliseconds = (value: number | null) => (value === null ? '–' : value.toFixed(2));
export const ratio = (value: number | null) => (value === null ? '' : value.toFixed(2));
