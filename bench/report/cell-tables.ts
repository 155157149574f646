/** The results of the rounds of a comparison, as rows of a table. */
import type { Cell, Measured } from '../sections/closed-loop.ts';
import { interval, milliseconds, ratio, whole } from './table.ts';

interface Column {
  readonly title: string;
  readonly of: (measured: Measured) => string;
}

const rate: Column = { title: 'per s', of: ({ perSecond }) => whole(perSecond) };
const rest: readonly Column[] = [
  { title: 'p50 ms', of: ({ p50 }) => milliseconds(p50) },
  { title: 'p99 ms', of: ({ p99 }) => milliseconds(p99) },
  { title: 'CPU µs', of: ({ cpuMicros }) => whole(cpuMicros) },
  { title: 'of it after', of: ({ afterMicros }) => whole(afterMicros) },
  { title: 'rate of bare', of: ({ ofBare }) => ratio(ofBare) },
  { title: 'p99 of bare', of: ({ p99OfBare }) => ratio(p99OfBare) },
  { title: 'CPU of bare', of: ({ cpuOfBare }) => ratio(cpuOfBare) },
  { title: 'flush ms', of: ({ flushMs }) => milliseconds(flushMs) },
];
const compared: Column = { title: 'CPU of this checkout', of: ({ cpuOfThis }) => interval(cpuOfThis) };
const first: readonly Column[] = [
  { title: 'first p50', of: ({ firstP50 }) => milliseconds(firstP50) },
  { title: 'first p99', of: ({ firstP99 }) => milliseconds(firstP99) },
];
/** The columns for a stream of stamped words; its rate and its length follow from the pace. */
const words: readonly Column[] = [
  { title: 'word p50', of: ({ wordP50 }) => milliseconds(wordP50) },
  { title: 'word p99', of: ({ wordP99 }) => milliseconds(wordP99) },
  { title: 'KB per stream', of: ({ connectionKb }) => whole(connectionKb) },
];

function columnsFor(cell: Cell): readonly Column[] {
  const isComparison = Object.values(cell.servers).some(({ cpuOfThis }) => cpuOfThis !== null);
  return isComparison ? [...ownColumns(cell), compared] : ownColumns(cell);
}

function ownColumns(cell: Cell): readonly Column[] {
  const isStamped = Object.values(cell.servers).some(({ wordP50 }) => wordP50 !== null);
  if (isStamped)
    return [rate, ...first, ...words, ...rest.filter(({ title }) => title.startsWith('CPU') || title === 'flush ms')];
  return cell.stream ? [rate, ...first, ...rest] : [rate, ...rest];
}

/** The titles, the first of which is that of the server's name. */
export function cellColumns(cell: Cell): string[] {
  return ['server', ...columnsFor(cell).map(({ title }) => title)];
}

/** A row for each server, in the order of `cellColumns`. */
export function cellRows(cell: Cell): string[][] {
  const columns = columnsFor(cell);
  return Object.entries(cell.servers).map(([name, measured]) => [name, ...columns.map(({ of }) => of(measured))]);
}
