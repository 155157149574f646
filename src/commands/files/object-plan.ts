/** What the ways to put a new file or batch to a provider have in common. */

import { isObject } from '../../json/is-object.ts';
import { rewriteMembers } from '../../providers/json-members.ts';
import type { Provider } from '../../providers/provider.ts';
import type { PlanInput } from '../exchange/dialect.ts';
import type { ExchangeRecord } from '../exchange/exchange-record.ts';
import type { ForwardPlan } from '../exchange/plan.ts';
import type { DeferredWork } from '../model-request/deferred-work.ts';
import { isRouteMissing, notServed } from '../model-request/forward-operations.ts';
import type { ReadResult } from '../model-request/parsed-request.ts';
import { isObjectId, type ObjectKind, type ObjectOrigin, trackingWrite } from '../provider-objects/tracked.ts';
import { objectRelay } from './relay-object.ts';

export function nothingAsked(json: Record<string, unknown>, provider: string | undefined): ReadResult {
  return { ok: true, asked: { model: '', provider, stream: false, json } };
}

export interface NewObject {
  /** What the provider goes on with, under the id of the new object. */
  work?(id: string): DeferredWork;
  /** The object that the new one is made of: a provider that names it in a 404 has the route. */
  readonly madeOf?: string;
  /** Of a batch that another dialect than OpenAI's asked for. */
  readonly dialect?: ObjectOrigin['dialect'];
  /** The object as the client gets it; with `provider` when this is left out. */
  shown?(object: Record<string, unknown>): Buffer;
}

/** The provider's answer names the object: where it is goes on the record together with the end of the exchange. */
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
    call: { method: 'POST', path: kind.endpoint, openAi: true, headers },
    readsWhole: true,
    unsupported: (refusal) => (isRouteMissing(refusal, madeOf) ? notServed(kind) : undefined),
    relay: () => {
      let made: string | undefined;
      return objectRelay({
        whole(bytes, parsed) {
          made = remember(kind, parsed, provider, record, dialect);
          if (!isObject(parsed)) return bytes;
          return shown?.(parsed) ?? rewriteMembers(bytes, { provider: JSON.stringify(provider.name) });
        },
        deferredWork: () => (made === undefined ? undefined : work?.(made)),
      });
    },
  } as const satisfies Omit<ForwardPlan, 'body' | 'repeatable'>;
}

/** @returns its id */
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
  record.noteElsewhere(trackingWrite(kind.name, id, provider, origin, context));
  return id;
}
