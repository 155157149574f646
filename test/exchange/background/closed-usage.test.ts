/** The cost of an exchange that a crash left open, when its answer is only passed on. */
import { expect, it } from 'vitest';
import { recoverExchanges } from '../../../src/commands/exchange/background/recover-exchanges.ts';
import { archiveOf } from '../../../src/commands/responses/archive.ts';
import { attemptStarted, chunkReceived, requestReceived } from '../../../src/events/catalogue/exchange.ts';
import { streamName } from '../../../src/events/event.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';
import { createResponseRecords } from '../../../src/projections/responses.ts';
import { noKeys, unpriced } from '../../support/nothing-configured.ts';

const stream = streamName('exchange', '01930000-0000-7000-8000-000000000001');
const context = { actor: 'master' } as const;
const usage = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };

interface Told {
  readonly dialect: 'forward' | 'passthrough';
  readonly path: string;
  readonly model?: string;
  readonly chunks: readonly (string | undefined)[];
}

/** The usage that is recorded when the exchange is closed. */
async function usageOf({ dialect, path, model, chunks }: Told): Promise<unknown> {
  const log = new MemoryLog();
  const facts = { dialect, method: 'POST', path, headers: {}, authMethod: 'master_key', capture: 'full' } as const;
  const target = { provider: 'local', providerType: 'llamacpp', model };
  await log.append([
    {
      stream,
      events: [
        requestReceived.create({ ...facts, stream: false }, context),
        attemptStarted.create({ attempt: 1, kind: 'primary', dialect, ...target }, context),
        ...chunks.map((chunk, index) => {
          return chunkReceived.create(
            { attempt: 1, index },
            context,
            chunk === undefined ? undefined : Buffer.from(chunk),
          );
        }),
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
  const recorded = [];
  for await (const event of log.readStream(stream)) recorded.push(event);
  expect(recorded.filter(({ type }) => type === 'exchange.failed')).toHaveLength(1);
  const spent = recorded.filter(({ type }) => type === 'usage.recorded');
  expect(spent.length).toBeLessThan(2);
  return spent[0]?.data;
}

const data = (event: object) => `data: ${JSON.stringify(event)}\n\n`;

it.each<[string, Told, object]>([
  [
    'an answer in pieces',
    {
      dialect: 'passthrough',
      path: '/p/local/v1/chat/completions',
      chunks: ['{"model":"m", "usage":', `${JSON.stringify(usage)}}`],
    },
    { model: 'm', endpoint: '/p/local/v1/chat/completions', totalTokens: 7, partial: true },
  ],
  [
    'a stream that broke off',
    {
      dialect: 'forward',
      path: '/v1/completions?x=1',
      model: 'asked',
      chunks: [data({ model: 'm', text: 'a' }), data({ model: 'm', usage }), 'data: {"half'],
    },
    { model: 'asked', endpoint: '/v1/completions', totalTokens: 7, partial: true },
  ],
])('is recorded as far as the provider reported it: %s', async (_what, recorded, expected) => {
  expect(await usageOf(recorded)).toMatchObject({ provider: 'local', source: 'provider', ...expected });
});

it('is estimated for a stream of a model that was cut off before its usage was reported', async () => {
  const chunks = [data({ model: 'm', choices: [{ delta: { content: 'eight by' } }] }), 'data: {"half'];
  const recorded = { dialect: 'passthrough', path: '/p/local/v1/chat/completions', chunks } as const;
  expect(await usageOf(recorded)).toMatchObject({
    ...{ model: 'm', source: 'unknown', estimated: true, partial: true },
    ...{ outputTokens: null, estimatedInputTokens: 0, estimatedOutputTokens: 2 },
  });
});

it.each<[string, (string | undefined)[]]>([
  ['a file', ['\u0000\u0001\u0002']],
  ['what was not kept', [undefined]],
])('is not invented: %s', async (_what, chunks) => {
  expect(await usageOf({ dialect: 'passthrough', path: '/p/local/x', chunks })).toBeUndefined();
});
