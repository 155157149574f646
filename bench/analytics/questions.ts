/** Measures how long queries of the admin API take, over 30 days and at any depth of a list. */
import { Histogram } from '../load/histogram.ts';
import { GATEWAY_KEY } from '../servers/gateway.ts';
import type { Server } from '../servers/launch.ts';
import { DAYS } from './history.ts';

/** Under `/admin/`, or from the root when it begins with a slash. */
export const questions = [
  `usage/summary?days=${DAYS}`,
  `usage/daily?days=${DAYS}`,
  `usage/models?days=${DAYS}`,
  `usage/user-paths?days=${DAYS}`,
  `usage/labels?days=${DAYS}`,
  `usage/sessions?days=${DAYS}`,
  `usage/log?days=${DAYS}`,
  'usage/throughput?granularity=minute',
  'usage/throughput?granularity=hour',
  `audit/log?days=${DAYS}`,
  `audit/log?days=${DAYS}&search=request-1234`,
  `audit/sessions?days=${DAYS}`,
  `audit/stats?days=${DAYS}`,
  `audit/histogram?days=${DAYS}`,
  `audit/facets?days=${DAYS}`,
  'audit/log?id=request-1234',
  `/v1/usage?days=${DAYS}`,
] as const;

export async function ask(gateway: Server, question: string, into: Histogram): Promise<unknown> {
  const path = question.startsWith('/') ? question : `/admin/${question}`;
  const began = performance.now();
  const response = await fetch(`${gateway.origin}${path}`, { headers: { authorization: `Bearer ${GATEWAY_KEY}` } });
  const text = await response.text();
  into.record(performance.now() - began);
  if (response.status !== 200) throw new Error(`${path} was answered with ${response.status}: ${text}`);
  return JSON.parse(text);
}

export async function askOften(gateway: Server, question: string, times: number): Promise<Histogram> {
  const took = new Histogram();
  for (let n = 0; n < times; n++) await ask(gateway, question, took);
  return took;
}

/** One request in full, and its conversation: of requests from the whole history. */
export async function askOfOne(gateway: Server, times: number) {
  const detail = new Histogram();
  const conversation = new Histogram();
  for (const id of await idsOf(gateway, times)) {
    await ask(gateway, `audit/detail?log_id=${id}`, detail);
    await ask(gateway, `audit/conversation?log_id=${id}`, conversation);
  }
  return { detail, conversation };
}

async function idsOf(gateway: Server, count: number): Promise<string[]> {
  const ids: string[] = [];
  const total = Number(member(await ask(gateway, `audit/log?days=${DAYS}&limit=1`, new Histogram()), 'total'));
  for (let n = 0; n < count; n++) {
    const offset = Math.floor((total * n) / count);
    const page = await ask(gateway, `audit/log?days=${DAYS}&limit=1&offset=${offset}`, new Histogram());
    const entries = member(page, 'entries');
    if (Array.isArray(entries)) ids.push(String(member(entries[0], 'id')));
  }
  return ids;
}

/** Page after page of the audit log by its cursor, some from the newest request on and some from the middle. */
export async function turnPages(gateway: Server, pages: number): Promise<Histogram> {
  const took = new Histogram();
  const total = Number(member(await ask(gateway, `audit/log?days=${DAYS}&limit=1`, new Histogram()), 'total'));
  for (const offset of [0, 0.5, 0.9]) {
    let from = `&offset=${Math.floor(total * offset)}`;
    for (let page = 0; page <= pages / 3; page++) {
      // The first page is found by its number, and not by a cursor.
      const into = page === 0 && offset > 0 ? new Histogram() : took;
      const answer = await ask(gateway, `audit/log?days=${DAYS}&limit=100${from}`, into);
      const next = member(answer, 'next_cursor');
      if (typeof next !== 'string') break;
      from = `&cursor=${encodeURIComponent(next)}`;
    }
  }
  return took;
}

/** Pages of the audit log by their number, evenly from the first to the last. */
export async function jumpToPages(gateway: Server, pages: number): Promise<Histogram> {
  const took = new Histogram();
  const total = Number(member(await ask(gateway, `audit/log?days=${DAYS}&limit=1`, new Histogram()), 'total'));
  for (let page = 0; page < pages; page++) {
    const offset = Math.floor((total * page) / pages);
    await ask(gateway, `audit/log?days=${DAYS}&limit=100&offset=${offset}`, took);
  }
  return took;
}

function member(value: unknown, name: string): unknown {
  const members: Readonly<Record<string, unknown>> = Object(value);
  return members[name];
}
