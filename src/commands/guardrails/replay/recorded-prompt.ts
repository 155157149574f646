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
import { type GuardedDialect, guardedBodies } from '../body/guarded-bodies.ts';
import type { GuardedBody } from '../body/guarded-body.ts';
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
  /** The provider would keep the answer, so the gateway refuses such requests where guardrails run. */
  | 'background_at_provider'
  /** It was answered with the answer of an earlier request with the same idempotency key. */
  | 'repeated';

export interface RecordedPrompt {
  readonly dialect: GuardedDialect;
  readonly body: unknown;
  /** How the answer is read; undefined when it has no text. */
  readonly answer: GuardedBody | undefined;
  /** The request continues turns that are not in the body. */
  readonly lacksEarlierTurns: boolean;
}

export async function recordedPrompt(
  { recorded, target, wasGuarded }: ReplayedExchange,
  archive: ResponseArchive,
): Promise<RecordedPrompt | RequestObstacle> {
  const { request, received, attempt, end, answerOf } = recorded;
  const dialect = guardedDialectOf(request);
  if (dialect === undefined) return 'endpoint_not_read';
  if (answerOf !== undefined) return 'repeated';
  if (end?.type === requestRefused.type && !wasGuarded) return 'refused';
  if (received.body === undefined) return 'body_not_recorded';
  const body = jsonIn(received.body);
  if (body === undefined) return 'body_not_json';
  const answer = countsTokens.test(request.path) ? undefined : guardedBodies[dialect].answer;
  if (dialect !== 'responses') return { dialect, body, answer, lacksEarlierTurns: false };
  if (body['background'] === true && attempt?.dialect === 'responses') return 'background_at_provider';
  return { dialect, answer, ...(await withEarlierTurns(body, target?.provider, archive)) };
}

/** Undefined when guardrails do not read such requests. */
function guardedDialectOf({ dialect, path }: RecordedExchange['request']): GuardedDialect | undefined {
  switch (dialect) {
    case 'chat':
    case 'messages':
    case 'embeddings':
      return dialect;
    case 'responses':
      return compacts.test(path) ? undefined : dialect;
    case 'forward':
      return /^\/v1\/completions(?:\?|$)/.test(path) ? 'completions' : undefined;
    default:
      return undefined;
  }
}

const countsTokens = /\/(?:count|input)_tokens(?:\?|$)/;
const compacts = /\/compact(?:\?|$)/;

function jsonIn(bytes: Uint8Array): Record<string, unknown> | undefined {
  try {
    const json = parseExactly(new TextDecoder().decode(bytes));
    return isObject(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The turns before a response, unless the provider looks them up itself, as for a request. A conversation may have
 * changed since then, so its items are not read.
 */
async function withEarlierTurns(
  body: Record<string, unknown>,
  provider: string | undefined,
  archive: ResponseArchive,
): Promise<Pick<RecordedPrompt, 'body' | 'lacksEarlierTurns'>> {
  const { previous_response_id: previous, conversation } = body;
  if (conversation !== undefined && conversation !== null) return { body, lacksEarlierTurns: true };
  if (typeof previous !== 'string' || previous === '') return { body, lacksEarlierTurns: false };
  const head = await archive.find(previous, everything);
  if (head?.native === true && head.provider === provider) return { body, lacksEarlierTurns: false };
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
