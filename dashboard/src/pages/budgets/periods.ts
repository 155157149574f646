/** Periods of budgets and rate limits in words. */

/** Of a list to choose from; the value is in seconds. */
export interface PeriodChoice {
  readonly value: string;
  readonly title: string;
}

export const budgetPeriods: readonly PeriodChoice[] = [
  { value: '3600', title: 'Hour' },
  { value: '86400', title: 'Day' },
  { value: '604800', title: 'Week' },
  { value: '2592000', title: 'Month' },
];

export const limitPeriods: readonly PeriodChoice[] = [
  { value: '60', title: 'Minute' },
  { value: '3600', title: 'Hour' },
  { value: '86400', title: 'Day' },
  { value: '0', title: 'Concurrent requests' },
];

const units = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const;

/** Such as `daily`; other periods by their length: `90 minutes`. */
export function periodTitle(seconds: number, label: string): string {
  if (!/^\d+s$/.test(label)) return label;
  const [name, length] = units.find(([, size]) => seconds % size === 0) ?? ['second', 1];
  const count = seconds / length;
  return `${count} ${name}${count === 1 ? '' : 's'}`;
}
