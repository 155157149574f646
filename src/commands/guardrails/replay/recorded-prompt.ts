/** The recorded body of a request as guardrails read it, with the earlier turns that it continues. */
import { requestRefused } from '../../../events/catalogue/exchange.ts';
import { parseExactly } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import type { RecordedExchange } from '../../exchange/record/read-exchange.ts';
import { Refusal } from '../../refusal.ts';
import type { ResponseArchive } from '../../responses/archive.ts';
import { loadChain } from '../../responses/chain.ts';
import { mergeHistory } from '../../responses/history.ts';
import { everything } from '../../visibility.ts';
import type { GuardedDialect } from '../body/guarded-bodies.ts';
import type { ReplayedExchange } from './recorded-requests.ts';

/** Why a request is not evaluated. */
export type RequestObstacle =
  /** It is not recorded: the capture level was `metadata`, or it was erased. */
  | 'body_not_recorded'
  | 'body_not_json'
  /** Guardrails do not read such bodies. */
  | 'endpoint_not_read'
  /** The gateway refused it before guardrails run. */
  | 'refused'
  /** It was answered with the answer of an earlier request with the same idempotency key. */
  | 'repeated';

export interface RecordedPrompt {
  readonly dialect: GuardedDialect;
  readonly body: unknown;
  /** The request continues turns that are not in the body. */
  readonly lacksEarlierTurns: boolean;
}

export async function recordedPrompt(
  { recorded, wasGuarded }: ReplayedExchange,
  archive: ResponseArchive,
): Promise<RecordedPrompt | RequestObstacle> {
  const { request, received, end, answerOf } = recorded;
  const dialect = guardedDialectOf(request);
  if (dialect === undefined) return 'endpoint_not_read';
  if (answerOf !== undefined) return 'repeated';
  if (end?.type === requestRefused.type && !wasGuarded) return 'refused';
  if (received.body === undefined) return 'body_not_recorded';
  const body = jsonIn(received.body);
  if (body === undefined) return 'body_not_json';
  if (dialect !== 'responses') return { dialect, body, lacksEarlierTurns: false };
  return { dialect, ...(await withEarlierTurns(body, archive)) };
}

/** Undefined when guardrails do not read such requests. */
export function guardedDialectOf({ dialect, path }: RecordedExchange['request']): GuardedDialect | undefined {
  switch (dialect) {
    case 'chat':
    case 'responses':
    case 'messages':
    case 'embeddings':
      return dialect;
    case 'forward':
      return /^\/v1\/completions(?:\?|$)/.test(path) ? 'completions' : undefined;
    default:
      return undefined;
  }
}

function jsonIn(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const json = parseExactly(new TextDecoder().decode(bytes));
    return isObject(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

/** A conversation may have changed since then, so its items are not read. */
async function withEarlierTurns(
  body: Record<string, unknown>,
  archive: ResponseArchive,
): Promise<Pick<RecordedPrompt, 'body' | 'lacksEarlierTurns'>> {
  const { previous_response_id: previous, conversation } = body;
  if (conversation !== undefined && conversation !== null) return { body, lacksEarlierTurns: true };
  if (typeof previous !== 'string' || previous === '') return { body, lacksEarlierTurns: false };
  try {
    const chain = await loadChain(previous, everything, archive);
    const turns = chain.map(({ inputItems, response }) => ({ input_items: inputItems, output: outputOf(response) }));
    return { body: { ...body, input: mergeHistory(turns, body['input']) }, lacksEarlierTurns: false };
  } catch (error) {
    if (error instanceof Refusal) return { body, lacksEarlierTurns: true };
    throw error;
  }
}

function outputOf({ output }: Readonly<Record<string, unknown>>): Record<string, unknown>[] {
  return Array.isArray(output) ? output.filter(isObject) : [];
}
