/** A response whose id a client knows is unchanged after the restart. */
import { isDeepStrictEqual } from 'node:util';
import { isObject } from '../../src/json/is-object.ts';
import { endsOf } from './check-exchanges.ts';
import {
  type Conversation,
  objectOf,
  outputText,
  type Retrieved,
  streamedResponse,
  type Violation,
} from './evidence.ts';
import { eventOf, type RecordedLog } from './recorded-log.ts';

/** The facts that a client may rely on, of a response whose id it has seen. */
export interface KnownResponse {
  readonly id: string;
  /** The response as the client got it; undefined when its stream was cut before the terminal event. */
  readonly seen: Record<string, unknown> | undefined;
  /** Of a cut stream: the text that had arrived. */
  readonly text: string;
  readonly exchangeId: string | undefined;
  readonly stored: boolean;
}

/** The responses whose ids clients got in these conversations. */
export function knownResponses(conversations: readonly Conversation[]): KnownResponse[] {
  const known: KnownResponse[] = [];
  for (const { request, answer } of conversations) {
    if (request.route !== 'responses' || answer.status !== 200) continue;
    const exchangeId = answer.headers['x-exchange-id'];
    const stored = request.store !== false;
    if (request.stream) {
      const { id, text, final } = streamedResponse(answer.body);
      if (id !== undefined) known.push({ id, seen: final, text, exchangeId, stored });
    } else if (answer.end === 'whole') {
      const seen = objectOf(answer.body);
      if (typeof seen?.id === 'string') known.push({ id: seen.id, seen, text: '', exchangeId, stored });
    }
  }
  return known;
}

export type Deletion = 'none' | 'asked' | 'done';

/** How far the deletion of each response came, as its clients know. */
export function deletions(conversations: readonly Conversation[]): Map<string, Deletion> {
  const states = new Map<string, Deletion>();
  for (const { request, answer } of conversations) {
    if (request.route !== 'delete' || request.responseId === undefined) continue;
    const done = answer.status === 200 || states.get(request.responseId) === 'done';
    states.set(request.responseId, done ? 'done' : 'asked');
  }
  return states;
}

export async function checkResponses(
  responses: readonly KnownResponse[],
  deleted: ReadonlyMap<string, Deletion>,
  log: RecordedLog,
  retrieve: (id: string) => Promise<Retrieved>,
): Promise<Violation[]> {
  const found: Violation[] = [];
  for (const response of responses) {
    const wrong = checkResponse(response, deleted.get(response.id) ?? 'none', log, await retrieve(response.id));
    if (wrong !== undefined) found.push({ check: 'responses', what: `response ${response.id}: ${wrong}` });
  }
  return found;
}

function checkResponse(
  { seen, text, exchangeId, stored }: KnownResponse,
  deletion: Deletion,
  log: RecordedLog,
  { status, json }: Retrieved,
): string | undefined {
  if (deletion === 'done' || !stored) {
    return status === 404
      ? undefined
      : `${stored ? 'it was deleted' : 'it was not to be kept'}, and GET says ${status}`;
  }
  // No client got an answer to the deletion: both outcomes are right.
  if (deletion === 'asked' && status === 404) return undefined;
  if (status !== 200 || !isObject(json)) return `GET says ${status} after its id had reached the client`;
  if (seen !== undefined) return isShown(json, seen) ? undefined : 'GET shows something else than its client saw';
  if (!outputText(json).startsWith(text)) return 'GET lacks text that had reached the client';
  // Its end may be on disk without having reached the client; then, and only then, it is complete.
  const exchange = exchangeId === undefined ? undefined : log.exchanges.get(exchangeId);
  const end = exchange === undefined ? undefined : endsOf(exchange)[0];
  // The stream of a repetition: the response is that of the exchange that made it.
  if (exchange !== undefined && eventOf(exchange, 'answer.replayed') !== undefined) return undefined;
  const expected = end?.type === 'exchange.completed' ? ['completed'] : ['failed', 'cancelled'];
  if (expected.some((status) => status === json.status)) return undefined;
  const types = exchange?.events.map(({ type }) => type).join(', ');
  return `its stream was cut, and its status is ${json.status}, not ${expected.join(' or ')} (exchange ${exchangeId}: ${types})`;
}

/** A response as its client saw it. A stream of a provider's own events, which pass unchanged, lacks `provider`. */
function isShown(found: object | undefined, seen: object): boolean {
  return (
    isDeepStrictEqual(found, seen) ||
    isDeepStrictEqual({ ...found, provider: undefined }, { ...seen, provider: undefined })
  );
}

/** Wrong answers to questions about earlier turns, and to retrievals and deletions while the gateway ran. */
export function checkContents(conversations: readonly Conversation[]): Violation[] {
  const found: Violation[] = [];
  for (const { request, answer } of conversations) {
    const complain = (what: string) =>
      found.push({ check: 'contents', what: `${request.method} ${request.path}: ${what}` });
    if (request.recalls !== undefined && answer.status === 200) {
      const final = request.stream ? streamedResponse(answer.body).final : objectOf(answer.body);
      const answered = request.stream ? final?.status === 'completed' : answer.end === 'whole';
      if (answered && !outputText(final).includes(request.recalls))
        complain(`the answer does not know ${request.recalls}`);
    }
    if (request.shows === 'gone' && answer.end === 'whole' && answer.status !== 404) {
      complain(`it was deleted, and the answer is ${answer.status}`);
    }
    if (typeof request.shows === 'object' && answer.end === 'whole') {
      const same = answer.status === 200 && isShown(objectOf(answer.body), request.shows);
      if (!same) complain(`the answer (${answer.status}) is not what its creator was shown`);
    }
    if (request.route === 'delete' && answer.end === 'whole' && answer.status === 200) {
      if (objectOf(answer.body)?.deleted !== true) complain(`it answers ${answer.body}`);
    }
  }
  return found;
}
