/**
 * `GET /v1/realtime`, and WebSockets below `/p/{provider}`: one session is one exchange. Its model is chosen when it begins;
 * what it spends is charged while it goes on.
 */
import type { ModelAccess } from '../access/model-access.ts';
import type { ExchangeDialect, PlanInput } from '../exchange/dialect.ts';
import type { ForwardPlan } from '../exchange/plan.ts';
import { type AnswerReader, AnswerStream, type AnswerWriter } from '../exchange/response-stream.ts';
import type { Admission } from '../model-request/admission.ts';
import { isRouteMissing } from '../model-request/forward-operations.ts';
import type { ModelRequest, ReadResult } from '../model-request/model-request.ts';
import type { CheckSent } from '../model-request/references.ts';
import type { Target } from '../model-request/routing-types.ts';
import { type TokenUsage, unknownUsage } from '../model-request/usage.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { mayBeJson, parsedMessage, SessionMeter, withoutOwnItems } from './messages.ts';
import { runSession, type SessionParts } from './session.ts';
import type { SessionClient } from './session-client.ts';

export interface SessionDependencies {
  readonly admission: Pick<Admission, 'admitRequest'>;
  readonly access: Pick<ModelAccess, 'allows'>;
  readonly checkSent: CheckSent;
  /** Whether the record keeps the bytes of audio. */
  readonly keepsAudio: boolean;
  readonly maxMessageBytes: number;
  /** Whether providers of this type have OpenAI's Realtime API. */
  hasRealtime(type: string): boolean;
}

interface SessionRequest {
  readonly request: ModelRequest;
  readonly client: SessionClient;
  /** Why the JSON of a message is not accepted. */
  problemOf(message: Buffer): Refusal | undefined;
}

export interface RealtimeRequest extends SessionRequest {
  readonly model: string | undefined;
  readonly provider: string | undefined;
  /** Of the request, without those of the gateway and without credentials. */
  readonly query: URLSearchParams;
  /** The configuration that a client secret has; undefined for none. */
  readonly session: Readonly<Record<string, unknown>> | undefined;
}

export const REALTIME = '/v1/realtime';

/** Headers of clients that the provider gets. */
const FORWARDED = ['openai-beta', 'openai-safety-identifier'] as const;

export function realtimeDialect(given: RealtimeRequest, deps: SessionDependencies): ExchangeDialect {
  const { request, model, provider, query, session, problemOf } = given;
  const read = (): ReadResult =>
    model === undefined
      ? {
          ok: false,
          refusal: refusals.invalidRequest(
            "Missing required parameter: 'model'.",
            'model',
            'missing_required_parameter',
          ),
        }
      : { ok: true, parsedRequest: { model, provider, stream: true, json: {} } };
  return sessionDialect(REALTIME, given, deps, {
    read,
    plan({ target, headers: ofClient }) {
      if (!deps.hasRealtime(target.provider.type)) throw realtimeNotServed();
      const update = { type: 'session.update', session: { type: 'realtime', ...session, model: undefined } };
      const sent = FORWARDED.flatMap((name) => (ofClient[name] === undefined ? [] : [[name, ofClient[name]]]));
      const search = new URLSearchParams([...query, ['model', target.model]]);
      return {
        call: { method: 'GET', path: `${REALTIME}?${search}`, openAi: true, headers: Object.fromEntries(sent) },
        opening: session === undefined ? [] : [Buffer.from(JSON.stringify(update))],
        unsupported: (refusal) => (isRouteMissing(refusal, target.model) ? realtimeNotServed() : undefined),
      };
    },
    // A provider may read what this gateway cannot, or another one of two members.
    readSent: (message) => problemOf(message) ?? parsedMessage(message) ?? notAnObject(),
    mayUse: (target, one) => deps.access.allows(request.caller, target.provider.name, one),
    checkNamed: (body, parsed) =>
      deps.checkSent({ body, json: withoutOwnItems(parsed), continues: false }, request.caller.visibility),
  });
}

