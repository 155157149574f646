/** Sends the answer to the client, except the last bytes, which wait until the end of the exchange is on disk. */
import type { Answer, DeliveredAnswer } from '../answer-source.ts';
import { deliverReplay } from '../delivery/deliver-replay.ts';
import type { RunningExchange } from './running-exchange.ts';

export const deliver = {
  name: 'deliver',
  /** @throws LogUnavailable */
  async run(answer: Answer, exchange: RunningExchange): Promise<DeliveredAnswer> {
    if (answer.source === 'record') return deliverReplay(answer, exchange);
    // One piece, which waits until the end is on disk.
    if (answer.source === 'gateway') return { source: 'gateway', answer };
    if (answer.source === 'cache') return { source: 'cache', answer };
    const { result } = answer;
    return { source: 'provider', answer, outcome: result.kind === 'open' ? await result.deliver() : result };
  },
};
