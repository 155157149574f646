/** A realtime session that a crash left open: what was charged stays, and nothing is charged twice. */
import { describe, expect, it } from 'vitest';
import { recoverExchanges } from '../../../src/commands/exchange/background/recover-exchanges.ts';
import { archiveOf } from '../../../src/commands/responses/archive.ts';
import {
  attemptStarted,
  chunkReceived,
  costReserved,
  requestBodyReceived,
  requestReceived,
  usageRecorded,
} from '../../../src/events/catalogue/exchange.ts';
import { streamName } from '../../../src/events/event.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';
import { createResponseRecords } from '../../../src/projections/responses.ts';
import { noKeys, unpriced } from '../../support/nothing-configured.ts';

const stream = streamName('exchange', '01930000-0000-7000-8000-000000000001');
const context = { actor: 'master' } as const;
const target = { provider: 'openai', providerType: 'openai', model: 'gpt-realtime' };
const begun = { type: 'response.created', response: { id: 'r2' } };
const said = { type: 'response.output_text.delta', delta: 'eight by' };

let index = 0;
const received = (message: object) =>
  chunkReceived.create({ attempt: 1, index: index++ }, context, Buffer.from(JSON.stringify(message)));

const charged = usageRecorded.create(
  {
    ...target,
    ...{ endpoint: '/v1/realtime', providerId: 'r1', source: 'provider', raw: null, totalCost: '5' },
    ...{ inputCost: null, outputCost: null, inputTokens: 3, outputTokens: 4, totalTokens: 7 },
    ...{ cachedInputTokens: null, cacheWriteInputTokens: null, cacheWrite1hInputTokens: null, reasoningTokens: null },
    ...{ audioInputTokens: null, audioOutputTokens: null, imageInputTokens: null, imageOutputTokens: null },
    ...{ acceptedPredictionTokens: null, rejectedPredictionTokens: null },
  },
  context,
);

/** The usage of the session after the next start, without that of its first response. */
async function recovered(after: readonly object[], isReserved = false) {
  const log = new MemoryLog();
  const facts = { method: 'GET', path: '/v1/realtime?model=m', headers: {}, authMethod: 'master_key' } as const;
  await log.append([
    {
      stream,
      events: [
        requestReceived.create({ ...facts, dialect: 'realtime', capture: 'full', stream: true }, context),
        ...(isReserved ? [costReserved.create({ amount: '9', bounded: false }, context)] : []),
        attemptStarted.create(
          { attempt: 1, kind: 'primary', dialect: 'realtime', ...(isReserved ? {} : { reservedCost: '9' }), ...target },
          context,
        ),
        requestBodyReceived.create({ index: 0 }, context, Buffer.from('{"type":"response.create"}')),
        received({ type: 'response.created', response: { id: 'r1' } }),
        received({ type: 'response.done', response: { id: 'r1', usage: { input_tokens: 3, output_tokens: 4 } } }),
        charged,
        ...after.map(received),
      ],
      expectedRevision: 'noStream',
    },
  ]);
  const deps = {
    log,
    archive: archiveOf(createResponseRecords(log)),
    dialects: new Map(),
    pricing: unpriced,
    keys: noKeys,
    guardedEndpoints: new Map(),
  };
  await recoverExchanges([stream], deps, 'gateway_stopped');
  await recoverExchanges([stream], deps, 'gateway_stopped');
  const recorded = [];
  for await (const event of log.readStream(stream)) recorded.push(event);
  expect(recorded.filter(({ type }) => type === 'exchange.failed')).toHaveLength(1);
  return recorded.filter(({ type }) => type === 'usage.recorded').slice(1);
}

describe('a session that a crash left open', () => {
  it('is charged no more when its responses had ended', async () => {
    expect(await recovered([])).toEqual([]);
  });

  it('is charged an estimate of the response that had not ended', async () => {
    const spent = await recovered([begun, said]);
    expect(spent).toHaveLength(1);
    expect(spent[0]?.data).toMatchObject({ partial: true, estimatedOutputTokens: 2, endpoint: '/v1/realtime' });
  });

  it('releases what several gateways had reserved for a further response', async () => {
    const spent = await recovered([], true);
    expect(spent).toHaveLength(1);
    expect(spent[0]?.data).toMatchObject({ failedAttempt: 1, estimatedOutputTokens: 0 });
  });
});
