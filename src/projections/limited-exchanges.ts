/**
 * The open exchanges, as rate limits need them where several gateways use the log: whose they are, and whom they count
 * for. Memory: one small entry for each.
 */
import { z } from 'zod';
import {
  attemptStarted,
  exchangeEnds,
  exchangeResumed,
  requestReceived,
  usageRecorded,
} from '../events/catalogue/exchange.ts';
import { leaseEnded, leaseGranted } from '../events/catalogue/lease.ts';
import { idOf } from '../events/event.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

const savedExchange = z.object({
  id: z.string(),
  /** Whose exchange it is; undefined when its gateway has ended and no other one was there. */
  gateway: z.string().optional(),
  /** Whether that gateway has it from another one, and has not resumed it. */
  isInherited: z.boolean(),
  userPath: z.string(),
  /** Whether a guardrail sent it, as part of another request. */
  isAuxiliary: z.boolean(),
  /** Calls since it began, or was resumed. */
  calls: z.number(),
  /** Of the latest call. */
  provider: z.string(),
  model: z.string(),
});

export type LimitedExchange = z.infer<typeof savedExchange>;

export interface LimitedExchanges {
  readonly open: Map<string, LimitedExchange>;
  /** The exchange that ended with the last events: its usage may follow. */
  ended: LimitedExchange | undefined;
}

const saved = z.object({ open: z.array(savedExchange), ended: savedExchange.optional() });

export const limitedExchangesView: Projection<LimitedExchanges> = {
  name: 'limited-exchanges',
  version: 1,
  filter: {
    types: [
      requestReceived.type,
      attemptStarted.type,
      exchangeResumed.type,
      usageRecorded.type,
      ...exchangeEnds,
      leaseEnded.type,
      leaseGranted.type,
    ],
  },
  initial: () => ({ open: new Map(), ended: undefined }),
  apply(state, event) {
    const id = idOf(event.stream);
    if (isA(event, usageRecorded)) {
      if (state.ended?.id !== id) state.ended = undefined;
      return state;
    }
    state.ended = undefined;
    if (isA(event, leaseEnded)) inherit(state, id, event.data.heir);
    else if (isA(event, leaseGranted)) inherit(state, undefined, id);
    else if (isA(event, requestReceived)) {
      state.open.set(id, {
        id,
        gateway: event.data.gateway,
        isInherited: false,
        userPath: event.context.userPath ?? '/',
        isAuxiliary: event.data.origin !== undefined,
        calls: 0,
        provider: '',
        model: '',
      });
    } else {
      const exchange = state.open.get(id);
      if (exchange === undefined) return state;
      if (isA(event, attemptStarted)) {
        const { provider, model = '' } = event.data;
        Object.assign(exchange, { calls: exchange.calls + 1, provider, model });
      } else if (isA(event, exchangeResumed)) Object.assign(exchange, { calls: 0, isInherited: false });
      else {
        state.open.delete(id);
        state.ended = exchange;
      }
    }
    return state;
  },
  save: ({ open, ended }) => ({ open: [...open.values()], ended }),
  load(value) {
    const { open, ended } = saved.parse(value);
    return { open: new Map(open.map((one) => [one.id, one])), ended };
  },
};

function inherit({ open }: LimitedExchanges, gateway: string | undefined, heir: string | undefined): void {
  for (const exchange of open.values()) {
    if (exchange.gateway === gateway) Object.assign(exchange, { gateway: heir, isInherited: true });
  }
}
