import type { FastifyRequest } from 'fastify';
import { refusals } from '../commands/refusal.ts';

/** The query of a request, as Fastify reads it. */
export type Query = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The value of a parameter; of several, the last. An empty one counts as not given. */
export function single(value: Query[string]): string | undefined {
  const one = typeof value === 'object' ? value.at(-1) : value;
  return one === '' ? undefined : one;
}

/**
 * Called for every route but those that are passed on to a provider: ClickHouse reads a text only up to a zero byte.
 * @throws Refusal 400 for a parameter that contains one
 */
export function checkQuery({ url, query }: Pick<FastifyRequest, 'url' | 'query'>): void {
  if (!url.includes('%00')) return;
  for (const [name, value] of Object.entries(query as Query)) {
    const texts = [name, ...[value].flat()];
    if (!texts.some((text) => text?.includes('\0'))) continue;
    const param = name.replaceAll('\0', '');
    throw refusals.invalidRequest(`'${param}' contains a zero byte.`, param);
  }
}
