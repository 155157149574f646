import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { responseDeleted, responseStored } from '../../src/events/catalogue/response.ts';
import { type EventContext, streamName, type UserPath } from '../../src/events/event.ts';
import { createResponseRecords, isResponseId, type ResponseRecords } from '../../src/projections/responses.ts';
import { engines, openTestLog, type TestLog } from './log-engines.ts';

const context: EventContext = { actor: 'master', userPath: '/team' as UserPath };

let opened: TestLog;
let archive: ResponseRecords;
afterEach(() => opened.discard());

async function store(id: string, status: 'queued' | 'completed', body = whole(id, status)) {
  const event = responseStored.create(
    {
      status,
      exchangeId: 'e1',
      provider: 'local',
      providerType: 'llamacpp',
      model: 'tiny',
      native: false,
      previousResponseId: 'resp_before',
    },
    context,
    Buffer.from(body),
  );
  await opened.log.append([{ stream: streamName('response', id), events: [event], expectedRevision: 'any' }]);
}

function whole(id: string, status: string): string {
  return JSON.stringify({
    response: { id, object: 'response', status, output: [] },
    input_items: [{ id: 'msg_1', type: 'message', role: 'user', content: [] }],
  });
}

describe.each(engines)('the archive of responses in a log in %s', (engine) => {
  beforeEach(async () => {
    opened = await openTestLog(engine);
    archive = createResponseRecords(opened.log);
  });

  test('finds a response as soon as its append has returned', async () => {
    await store('resp_1', 'completed');
    const found = await archive.load('resp_1');
    expect(found).toMatchObject({
      id: 'resp_1',
      status: 'completed',
      exchangeId: 'e1',
      provider: 'local',
      providerType: 'llamacpp',
      model: 'tiny',
      native: false,
      previousResponseId: 'resp_before',
      userPath: '/team',
      revision: 0n,
    });
    // As a provider's own stream is stored: without the member.
    const whole = { id: 'resp_1', object: 'response', status: 'completed', output: [] };
    expect(found?.response).toEqual({ ...whole, provider: 'local' });
    expect(found?.inputItems).toEqual([{ id: 'msg_1', type: 'message', role: 'user', content: [] }]);
  });

  test('has the newest state, and the revision to write the next one at', async () => {
    await store('resp_1', 'queued');
    await store('resp_1', 'completed');
    expect(await archive.load('resp_1')).toMatchObject({ status: 'completed', revision: 1n });
  });

  test('has no deleted response, until it is stored again', async () => {
    await store('resp_1', 'completed');
    const stream = streamName('response', 'resp_1');
    await opened.log.append([{ stream, events: [responseDeleted.create({}, context)], expectedRevision: 0n }]);
    expect(await archive.load('resp_1')).toBeUndefined();
    await store('resp_1', 'completed');
    expect(await archive.load('resp_1')).toMatchObject({ revision: 2n });
  });

  test('has nothing under an unknown id', async () => {
    expect(await archive.load('resp_none')).toBeUndefined();
  });

  test('reports damaged stored bytes, and only to their reader', async () => {
    await store('resp_1', 'completed', '{"response":');
    const found = await archive.load('resp_1');
    expect(found?.status).toBe('completed');
    expect(() => found?.response).toThrow();
  });
});

test('a text that cannot be the id of a response names no stream', async () => {
  opened = await openTestLog('memory');
  archive = createResponseRecords(opened.log);
  await opened.log.append([
    {
      stream: streamName('response', 'a b'),
      events: [{ type: 'response.stored', schema: 1, data: {}, context }],
      expectedRevision: 'any',
    },
  ]);
  for (const id of ['', 'a b', '../x', 'a/b', 'ä', 'a\n', '-a', 'x'.repeat(201), '%2e%2e']) {
    expect(isResponseId(id)).toBe(false);
    expect(await archive.load(id)).toBeUndefined();
  }
  for (const id of ['resp_0193abc', 'chatcmpl-1', 'resp_1:2', 'x'.repeat(200)]) expect(isResponseId(id)).toBe(true);
});
