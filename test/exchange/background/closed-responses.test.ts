/** Responses whose stream a crash left open: they failed, and none of their items looks finished. */
import { describe, expect, it } from 'vitest';
import { itemFinder } from '../../../src/commands/conversations/conversation.ts';
import type { LeftClient, LeftOpen } from '../../../src/commands/exchange/background/open-exchange-tracker.ts';
import { recoverExchanges } from '../../../src/commands/exchange/background/recover-exchanges.ts';
import { createResponsesDialect } from '../../../src/commands/exchange/dialects/responses/responses-dialect.ts';
import { storedResponseWrite } from '../../../src/commands/exchange/record/end-events.ts';
import { streamResponse } from '../../../src/commands/response-lifecycle/stream-response.ts';
import { archiveOf } from '../../../src/commands/responses/archive.ts';
import { responseIdOf } from '../../../src/commands/responses/create-request.ts';
import { inState } from '../../../src/commands/responses/storable-response.ts';
import { everything } from '../../../src/commands/visibility.ts';
import { attemptStarted, chunkReceived, requestReceived } from '../../../src/events/catalogue/exchange.ts';
import { streamName } from '../../../src/events/event.ts';
import { MemoryLog } from '../../../src/events/memory/memory-log.ts';
import { createItemIndex, createResponseRecords } from '../../../src/projections/responses.ts';
import { noKeys, unpriced } from '../../support/nothing-configured.ts';
import { dataOf } from '../../support/with-gateway.ts';

const EXCHANGE = '01930000-0000-7000-8000-000000000001';
const stream = streamName('exchange', EXCHANGE);
const context = { actor: 'master' } as const;
const data = (event: object) => `data: ${JSON.stringify(event)}\n\n`;
const says = (delta: object) => data({ choices: [{ index: 0, delta }] });

/** An exchange that was left open after these chunks, closed. */
async function closedExchange(
  dialect: 'chat' | 'responses',
  providerType: string,
  chunks: readonly string[],
  ...left: [LeftOpen, LeftClient?]
) {
  return closeAgain(await recordedExchange(dialect, providerType, chunks), ...left);
}

async function recordedExchange(
  dialect: 'chat' | 'responses',
  providerType: string,
  chunks: readonly string[],
  maxEventBytes?: number,
) {
  const log = new MemoryLog(maxEventBytes);
  const target = { provider: 'local', providerType, model: 'm' };
  const facts = {
    method: 'POST',
    path: '/v1/responses',
    headers: {},
    authMethod: 'master_key',
    capture: 'full',
  } as const;
  const body = Buffer.from(JSON.stringify({ model: 'local/m', input: 'hi', stream: true }));
  await log.append([
    {
      stream,
      events: [
        requestReceived.create({ ...facts, dialect: 'responses', stream: true }, context, body),
        attemptStarted.create({ attempt: 1, kind: 'primary', dialect, ...target }, context),
        ...chunks.map((chunk, index) => chunkReceived.create({ attempt: 1, index }, context, Buffer.from(chunk))),
      ],
      expectedRevision: 'noStream',
    },
  ]);
  return log;
}

async function closeAgain(log: MemoryLog, ...left: [LeftOpen, LeftClient?]) {
  const archive = archiveOf(createResponseRecords(log));
  const index = createItemIndex(log);
  const responses = createResponsesDialect({
    archive,
    log,
    findItem: (visibility) => itemFinder(visibility, { log, archive, index }),
    now: () => 1,
    contextWindow: () => undefined,
    learned() {},
  });
  const dialects = new Map([[responses.name, responses]]);
  const resumed = await recoverExchanges(
    [stream],
    { log, archive, dialects, pricing: unpriced, keys: noKeys, guardedEndpoints: new Map() },
    ...left,
  );
  const events = await Array.fromAsync(log.readStream(stream));
  const end = events.find(({ type }) => type.startsWith('exchange.'));
  const { responseId } = (end?.data ?? {}) as { readonly responseId?: string };
  return { end, responseId, log, archive, dialects, resumed };
}

/** Closed as at the start after a crash. @returns the response, whose stream later readers get as failed too */
async function closed(dialect: 'chat' | 'responses', providerType: string, chunks: readonly string[]) {
  const left = await closedExchange(dialect, providerType, chunks, 'gateway_stopped');
  const { log, archive, dialects, responseId = '' } = left;
  const stored = await archive.find(responseId, everything);
  if (stored === undefined) throw new Error('it was not stored');
  const recorded: Buffer[] = [];
  const deps = { log, dialects, archive };
  for await (const bytes of streamResponse(stored, -1, deps, new AbortController().signal)) recorded.push(bytes);
  const events = dataOf(Buffer.concat(recorded).toString());
  const types = events.map(({ type }) => type);
  expect(types.slice(-2)).toEqual(['error', 'response.failed']);
  expect(types.filter((type) => type.endsWith('.done'))).toEqual([]);
  expect(events.at(-1).response).toEqual(stored.response);
  return stored.response;
}