function notAnObject(): Refusal {
  return refusals.malformedJson('a message must be one JSON object');
}

export function realtimeNotServed() {
  return refusals.unsupportedEndpoint('Realtime sessions are not supported by this provider.');
}

/** A session of a provider's own API. */
export interface PassthroughSession extends SessionRequest {
  readonly target: Target;
  /** Below `/p/{provider}`. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
}

export function passthroughSessionDialect(given: PassthroughSession, deps: SessionDependencies): ExchangeDialect {
  const { target, path, headers, problemOf } = given;
  const dialect = sessionDialect('/p', given, deps, {
    read: () => ({ ok: true, parsedRequest: { model: '', provider: undefined, stream: true, json: {} } }),
    plan: () => ({ call: { method: 'GET', path, headers }, opening: [] }),
    // Audio may pass as bytes; what a provider could read as JSON and the gateway cannot is refused.
    readSent(message) {
      if (!mayBeJson(message)) return undefined;
      return problemOf(message) ?? parsedMessage(message) ?? notAnObject();
    },
    // The caller may use all models of the provider, and see all of its objects.
    mayUse: () => true,
    checkNamed: () => undefined,
  });
  return { ...dialect, target: () => target };
}

interface SessionRules {
  read(): ReadResult;
  plan(input: PlanInput): Pick<ForwardPlan, 'call' | 'unsupported'> & {
    /** Messages of the gateway. */ readonly opening: readonly Buffer[];
  };
  readonly readSent: SessionParts['readSent'];
  mayUse(target: Target, model: string): boolean;
  readonly checkNamed: SessionParts['checkNamed'];
}

function sessionDialect(
  endpoint: string,
  { request, client }: SessionRequest,
  { admission, keepsAudio, maxMessageBytes }: SessionDependencies,
  { read, plan, readSent, mayUse, checkNamed }: SessionRules,
): ExchangeDialect {
  return {
    name: 'realtime',
    endpoint,
    mayBeFree: true,
    read,
    take: read,
    plan(input) {
      const { target, record, policy } = input;
      const { opening, call, unsupported } = plan(input);
      const meter = new SessionMeter();
      return {
        kind: 'forward',
        dialect: 'realtime',
        answer: 'anything',
        call: { ...call, socket: { maxMessageBytes } },
        body: undefined,
        repeatable: true,
        ...(unsupported !== undefined && { unsupported }),
        newStream: () => meteredStream(() => meter.total),
        session({ spend, reservation, ...opened }) {
          return runSession({
            ...{ ...opened, client, record, target, reservation, meter, opening },
            keeps: { bodies: policy.capture === 'full', audio: keepsAudio },
            charge: ({ usage, model, answerId, estimate }) =>
              spend(
                { ...target, model: model ?? target.model },
                { answerId, usage: () => usage },
                estimate && { tokens: estimate, isPartial: false },
              ),
            chargeEstimate: ({ answerId, tokens }) =>
              spend(target, { answerId, usage: () => unknownUsage }, { tokens, isPartial: true }),
            admitResponse() {
              admission.admitRequest(request.caller);
              const full = reservation?.enter(target);
              if (full !== undefined) throw full;
            },
            mayUse: (model) => mayUse(target, model),
            ...{ readSent, checkNamed },
          });
        },
      };
    },
    streamOfRecorded: () => meteredStream(() => unknownUsage),
  };
}

/** The answer of a session has no frames; only its usage is read. */
function meteredStream(usage: () => TokenUsage): AnswerStream {
  const noFrames = () => {
    throw new Error('the messages of a session are no frames of a stream');
  };
  const answer: AnswerReader & AnswerWriter = {
    namesEvents: false,
    usage,
    readWhole: noFrames,
    read: noFrames,
    writeWhole: noFrames,
    write: noFrames,
    finish: () => ({ events: [], cut: false }),
    broken: () => [],
    abandon: () => [],
  };
  return new AnswerStream(answer, answer);
}
