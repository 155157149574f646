/**
 * Work that providers continue after their answer, and its reserved cost: responses in the background and batches
 * without a `usage.settled`. Memory: one entry for each, of a few hundred bytes.
 */
import type { z } from 'zod';
import { usageDeferred, usageSettled } from '../events/catalogue/exchange.ts';
import {
  type Actor,
  type EpochMs,
  type RecordedEvent,
  type StreamName,
  streamName,
  type UserPath,
} from '../events/event.ts';
import { isA, type Projection, savedAsItIs } from './projection.ts';

export interface OpenWork {
  /** Of the exchange that began it. */
  readonly exchangeId: string;
  readonly kind: 'response' | 'batch';
  /** The provider's id of the response or the batch. */
  readonly workId: string;
  readonly provider: string;
  readonly providerType: string;
  /** Empty for a batch. */
  readonly model: string;
  readonly endpoint: string;
  readonly labels?: readonly string[] | undefined;
  readonly sessionId?: string | undefined;
  /** The estimate for each model; undefined for a batch whose input was not read. */
  readonly parts?: z.infer<typeof usageDeferred.data>['parts'];
  /** Nano-dollars; undefined when no budget counts it. */
  readonly reserved?: number | undefined;
  readonly actor: Actor;
  readonly userPath?: UserPath | undefined;
  readonly requestId?: string | undefined;
  readonly since: EpochMs;
}

export interface DeferredUsageState {
  readonly open: Map<StreamName, OpenWork>;
  /** The exchange of each, by `workKey`. */
  readonly byWork: Map<string, StreamName>;
}

export function workKey({ kind, provider, workId }: Pick<OpenWork, 'kind' | 'provider' | 'workId'>): string {
  return `${kind} ${provider} ${workId}`;
}

export const deferredUsageView: Projection<DeferredUsageState> = {
  name: 'deferred-usage',
  version: 1,
  filter: { types: [usageDeferred.type, usageSettled.type] },
  initial: () => ({ open: new Map(), byWork: new Map() }),
  apply(state, event) {
    if (isA(event, usageDeferred)) add(state, workOf(event));
    else {
      const work = state.open.get(event.stream);
      state.open.delete(event.stream);
      if (work !== undefined) state.byWork.delete(workKey(work));
    }
    return state;
  },
  ...savedAsItIs<DeferredUsageState>(),
};

function add({ open, byWork }: DeferredUsageState, work: OpenWork): void {
  const stream = streamName('exchange', work.exchangeId);
  open.set(stream, work);
  byWork.set(workKey(work), stream);
}

function workOf({ data, context, stream, at }: RecordedEvent<string, z.infer<typeof usageDeferred.data>>): OpenWork {
  const { reservedCost, ...facts } = data;
  const { actor, userPath, requestId } = context;
  return {
    ...facts,
    exchangeId: stream.slice('exchange-'.length),
    reserved: reservedCost === null ? undefined : Number(reservedCost),
    actor,
    userPath,
    requestId,
    since: at,
  };
}
