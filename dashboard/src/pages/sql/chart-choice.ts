/** Which columns of a result a chart can show, and the values of its bars or lines. Pure. */
import { cellText, isNumeric, isTime, numberIn, type ResultColumn, type SqlTable } from './sql-result.ts';

export interface ChartChoice {
  readonly kind: 'bars' | 'lines';
  /** Names of columns. */
  readonly x: string;
  readonly y: string;
  /** One bar part or line for each value of this column; '' for one alone. */
  readonly series: string;
}

export interface ChartSeries {
  readonly name: string;
  /** One for each place of x; null is a gap. */
  readonly values: readonly (number | null)[];
}

export interface ChartData {
  /** Texts of x. */
  readonly places: readonly string[];
  readonly series: readonly ChartSeries[];
  /** What is not drawn, in sentences. */
  readonly notes: readonly string[];
}

const MOST_SERIES = 8;
const MOST_PLACES = 400;

/** Columns for y: numbers. */
export function valueColumns({ columns }: SqlTable): ResultColumn[] {
  return columns.filter(isNumeric);
}

/**
 * The usual chart: the first number over the first time, or else over the first text; by another text with at most
 * eight values. Undefined for a result without numbers, or with one column.
 */
export function usualChart(table: SqlTable): ChartChoice | undefined {
  const { columns } = table;
  const time = columns.find(isTime);
  const x = time ?? columns.find((column) => !isNumeric(column)) ?? columns[0];
  const y = columns.find((column) => isNumeric(column) && column !== x);
  if (x === undefined || y === undefined) return undefined;
  const series = columns.find(
    (column) => column !== x && !isNumeric(column) && !isTime(column) && isFew(table, column, MOST_SERIES),
  );
  return { kind: time === undefined ? 'bars' : 'lines', x: x.name, y: y.name, series: series?.name ?? '' };
}

function isFew({ columns, rows }: SqlTable, column: ResultColumn, most: number): boolean {
  const at = columns.indexOf(column);
  return new Set(rows.map((row) => cellText(row[at]))).size <= most;
}

/** The choice as far as the columns of the result have it; otherwise the usual one. */
export function validChoice(table: SqlTable, choice: ChartChoice | undefined): ChartChoice | undefined {
  const has = (name: string) => table.columns.some((column) => column.name === name);
  const isValid =
    choice !== undefined &&
    has(choice.x) &&
    valueColumns(table).some(({ name }) => name === choice.y) &&
    (choice.series === '' || has(choice.series));
  return isValid ? choice : usualChart(table);
}

/** Several rows of one place and series are summed. Times and numbers are in their order, texts as in the result. */
export function chartData(table: SqlTable, { x, y, series }: ChartChoice): ChartData {
  const { columns, rows } = table;
  const at = (name: string) => columns.findIndex((column) => column.name === name);
  const [xAt, yAt, seriesAt] = [at(x), at(y), at(series)];
  const sums = new Map<string, Map<string, number>>();
  const places = new Set<string>();
  let negative = false;
  for (const row of rows) {
    const place = cellText(row[xAt]);
    places.add(place);
    const value = numberIn(row[yAt]);
    if (value === null) continue;
    negative ||= value < 0;
    const name = seriesAt === -1 ? y : cellText(row[seriesAt]);
    const ofSeries = sums.get(name) ?? new Map<string, number>();
    sums.set(name, ofSeries.set(place, (ofSeries.get(place) ?? 0) + value));
  }
  const ordered = inOrder([...places], columns[xAt]);
  const largest = [...sums].sort(([, one], [, other]) => total(other) - total(one));
  const drawn = ordered.slice(0, MOST_PLACES);
  return {
    places: drawn,
    series: largest
      .slice(0, MOST_SERIES)
      .map(([name, values]) => ({ name, values: drawn.map((place) => values.get(place) ?? null) })),
    notes: [
      ...(largest.length > MOST_SERIES ? [`The ${MOST_SERIES} largest of ${largest.length} series are drawn.`] : []),
      ...(ordered.length > MOST_PLACES ? [`The first ${MOST_PLACES} of ${ordered.length} places are drawn.`] : []),
      ...(negative ? ['Values below 0 are drawn as 0.'] : []),
    ],
  };
}

function inOrder(places: readonly string[], column: ResultColumn | undefined): string[] {
  if (column === undefined) return [...places];
  if (isTime(column)) return places.toSorted();
  return isNumeric(column) ? places.toSorted((one, other) => Number(one) - Number(other)) : [...places];
}

function total(values: ReadonlyMap<string, number>): number {
  return [...values.values()].reduce((sum, value) => sum + value, 0);
}

/** Texts below the axis: of times without what all of them share. */
export function ticksOf(places: readonly string[]): string[] {
  const areTimes = places.every((place) => /^\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d(?:\.\d+)?)?$/.test(place));
  if (!areTimes) return places.map((place) => (place.length > 11 ? `${place.slice(0, 10)}…` : place));
  const haveClock = places.some((place) => place.length > 10 && !/ 00:00:00(?:\.0+)?$/.test(place));
  const days = new Set(places.map((place) => place.slice(0, 10)));
  return places.map((place) => {
    if (!haveClock) return place.slice(5, 10);
    return days.size === 1 ? place.slice(11, 16) : place.slice(5, 16);
  });
}
