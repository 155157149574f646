/**
 * Work that providers continue after their answer, and its reserved cost: responses in the background and batches
 * without a `usage.settled`. Memory: one entry for each, of a few hundred bytes.
 */
import { z } from 'zod';
import { usageDeferred, usageSettled } from '../events/catalogue/exchange.ts';
import { type Actor, type RecordedEvent, type StreamName, streamName, type UserPath } from '../events/event.ts';
import { isA, type Projection } from './projection.ts';

const savedWork = z.object({
  /** Of the exchange that began it. */
  exchangeId: z.string(),
  kind: z.enum(['response', 'batch']),
  /** The provider's id of the response or the batch. */
  workId: z.string(),
  provider: z.string(),
  providerType: z.string(),
  model: z.string(),
  endpoint: z.string(),
  labels: z.array(z.string()).readonly().optional(),
  sessionId: z.string().optional(),
  /** The estimate for each model; undefined for a batch whose input was not read. */
  parts: z
    .array(
      z
        .object({ model: z.string(), answers: z.number(), inputTokens: z.number(), outputTokens: z.number() })
        .readonly(),
    )
    .readonly()
    .optional(),
  /** Nano-dollars; undefined when no budget counts it. */
  reserved: z.number().optional(),
  actor: z.string().transform((actor) => actor as Actor),
  userPath: z
    .string()
    .transform((path) => path as UserPath)
    .optional(),
  requestId: z.string().optional(),
  /** Milliseconds since the epoch. */
  since: z.number(),
});

export type OpenWork = Readonly<z.infer<typeof savedWork>>;

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
  save: ({ open }) => [...open.values()],
  load(saved) {
    const state: DeferredUsageState = { open: new Map(), byWork: new Map() };
    for (const work of z.array(savedWork).parse(saved)) add(state, work);
    return state;
  },
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
