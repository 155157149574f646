/** Axes of charts: round steps, and where a value is. */

/** Values of the grid lines from 0 to at least `max`, with steps of 1, 2 or 5 times a power of ten. */
export function roundSteps(max: number, most = 4): readonly number[] {
  if (!(max > 0)) return [0, 1];
  const raw = max / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw * (1 - 1e-9)) ?? 10) * power;
  const count = Math.ceil(max / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, place) => place * step);
}

/** The same for counts: no step is smaller than 1. */
export function wholeSteps(max: number, most = 4): readonly number[] {
  const steps = roundSteps(max, most);
  return (steps[1] ?? 1) < 1 ? Array.from({ length: Math.ceil(max) + 1 }, (_, place) => place) : steps;
}

/** Which of so many labels are shown, so that each has this much room. The first one always is. */
export function shownLabels(count: number, width: number, room: number): readonly number[] {
  const every = Math.max(1, Math.ceil((count * room) / Math.max(1, width)));
  return Array.from({ length: Math.ceil(count / every) }, (_, place) => place * every);
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Parts of a line between gaps: a null ends one part. A part of one point is a part too. */
export function lineParts(points: readonly (Point | null)[]): readonly (readonly Point[])[] {
  const parts: Point[][] = [];
  let open: Point[] | undefined;
  for (const point of points) {
    if (point === null) open = undefined;
    else if (open !== undefined) open.push(point);
    else {
      open = [point];
      parts.push(open);
    }
  }
  return parts;
}

/** The path of a line with gaps, for the attribute `d`. */
export function linePath(points: readonly (Point | null)[]): string {
  const at = ({ x, y }: Point) => `${round(x)} ${round(y)}`;
  return lineParts(points)
    .map((part) => `M${part.map(at).join('L')}`)
    .join('');
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

export interface Stacked {
  readonly from: number;
  readonly to: number;
}

/** Where each value of a stack begins and ends. Negative and missing values have no extent. */
export function stacked(values: readonly (number | null)[]): readonly Stacked[] {
  let top = 0;
  return values.map((value) => {
    const from = top;
    top += Math.max(0, value ?? 0);
    return { from, to: top };
  });
}

/** Levels of heat: 0 without a value, else 1 to 4 by the quarter of the non-zero values that it is in. */
export function heatLevels(values: readonly (number | null)[]): readonly number[] {
  const sorted = values
    .filter((value) => value !== null && value > 0)
    .sort((one, other) => Number(one) - Number(other));
  const bound = (part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? 0;
  const bounds = [bound(0.25), bound(0.5), bound(0.75)];
  return values.map((value) => {
    if (value === null || value <= 0) return 0;
    return 1 + bounds.filter((each) => value > each).length;
  });
}
