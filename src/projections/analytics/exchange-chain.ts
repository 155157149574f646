/**
 * The requests that belong together with one request, without content: those of its session and its conversation, those
 * that continue one another by `previous_response_id`, and those that got the same recorded answer.
 */

import { historyReplayed, requestReceived } from '../../events/catalogue/exchange.ts';
import { conversationItemsAdded, responseStored } from '../../events/catalogue/response.ts';
import { type StreamName, streamName } from '../../events/event.ts';
import { type EventLog, newestEvent } from '../../events/log.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { isA } from '../projection.ts';
import { isResponseId } from '../responses.ts';
import type { Ask } from './analytics-db.ts';
import { idsOfSession, type RequestUsage, rowsOfRequests, storedAfter, usageOfRequests } from './audit-queries.ts';
import type { ExchangeRow } from './exchange-row.ts';
import { summaryInLog } from './request-in-log.ts';

export interface ChainNode {
  readonly row: ExchangeRow;
  readonly usage: RequestUsage | undefined;
}

export interface ChainEdge {
  /** The earlier exchange. */
  readonly from: string;
  /** The later exchange. */
  readonly to: string;
  readonly kind: 'previous_response' | 'conversation' | 'session' | 'replayed_from';
}

export interface ExchangeChain {
  /** Oldest first. */
  readonly nodes: readonly ChainNode[];
  readonly edges: readonly ChainEdge[];
  /** Whether requests are missing because of the limit. */
  readonly truncated: boolean;
}

export interface ChainOf {
  readonly ask: Ask;
  readonly log: EventLog;
  /** Most nodes. */
  readonly limit: number;
  isVisible(row: ExchangeRow): boolean;
}

/** Requests that are read from the log because analytics does not have them. */
const MOST_FROM_LOG = 100;

/** Undefined when there is no such request. What analytics does not find, such as later requests of the session, is missing. */
export async function exchangeChain(anchor: StreamName, options: ChainOf): Promise<ExchangeChain | undefined> {
  const { ask, log, limit, isVisible } = options;
  const begin = await summaryInLog(anchor, log);
  if (begin === undefined || !isVisible(begin.row)) return undefined;
  const at = Number(begin.row.at_us) / 1000;
  const of = { at, userPath: begin.row.user_path };
  const { previousResponseId, conversationId } = await namedIn(anchor, log);
  const ids = new Set([begin.row.id]);
  let truncated = false;
  const edges: ChainEdge[] = [];

  /** @returns whether there is room for it */
  const add = (id: string): boolean => {
    if (ids.has(id)) return true;
    if (ids.size >= limit) truncated = true;
    else ids.add(id);
    return ids.has(id);
  };

  const link = (from: string, to: string, kind: ChainEdge['kind']): boolean => {
    if (!add(from) || !add(to)) return false;
    if (!edges.some((edge) => edge.from === from && edge.to === to)) edges.push({ from, to, kind });
    return true;
  };

  // Backwards, from the streams of the responses.
  let later = begin.row.id;
  for (let previous = previousResponseId; previous !== undefined; ) {
    const stored = await storedResponse(previous, log);
    if (stored === undefined || edges.some(({ from }) => from === stored.exchangeId)) break;
    if (!link(stored.exchangeId, later, 'previous_response')) break;
    later = stored.exchangeId;
    previous = stored.previousResponseId ?? undefined;
  }

  // Forwards, from the responses that were stored afterwards.
  if (begin.row.response_id !== '') {
    const stored = await storedAfter(ask, of);
    const nextOf = Map.groupBy(stored, ({ previous }) => previous);
    const open = [{ id: begin.row.id, response: begin.row.response_id }];
    for (let one = open.shift(); one !== undefined; one = open.shift()) {
      for (const { exchange, response } of nextOf.get(one.response) ?? []) {
        if (!ids.has(exchange) && link(one.id, exchange, 'previous_response')) open.push({ id: exchange, response });
      }
    }
  }

  if (conversationId !== undefined) {
    const turns = await turnsOf(conversationId, limit + 1, log);
    for (const [place, turn] of turns.entries()) {
      const before = turns[place - 1];
      if (before !== undefined && before !== turn) link(before, turn, 'conversation');
    }
  }

  if (begin.row.session_id !== '') {
    const { session_id: sessionId, user_path: userPath } = begin.row;
    for (const id of await idsOfSession(ask, { sessionId, userPath, at }, limit + 1)) add(id);
  }
  if (begin.row.replayed_from !== '') link(begin.row.replayed_from, begin.row.id, 'replayed_from');

  const { nodes, isCut } = await nodesOf([...ids], begin, options);
  const visible = new Set(nodes.map(({ row }) => row.id));
  for (const { row } of nodes) {
    if (row.replayed_from !== '' && visible.has(row.replayed_from)) link(row.replayed_from, row.id, 'replayed_from');
  }
  for (const [from, to] of sessionPairs(nodes)) link(from, to, 'session');
  return {
    nodes,
    edges: edges.filter(({ from, to }) => visible.has(from) && visible.has(to)),
    truncated: truncated || isCut,
  };
}