it('that is larger than the log accepts is failed, without a stored response', async () => {
  const end = data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
  const chunks = [...Array.from({ length: 5 }, () => says({ content: 'x'.repeat(1_000) })), end, 'data: [DONE]\n\n'];
  const log = await recordedExchange('chat', 'llamacpp', chunks, 4_000);
  const closed = await closeAgain(log, 'gateway_stopped');
  expect(closed.end?.data).toMatchObject({ status: 200, code: 'answer_too_large', reason: 'gateway_stopped' });
  const types = (await Array.fromAsync(log.readStream(stream))).map(({ type }) => type);
  expect(types.slice(-2)).toEqual(['exchange.failed', 'usage.recorded']);
  expect(closed.responseId).toBeUndefined();
});

const gatewayStopped = { status: 'failed', error: { code: 'gateway_stopped' }, incomplete_details: null };

it('of a chat provider, within a tool call', async () => {
  const call = { index: 0, id: 'call_1', function: { name: 'rm', arguments: '{"path":"/a' } };
  expect(await closed('chat', 'llamacpp', [says({ tool_calls: [call] })])).toMatchObject({
    ...gatewayStopped,
    output: [{ type: 'function_call', status: 'incomplete', arguments: '{"path":"/a' }],
  });
});

it('of a native provider, within a text', async () => {
  const item = { id: 'msg_1', type: 'message', role: 'assistant', status: 'in_progress', content: [] };
  const response = { id: 'resp_1', object: 'response', status: 'in_progress', output: [] };
  const events = [
    { type: 'response.created', sequence_number: 0, response },
    { type: 'response.output_item.added', sequence_number: 1, output_index: 0, item },
    { type: 'response.output_text.delta', sequence_number: 2, output_index: 0, content_index: 0, delta: 'Hel' },
  ];
  expect(await closed('responses', 'openai', events.map(data))).toMatchObject({
    ...gatewayStopped,
    output: [{ type: 'message', status: 'incomplete', content: [{ type: 'output_text', text: 'Hel' }] }],
  });
});

it('of a provider that had reported an error, with that error', async () => {
  const chunks = [says({ content: 'Hel' }), data({ error: { message: 'out of memory', code: 'oom' } })];
  const response = await closed('chat', 'llamacpp', chunks);
  expect(response).toMatchObject({ status: 'failed', error: { code: 'oom' } });
});

describe('a stream that a failure of the log broke off, with the whole answer of its provider on record', () => {
  const whole = [says({ content: 'Hello' }), data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })];
  const chunks = [...whole, 'data: [DONE]\n\n'];

  it('is complete, and its response too, when its client got the beginning', async () => {
    const left = await closedExchange('chat', 'llamacpp', chunks, 'log_unavailable', { wasRefused: false });
    expect(left.end).toMatchObject({ type: 'exchange.completed', data: { status: 200 } });
    const stored = await left.archive.find(left.responseId ?? '', everything);
    expect(stored?.response).toMatchObject({ status: 'completed' });
  });

  it('failed with the status that its client got, and has no response, when its client got an error', async () => {
    const left = await closedExchange('chat', 'llamacpp', chunks, 'log_unavailable', { wasRefused: true });
    expect(left.end).toMatchObject({ type: 'exchange.failed', data: { status: 503, code: 'log_unavailable' } });
    expect(left.responseId).toBeUndefined();
    expect(await left.archive.find(`resp_${EXCHANGE.replaceAll('-', '')}`, everything)).toBeUndefined();
  });

  it('failed, and its response too, when only a part of the answer is on record', async () => {
    const left = await closedExchange('chat', 'llamacpp', chunks.slice(0, 1), 'log_unavailable', { wasRefused: false });
    expect(left.end).toMatchObject({ type: 'exchange.failed', data: { status: 200, code: 'log_unavailable' } });
    const stored = await left.archive.find(left.responseId ?? '', everything);
    expect(stored?.response).toMatchObject({ status: 'failed', error: { code: 'log_unavailable' } });
  });
});

describe('a background response without any output, on record as queued', () => {
  const id = responseIdOf(EXCHANGE);

  async function queued(...left: [LeftOpen, LeftClient?]) {
    const log = await recordedExchange('chat', 'llamacpp', []);
    const facts = { provider: 'local', providerType: 'llamacpp', model: 'm', native: false };
    const shell = inState({ id, object: 'response', background: true, output: [] }, id, 'queued');
    const owner = { userPath: undefined, createdBy: context.actor };
    const stored = { ...facts, previousResponseId: null, inputItems: '[]', placeholders: undefined };
    await log.append([storedResponseWrite(shell, stored, { exchangeId: EXCHANGE, owner }, context)]);
    return closeAgain(log, ...left);
  }

  it('fails when its client got an error instead of it', async () => {
    const { end, archive, resumed } = await queued('log_unavailable', { wasRefused: true });
    expect(resumed).toEqual([]);
    expect(end).toMatchObject({
      type: 'exchange.failed',
      data: { status: 503, code: 'log_unavailable', responseId: id },
    });
    const { response } = (await archive.find(id, everything)) ?? {};
    expect(response).toMatchObject({ status: 'failed', error: { code: 'log_unavailable' } });
  });

  it.each([
    ['when its client got it', 'log_unavailable', { wasRefused: false }],
    ['after a crash, when that is not known', 'gateway_stopped', undefined],
  ] as const)('is resumed %s', async (_when, why, client) => {
    const { end, resumed } = await queued(why, client);
    expect(resumed.map((exchange) => exchange.id)).toEqual([EXCHANGE]);
    expect(end).toBeUndefined();
  });
});
