/** Where the marks of the overview lead: to Audit with the filter that finds the same requests. */
import type { Answer } from '../../api/client.ts';
import { hrefOf, type QueryValue } from '../../app/router.ts';

export type Overview = Answer<'/admin/overview'>;
export type OverviewBucket = Overview['buckets'][number];

export interface Between {
  readonly from: string;
  readonly to: string;
}

export function auditHref({ from, to }: Between, filter: Readonly<Record<string, QueryValue>> = {}): string {
  return hrefOf('/audit', { from, to, ...filter });
}

/** The times of each bucket, cut to the range. */
export function bucketTimes({ buckets, from, to }: Pick<Overview, 'buckets' | 'from' | 'to'>): readonly Between[] {
  return buckets.map(({ start }, place) => ({
    from: later(start, from),
    to: earlier(buckets[place + 1]?.start ?? to, to),
  }));
}

function later(one: string, other: string): string {
  return Date.parse(one) > Date.parse(other) ? one : other;
}

function earlier(one: string, other: string): string {
  return Date.parse(one) < Date.parse(other) ? one : other;
}