/** The earlier response and the conversation that the request names. */
async function namedIn(stream: StreamName, log: Pick<EventLog, 'readStream'>) {
  let previousResponseId: string | undefined;
  let conversationId: string | undefined;
  for await (const event of log.readStream(stream, { maxCount: 20 })) {
    if (isA(event, historyReplayed)) conversationId ??= event.data.conversation;
    if (!isA(event, requestReceived) || event.body === undefined || event.data.dialect !== 'responses') continue;
    const json = parsed(event.body);
    if (!isObject(json)) continue;
    const { previous_response_id: previous, conversation } = json;
    if (typeof previous === 'string') previousResponseId = previous;
    const named: unknown = isObject(conversation) ? conversation['id'] : conversation;
    if (typeof named === 'string') conversationId = named;
  }
  return { previousResponseId, conversationId };
}

function parsed(body: Uint8Array): unknown {
  try {
    return parseExactly(new TextDecoder().decode(body));
  } catch {
    return undefined;
  }
}

async function storedResponse(id: string, log: Pick<EventLog, 'readStream'>) {
  if (!isResponseId(id)) return undefined;
  const newest = await newestEvent(streamName('response', id), log);
  return newest !== undefined && isA(newest, responseStored) ? newest.data : undefined;
}

/** The exchanges whose turns are in the conversation, oldest first; of many, the newest. */
async function turnsOf(id: string, limit: number, log: Pick<EventLog, 'readStream'>): Promise<string[]> {
  if (!isResponseId(id)) return [];
  const turns: string[] = [];
  const options = { direction: 'backwards', maxCount: 4 * limit } as const;
  for await (const event of log.readStream(streamName('conversation', id), options)) {
    if (isA(event, conversationItemsAdded) && event.data.exchangeId !== undefined) turns.push(event.data.exchangeId);
    if (turns.length === limit) break;
  }
  return turns.reverse();
}

/** Their rows from analytics; those that it does not have yet from the log. */
async function nodesOf(ids: readonly string[], begin: ChainNode, options: ChainOf) {
  const { ask, log, isVisible } = options;
  const rows = await rowsOfRequests(ask, ids, Number(begin.row.at_us) / 1000);
  const usage = await usageOfRequests(ask, rows);
  const nodes = new Map<string, ChainNode>(rows.map((row) => [row.id, { row, usage: usage.get(row.id) }]));
  nodes.set(begin.row.id, begin);
  const missing = ids.filter((id) => !nodes.has(id));
  for (const id of missing.slice(0, MOST_FROM_LOG)) {
    const found = await summaryInLog(streamName('exchange', id), log);
    if (found !== undefined) nodes.set(id, found);
  }
  const found = [...nodes.values()]
    .filter(({ row }) => isVisible(row))
    .sort((one, other) => Number(one.row.at_us) - Number(other.row.at_us));
  return { nodes: found, isCut: missing.length > MOST_FROM_LOG };
}

/** Each request of a session with the one after it. */
function sessionPairs(nodes: readonly ChainNode[]): [string, string][] {
  const sessions = Map.groupBy(
    nodes.filter(({ row }) => row.session_id !== ''),
    ({ row }) => JSON.stringify([row.user_path, row.session_id]),
  );
  return [...sessions.values()].flatMap((of) =>
    of.slice(1).map(({ row }, place): [string, string] => [of[place]?.row.id ?? row.id, row.id]),
  );
}
