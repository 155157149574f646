/** The reply of parallel calls: the data of each as received, in the framing of the gateway. */
import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { createProvider } from '../../src/providers/create-provider.ts';
import { sendInParallel } from '../../src/providers/parallel-calls.ts';
import type { ProviderReply } from '../../src/providers/provider.ts';
import { createFrameSplitter } from '../../src/providers/stream-frames.ts';
import { configured } from './configured.ts';
import { startUpstream } from './upstream.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

/** @param answers one for each call, in the order in which they arrive */
async function send(answers: readonly ((response: ServerResponse) => void)[], stream = true): Promise<ProviderReply> {
  let calls = 0;
  const upstream = await startUpstream((_request, response) => answers[calls++]?.(response));
  const provider = createProvider(configured('anthropic', upstream.origin, { apiKeys: ['sk-ant-secret'] }));
  closing.push(
    () => provider.close(),
    () => upstream.close(),
  );
  const { signal } = new AbortController();
  const call = { dialect: 'messages', body: Buffer.from('{}'), stream, requestId: 'r1', signal } as const;
  return sendInParallel(provider, call, {
    calls: answers.length,
    maxBytes: 1000,
    isFailure: () => false,
    isAnswer: () => true,
  });
}

const answering = (type: string, text: string) => (response: ServerResponse) => {
  response.writeHead(200, { 'content-type': type }).end(text);
};

/** The bytes of each call without the framing, and the frames that a reader of the record gets. */
async function readStream(reply: ProviderReply) {
  const pieces: Buffer[] = [];
  await reply.body.pieces((piece) => {
    pieces.push(piece);
  });
  const bytes = Buffer.concat(pieces);
  const splitter = createFrameSplitter();
  const texts: Record<string, string> = {};
  const frames = splitter.push(bytes).map(({ raw, data, event, call = '' }) => {
    texts[call] = (texts[call] ?? '') + raw.toString().slice(`call: ${call}\n`.length);
    return { data, event, call };
  });
  expect(splitter.end()).toBeUndefined();
  return { texts, frames };
}

describe('the reply of parallel calls', () => {
  it('has the events of each stream with their names and data, and the end of each', async () => {
    const streams = [
      'event: a\r\ndata: 1\r\n\r\n: comment\n\ndata: 2\ndata: 3\n\n',
      'call: 7\ndata: {"x":"\u00e9"}\n\nid: 5\ndata:last without a blank line',
    ];
    const reply = await send(streams.map((text) => answering('text/event-stream', text)));
    expect(reply).toMatchObject({ status: 200, headers: { 'content-type': 'text/event-stream' } });
    expect(reply.headers).not.toHaveProperty('content-length');
    const { texts, frames } = await readStream(reply);
    const [one, two] = [
      frames.find(({ event }) => event === 'a')?.call,
      frames.find(({ data }) => data?.includes('x'))?.call,
    ];
    expect([one, two].sort()).toEqual(['0', '1']);
    expect(texts[one ?? '']).toBe('event: a\ndata: 1\n\ndata: 2\ndata: 3\n\n');
    expect(texts[two ?? '']).toBe('data: {"x":"\u00e9"}\n\ndata: last without a blank line\n\n');
    expect(frames.filter(({ call }) => call === one).map(({ data }) => data)).toEqual(['1', '2\n3']);
    for (const call of ['0', '1']) {
      expect(frames.filter((frame) => frame.call.startsWith(call)).at(-1)?.call).toBe(`${call} ended`);
    }
  });

  it('has lines of JSON as the data of events', async () => {
    const reply = await send([0, 1].map(() => answering('application/x-ndjson', '{"a":\r1}\r\n\n{"b":2}')));
    const { frames } = await readStream(reply);
    for (const call of ['0', '1']) {
      const data = frames.filter((frame) => frame.call === call).map((frame) => JSON.parse(frame.data ?? ''));
      expect(data).toEqual([{ a: 1 }, { b: 2 }]);
    }
  });

  it('has whole answers in a list, and is limited as a whole', async () => {
    const texts = ['{"long": 12345678901234567890}', ' {"second" : [ ] } '];
    const reply = () =>
      send(
        texts.map((text) => answering('application/json', text)),
        false,
      );
    const whole = (await (await reply()).body.bytes(100)).toString();
    for (const text of texts) expect(whole).toContain(text);
    expect(whole).toMatch(/^\{"calls":\[.*,.*\]\}$/);
    await expect((await reply()).body.bytes(whole.length)).resolves.toHaveLength(whole.length);
    await expect((await reply()).body.bytes(whole.length - 1)).rejects.toMatchObject({ kind: 'too_large' });
  });

  it('is the error of the first call that has one, and the others are ended', async () => {
    const ended = Promise.withResolvers<void>();
    const reply = await send([
      (response) => response.once('close', ended.resolve),
      (response) => response.writeHead(529, { 'content-type': 'text/plain' }).end('overloaded'),
    ]);
    expect(reply.status).toBe(529);
    expect((await reply.body.bytes(100)).toString()).toBe('overloaded');
    await ended.promise;
  });

  it('is the reply that is no stream, where one was requested', async () => {
    const reply = await send([
      answering('text/event-stream', 'data: 1\n\n'),
      answering('application/json', '{"not":"a stream"}'),
    ]);
    expect((await reply.body.bytes(100)).toString()).toBe('{"not":"a stream"}');
  });

  it('fails when one stream breaks, and passes nothing on after that', async () => {
    const ended = Promise.withResolvers<void>();
    const reply = await send([
      (response) => {
        response.once('close', ended.resolve);
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n');
      },
      (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
        setImmediate(() => response.destroy());
      },
    ]);
    await expect(readStream(reply)).rejects.toMatchObject({ kind: 'broken' });
    await ended.promise;
  });
});
