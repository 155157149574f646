/** The common part of the plans that create a file or a batch at a provider. */
import { isObject } from '../../json/is-object.ts';
import type { Provider } from '../../providers/provider.ts';
import { rewriteMembers } from '../../providers/translate/json.ts';
import type { PlanInput } from '../exchange/dialect.ts';
import type { ExchangeRecord } from '../exchange/exchange-record.ts';
import type { ForwardPlan } from '../exchange/plan.ts';
import { type AnswerReader, AnswerStream, type AnswerWriter } from '../exchange/response-stream.ts';
import { isRouteMissing, notServed } from '../model-request/forward-operations.ts';
import type { ReadResult } from '../model-request/model-request.ts';
import { type DeferredWork, unknownUsage } from '../model-request/usage.ts';
import { isObjectId, type ObjectKind, type ObjectOrigin, trackingWrite } from '../provider-objects/tracked.ts';

export function noModelRequest(json: Record<string, unknown>, provider: string | undefined): ReadResult {
  return { ok: true, parsedRequest: { model: '', provider, stream: false, json } };
}

interface NewObject {
  /** The work that the provider continues, under the id of the new object. */
  work?(id: string): DeferredWork;
  /** The object from which the new one is created. A provider that names it in a 404 has the route. */
  readonly madeOf?: string;
  /** Set for a batch that was requested in another dialect than OpenAI's. */
  readonly dialect?: ObjectOrigin['dialect'];
  /** The object as the client gets it. Default: the provider's object with a member `provider`. */
  shown?(object: Record<string, unknown>): Buffer;
}

/** The provider's answer contains the new object: its provider is recorded together with the end of the exchange. */
export function createPlan(
  kind: ObjectKind,
  { record, target }: PlanInput,
  headers: Record<string, string>,
  { work, madeOf = '', dialect, shown }: NewObject = {},
) {
  const { provider } = target;
  return {
    kind: 'forward',
    dialect: 'forward',
    answer: 'object',
    call: { method: 'POST', path: kind.endpoint, openAi: true, headers },
    readsWhole: true,
    unsupported: (refusal) => (isRouteMissing(refusal, madeOf) ? notServed(kind) : undefined),
    newStream: () => {
      let made: string | undefined;
      return objectStream({
        readWhole(given, parsed) {
          made = remember(kind, parsed, provider, record, dialect);
          const bytes = isObject(parsed)
            ? (shown?.(parsed) ?? rewriteMembers(given, { provider: JSON.stringify(provider.name) }))
            : given;
          return { answer: parsed, bytes };
        },
        deferredWork: () => (made === undefined ? undefined : work?.(made)),
      });
    },
  } as const satisfies Omit<ForwardPlan, 'body' | 'repeatable'>;
}

/** @returns the id of the object */
function remember(
  kind: ObjectKind,
  parsed: unknown,
  provider: Provider,
  record: ExchangeRecord,
  dialect: ObjectOrigin['dialect'],
): string | undefined {
  const id = isObject(parsed) ? parsed.id : undefined;
  if (typeof id !== 'string' || !isObjectId(id)) return undefined;
  const { owner, context } = record;
  const origin = { owner, exchangeId: record.id, ...(dialect === undefined ? {} : { dialect }) };
  record.addWrite(trackingWrite(kind.name, id, provider, origin, context));
  return id;
}

/**
 * An object that a provider stores, or its content, on its way to the client. Nothing in it is a model's answer.
 * @param given `readWhole` gets a JSON answer and returns the client's bytes; `deferredWork` is the work that the
 * provider continues after it
 */
export function objectStream(given: Partial<Pick<AnswerReader, 'readWhole' | 'deferredWork'>> = {}): AnswerStream {
  const reader: AnswerReader = {
    readWhole: (bytes, parsed) => ({ answer: parsed, bytes }),
    read: ({ raw }) => ({ bytes: raw, terminal: false }),
    usage: () => unknownUsage,
    ...given,
  };
  return new AnswerStream(reader, writer);
}

/** The bytes pass as they are. */
const writer: AnswerWriter = {
  namesEvents: false,
  writeWhole: (answer) => answer,
  write: () => [],
  finish: () => ({ events: [], cut: false }),
  broken: () => [],
  abandon: () => [],
};
