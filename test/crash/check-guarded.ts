/** Requests whose workflow has guardrails: personal values stay here, and clients get what was evaluated and recorded. */
import { z } from 'zod';
import type { RecordedEvent } from '../../src/events/event.ts';
import { isObject } from '../../src/json/is-object.ts';
import { endsOf } from './check-exchanges.ts';
import {
  type Answer,
  dataOf,
  framesOf,
  type GuardedRequest,
  objectOf,
  outputText,
  type ProviderCall,
  type SentRequest,
  type Violation,
} from './evidence.ts';
import { eventOf, type RecordedExchange, type RecordedLog, textIn } from './recorded-log.ts';

/** The user paths whose workflows have guardrails are below it. */
export const GUARDED = '/guarded';
/** The domain of all personal values of the load. */
export const PERSONAL_DOMAIN = 'personal.example';
const PLACEHOLDER = /EMAIL_\d/;
const DONE = 'data: [DONE]';

/** `live`: streams are evaluated as they arrive. `collected`: a guardrail of the response phase reads them as a whole. */
export type WorkflowKind = 'live' | 'collected';

type Complain = (check: string, what: string) => void;

/** No request to a provider contains a personal value. */
export function checkOriginalValues(calls: readonly ProviderCall[]): Violation[] {
  return calls
    .filter(({ body, path }) => body?.includes(PERSONAL_DOMAIN) || path.includes(PERSONAL_DOMAIN))
    .map(({ provider, path, requestId, body = '' }) => {
      const at = body.indexOf(PERSONAL_DOMAIN);
      const value = body.slice(Math.max(0, at - 60), at + PERSONAL_DOMAIN.length);
      return { check: 'original value', what: `${provider} got ${path} (request ${requestId}) with …${value}` };
    });
}

/** Every exchange below the guarded path has its workflow, and no provider or client got anything unevaluated. */
export function checkGuardedExchanges(log: RecordedLog, kinds: ReadonlyMap<string, WorkflowKind>): Violation[] {
  const found: Violation[] = [];
  for (const exchange of log.exchanges.values()) {
    const { userPath = '' } = exchange.events[0]?.context ?? {};
    if (!userPath.startsWith(`${GUARDED}/`)) continue;
    const complain: Complain = (check, what) => found.push({ check, what: `exchange ${exchange.id}: ${what}` });
    const { scope, id = '' } = workflowOf(exchange);
    if (scope !== `path:${userPath}`) complain('workflow', `its workflow is of ${scope}, and its path is ${userPath}`);
    checkApplied(exchange, kinds.get(id), complain);
  }
  return found;
}

function checkApplied(exchange: RecordedExchange, kind: WorkflowKind | undefined, complain: Complain): void {
  const { events } = exchange;
  const types = events.map(({ type }) => type);
  const applied = events.filter(({ type }) => type === 'guardrail.applied');
  const called = types.indexOf('attempt.started');
  if (called !== -1 && !events.slice(0, called).some((event) => textIn(event, 'phase') === 'prompt')) {
    complain('applied', 'a provider was called before guardrails evaluated the request');
  }
  if (!types.includes('exchange.completed') || types.includes('answer.replayed')) return;
  const stream = isObject(events[0]?.data) && events[0].data.stream;
  const ofAnswer = [...(stream === true ? ['stream'] : []), ...(kind === 'collected' ? ['response'] : [])];
  // The answer of the entry was evaluated when it was made, under the same version of the workflow.
  const needed = types.includes('cache.hit') ? ['prompt'] : ['prompt', ...ofAnswer];
  const phases = applied.map((event) => textIn(event, 'phase'));
  const missing = needed.filter((phase) => !phases.includes(phase));
  if (missing.length > 0) complain('applied', `it was completed without guardrails of the phases ${missing}`);
}

/** Responses are stored as their clients got them, with the input as it was sent. */
export function checkStoredPlaceholders(log: RecordedLog): Violation[] {
  return [...log.responses.values()].flatMap(({ id, events }) =>
    events
      .filter(({ body }) => body !== undefined && Buffer.from(body).includes('EMAIL_'))
      .filter(({ body = [] }) => {
        const { placeholders: _table, ...rest } = objectOf(Buffer.from(body)) ?? {};
        return PLACEHOLDER.test(JSON.stringify(rest));
      })
      .map(({ type }) => ({ check: 'placeholder', what: `${type} of response ${id} contains a placeholder` })),
  );
}

