/** How a figure differs from that of the time before. */

export interface Change {
  readonly sign: '▲' | '▼' | '=';
  /** Part of the earlier figure, such as 0.12; of figures that are parts themselves, the difference. */
  readonly by: number;
}

/** Undefined when one of them is unknown, or there was nothing before. */
export function relativeChange(now: number | null | undefined, before: number | null | undefined): Change | undefined {
  if (typeof now !== 'number' || typeof before !== 'number' || before === 0) return undefined;
  return changeOf((now - before) / before);
}

/** Of parts from 0 to 1. */
export function differenceOfParts(now: number | null, before: number | null): Change | undefined {
  return now === null || before === null ? undefined : changeOf(now - before);
}

function changeOf(difference: number): Change {
  const by = Math.abs(difference);
  if (by < 0.0005) return { sign: '=', by: 0 };
  return { sign: difference > 0 ? '▲' : '▼', by };
}
