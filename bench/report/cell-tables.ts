/** What the rounds of a comparison showed, as rows of a table. */
import type { Cell, Measured } from '../sections/closed-loop.ts';
import { milliseconds, ratio, whole } from './table.ts';

export const JSON_COLUMNS = ['server', 'per s', 'p50 ms', 'p99 ms', 'CPU µs', 'of it after', 'of bare', 'p99', 'CPU'];
export const STREAM_COLUMNS = ['server', 'per s', 'first p50', 'first p99', ...JSON_COLUMNS.slice(2)];
export const STAMPED_COLUMNS = [...STREAM_COLUMNS.slice(0, 4), 'word p50', 'word p99', ...STREAM_COLUMNS.slice(4)];

export function columnsOf(cell: Cell): readonly string[] {
  const [first] = Object.values(cell.servers);
  if (first?.wordP50 != null) return STAMPED_COLUMNS;
  return cell.stream ? STREAM_COLUMNS : JSON_COLUMNS;
}

/** In the order of `columnsOf`. */
export function rowsOf(cell: Cell): string[][] {
  return Object.entries(cell.servers).map(([name, measured]) => [name, ...figures(measured, cell.stream)]);
}

function figures(measured: Measured, stream: boolean): string[] {
  const { perSecond, firstP50, firstP99, wordP50, wordP99, p50, p99, cpuMicros, afterMicros } = measured;
  return [
    whole(perSecond),
    ...(stream ? [milliseconds(firstP50), milliseconds(firstP99)] : []),
    ...(wordP50 === null ? [] : [milliseconds(wordP50), milliseconds(wordP99)]),
    milliseconds(p50),
    milliseconds(p99),
    whole(cpuMicros),
    whole(afterMicros),
    ratio(measured.ofBare),
    ratio(measured.p99OfBare),
    ratio(measured.cpuOfBare),
  ];
}