/** The client of a guarded request got the recorded bytes, and the whole text with the values restored. */
export function checkGuardedAnswer(
  request: SentRequest,
  guarded: GuardedRequest,
  answer: Answer,
  exchange: RecordedExchange,
  log: RecordedLog,
  complain: Complain,
): void {
  const { version = 0 } = workflowOf(exchange);
  if (version < guarded.leastVersion) {
    complain('workflow', `version ${version} applied after version ${guarded.leastVersion} was acknowledged`);
  }
  const text = textOf(request, answer.body);
  if (PLACEHOLDER.test(answer.body.toString()) || PLACEHOLDER.test(text)) {
    complain('placeholder', 'the client received a placeholder');
  }
  const isWhole = isWholeAnswer(request, answer);
  const fits = guarded.texts.some((one) => (isWhole ? one === text : one.startsWith(text)));
  if (request.stream ? !fits : isWhole && !fits)
    complain('text', `it is ${JSON.stringify(text)}, not ${guarded.texts}`);
  if (isWhole && endsOf(exchange)[0]?.type !== 'exchange.completed') {
    complain('completed', `a whole answer arrived, and the log says ${endsOf(exchange)[0]?.type}`);
  }
  // Its bytes are those of another exchange, and are compared under its key.
  if (eventOf(exchange, 'answer.replayed') !== undefined) return;
  // They are compared with the first answer by check-cached.ts, and a stored response is its own.
  if (eventOf(exchange, 'cache.hit') !== undefined) {
    if (isWhole && !request.stream) checkWholeHit(answer, exchange, log, complain);
    return;
  }
  if (request.stream) checkDelivered(answer, exchange, complain);
  else if (isWhole) checkWhole(answer, exchange, log, complain);
}

/** `frame.delivered` begins with what the client received; the client of a whole stream received all of it. */
function checkDelivered({ body, end }: Answer, { events }: RecordedExchange, complain: Complain): void {
  const delivered = Buffer.concat(
    events.filter(({ type }) => type === 'frame.delivered').map((event) => Buffer.from(event.body ?? [])),
  );
  if (!delivered.subarray(0, body.length).equals(body)) {
    complain('delivered', `${body.length} bytes arrived, and the ${delivered.length} recorded do not begin with them`);
  } else if (end === 'whole' && delivered.length > body.length) {
    complain('delivered', `${body.length} bytes arrived as the whole stream, and ${delivered.length} are recorded`);
  }
}

function checkWhole({ body }: Answer, exchange: RecordedExchange, log: RecordedLog, complain: Complain): void {
  const completed = eventOf(exchange, 'exchange.completed');
  const responseId = textIn(completed, 'responseId');
  const stored: RecordedEvent | undefined =
    responseId === undefined ? undefined : log.responses.get(responseId)?.events[0];
  const recorded = Buffer.from(stored?.body ?? completed?.body ?? []);
  const expected = stored === undefined ? body : Buffer.concat([Buffer.from('{"response":'), body, Buffer.from(',')]);
  const same =
    stored === undefined ? recorded.equals(expected) : recorded.subarray(0, expected.length).equals(expected);
  if (!same) complain('delivered', `${body.length} bytes arrived that are not those of the record (${responseId})`);
}

function checkWholeHit(answer: Answer, exchange: RecordedExchange, log: RecordedLog, complain: Complain): void {
  const isStored = textIn(eventOf(exchange, 'exchange.completed'), 'responseId') !== undefined;
  if (isStored) checkWhole(answer, exchange, log, complain);
}

interface WorkflowVersion {
  readonly id?: string;
  readonly version?: number;
  readonly scope?: string;
}

function workflowOf({ events }: RecordedExchange): WorkflowVersion {
  const parsed = z.object({ workflow: workflowVersion }).safeParse(events[0]?.data);
  return parsed.success ? parsed.data.workflow : {};
}

const workflowVersion = z.object({ id: z.string(), version: z.number(), scope: z.string() });

/** A stream may be whole on the wire and report that it broke off. */
export function isWholeAnswer({ stream, route }: Pick<SentRequest, 'stream' | 'route'>, answer: Answer): boolean {
  const { status, end, body } = answer;
  if (status !== 200 || end !== 'whole') return false;
  if (!stream) return true;
  const types = framesOf(body).frames.map((frame) => dataOf(frame)?.type);
  if (route === 'responses') return types.includes('response.completed');
  if (route === 'messages') return types.at(-1) === 'message_stop';
  return body.toString().trimEnd().endsWith(DONE) && !body.includes('data: {"error":');
}

/** The text of an answer in any dialect, as far as it arrived. */
export function textOf({ stream, route }: Pick<SentRequest, 'stream' | 'route'>, body: Buffer): string {
  if (stream)
    return framesOf(body)
      .frames.map((frame) => deltaOf(dataOf(frame)))
      .join('');
  const json = objectOf(body);
  if (route === 'responses') return outputText(json);
  const parts = route === 'messages' ? json?.content : json?.choices;
  const part: unknown = Array.isArray(parts) ? parts[0] : undefined;
  const holder = isObject(part) && isObject(part.message) ? part.message : part;
  const text = isObject(holder) ? (holder.content ?? holder.text) : undefined;
  return typeof text === 'string' ? text : '';
}

function deltaOf(event: Record<string, unknown> | undefined): string {
  if (event === undefined) return '';
  const choice: unknown = Array.isArray(event.choices) ? event.choices[0] : undefined;
  const delta: unknown = isObject(choice) ? choice.delta : event.delta;
  if (event.type === 'response.output_text.delta') return typeof delta === 'string' ? delta : '';
  const text = isObject(delta) ? (delta.content ?? delta.text) : undefined;
  return typeof text === 'string' ? text : '';
}
