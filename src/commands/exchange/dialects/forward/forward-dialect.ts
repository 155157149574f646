/** A JSON model endpoint that is forwarded unchanged except for the model's name. */
import { z } from 'zod';
import { rewriteMembers } from '../../../../providers/json-members.ts';
import {
  type ForwardOperation,
  isRouteMissing,
  notServed,
  requestedUnits,
} from '../../../model-request/forward-operations.ts';
import type { ReadResult } from '../../../model-request/parsed-request.ts';
import { checkRequest } from '../../../request-check.ts';
import { type ExchangeDialect, hasMembers, memberChanges, type PlanInput, readWith } from '../../dialect.ts';
import type { ForwardPlan } from '../../plan.ts';
import type { Relay } from '../../relay.ts';
import { forwardRelay } from './forward-relay.ts';

/** Body of a forwarded endpoint: the members that the gateway reads. */
export const forwardRequestSchema = z.looseObject({ model: z.string().min(1) });

export interface ForwardOptions {
  /** Whether the record keeps the bytes of audio and of images. */
  readonly keeps: { readonly audio: boolean; readonly image: boolean };
  /** Changes to a body besides its model's name, as JSON texts by member. @throws Refusal */
  changes?(input: PlanInput): Promise<Record<string, string | undefined>>;
}

export function createForwardDialect(operation: ForwardOperation, options: ForwardOptions): ExchangeDialect {
  return {
    name: 'forward',
    endpoint: operation.endpoint,
    read: (json) => readForward(json),
    units: ({ json }) => requestedUnits(operation, json),
    async plan(input) {
      const { parsedRequest, body } = input;
      const head = forwardPlan(operation, options, input);
      const changes = { ...memberChanges(input), ...(await options.changes?.(input)) };
      for (const name of operation.without ?? []) if (name in parsedRequest.json) changes[name] = undefined;
      return {
        ...head,
        call: { ...head.call, headers: jsonHeaders(input) },
        body: hasMembers(changes) ? rewriteMembers(body, changes) : body,
        repeatable: true,
      };
    },
    relayOfRecorded: ({ provider }) => forwardRelay(provider, operation.endsWithReason === true),
  };
}

function readForward(json: unknown): ReadResult {
  return readWith(checkRequest(forwardRequestSchema, json, ['model']));
}

/**
 * The part of the plan that JSON and forms share.
 * @throws Refusal when the provider does not have the operation
 */
export function forwardPlan(operation: ForwardOperation, { keeps }: ForwardOptions, { target }: PlanInput) {
  const { provider, model } = target;
  const { endpoint, family, answers } = operation;
  const { serves } = provider.capabilities;
  if (serves !== undefined && !serves.includes(family)) throw notServed(operation);
  return {
    kind: 'forward',
    dialect: 'forward',
    answer: endpoint,
    call: { method: 'POST', path: endpoint, openAi: true, headers: {} },
    // Whether it is an answer is known before any of it is passed on, except of audio and images, which may be large.
    readsWhole: answers === undefined && family !== 'transcriptions',
    digestOnly: answers !== undefined && !keeps[answers],
    unsupported: (refusal) => (isRouteMissing(refusal, model) ? notServed(operation) : undefined),
    relay: () => forwardRelay(provider, operation.endsWithReason === true),
  } as const satisfies Omit<ForwardPlan<Relay>, 'body' | 'repeatable'>;
}

/** The gateway cannot replay these answers from its record, so a client's idempotency key is passed to the provider. */
export function jsonHeaders({
  parsedRequest,
  headers,
}: Pick<PlanInput, 'parsedRequest' | 'headers'>): Record<string, string> {
  const accept = parsedRequest.stream ? 'text/event-stream' : '*/*';
  const key = headers['idempotency-key'];
  return { 'content-type': 'application/json', accept, ...(key === undefined ? {} : { 'idempotency-key': key }) };
}
