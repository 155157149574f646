import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Fault } from '../../infra/simulated-provider/fault.ts';
import { dataOf, eventsOf, user, withProvider } from './started-provider.ts';

const started = withProvider();
const { provider, json, events, post, get } = started;
const chat = '/v1/chat/completions';
const ask = { model: 'm', messages: user('Tell me something.') };
const stream = { ...ask, stream: true };
const withFault = (simulate: Fault) => ({ ...ask, simulate });
const streamWithFault = (simulate: Fault) => ({ ...stream, simulate });

describe('an error answer', () => {
  it.each([
    ['json', 'application/json', /"simulated error 503"/],
    ['numeric-code', 'application/json', /"code":503/],
    ['html', 'text/html', /<h1>503/],
    ['text', 'text/plain', /^simulated error 503$/],
    ['empty', 'text/plain', /^$/],
  ] as const)('has a body of %s', async (body, contentType, text) => {
    const response = await post(chat, withFault({ status: 503, body }));
    expect(response.status).toBe(503);
    expect(response.headers.get('content-type')).toBe(contentType);
    expect(await response.text()).toMatch(text);
  });

  it('carries Retry-After, a message and a code', async () => {
    const response = await post(chat, withFault({ status: 429, retryAfter: 7, message: 'slow down', code: 'busy' }));
    expect(response.headers.get('retry-after')).toBe('7');
    expect(await response.json()).toEqual({
      error: { message: 'slow down', type: 'rate_limit_error', param: null, code: 'busy' },
    });
  });

  it('can come with status 200, also where a stream is expected', async () => {
    const whole = await post(chat, withFault({ errorIn200: true }));
    expect(whole.status).toBe(200);
    expect(await whole.json()).toMatchObject({ error: { message: expect.any(String) } });
    const streamed = await events(chat, streamWithFault({ errorIn200: true }));
    expect(streamed.map((event) => JSON.parse(event.data))).toEqual([
      expect.objectContaining({ error: expect.anything() }),
    ]);
  });
});

describe('a fault is selected', () => {
  it('by the model id', async () => {
    expect((await post(chat, { ...ask, model: 'fault-429' })).status).toBe(429);
    expect((await post(chat, { ...ask, model: 'fault-500' })).status).toBe(500);
    expect((await json(chat, { ...ask, model: 'fault-empty-choices' })).choices).toEqual([]);
    expect((await post(chat, { ...ask, model: 'fault-unheard-of' })).status).toBe(200);
  });

  it('by the test, for the next request, which wins over all else', async () => {
    provider.control.next({ status: 500 });
    provider.control.next({ status: 503 });
    expect((await post(chat, withFault({ status: 429 }))).status).toBe(500);
    expect((await post(chat, ask)).status).toBe(503);
    expect((await post(chat, ask)).status).toBe(200);
  });

  it('by the test, for every request until it is cleared, unless another fault is selected', async () => {
    provider.control.always({ status: 500 });
    expect((await post(chat, ask)).status).toBe(500);
    expect((await post(chat, withFault({ status: 429 }))).status).toBe(429);
    expect((await get('/v1/models')).status).toBe(200);
    provider.control.clear();
    expect((await post(chat, ask)).status).toBe(200);
  });

  it('for one path only', async () => {
    provider.control.next({ status: 500 }, { path: '/v1/models' });
    expect((await post(chat, ask)).status).toBe(200);
    expect((await get('/v1/models')).status).toBe(500);
    expect((await get('/v1/models')).status).toBe(200);
  });

  it('so many times, then no more: counted per key, or per equal fault', async () => {
    const statuses = async (fault: Fault) =>
      [await post(chat, withFault(fault)), await post(chat, withFault(fault)), await post(chat, withFault(fault))].map(
        ({ status }) => status,
      );
    expect(await statuses({ status: 503, failTimes: 2 })).toEqual([503, 503, 200]);
    expect(await statuses({ status: 503, failTimes: 2 })).toEqual([200, 200, 200]);
    expect(await statuses({ status: 503, failTimes: 2, key: 'another' })).toEqual([503, 503, 200]);
    provider.control.always({ status: 500, failTimes: 1 });
    expect([(await post(chat, ask)).status, (await post(chat, ask)).status]).toEqual([500, 200]);
  });
});

describe('the shape of an answer', () => {
  it('has the text, the deltas and the headers of the fault', async () => {
    const text = 'Grüße, 世界 🎉!';
    const response = await post(chat, withFault({ text, headers: { 'x-quota': '9' } }));
    expect(response.headers.get('x-quota')).toBe('9');
    expect(((await response.json()) as { choices: { message: object }[] }).choices[0]?.message).toMatchObject({
      content: text,
    });
    const deltas = dataOf(await events(chat, streamWithFault({ chunks: 33 }))).filter(
      (chunk) => chunk.choices[0].delta.content,
    );
    expect(deltas).toHaveLength(33);
    const pairs = dataOf(await events(chat, streamWithFault({ words: 10, tokensPerChunk: 2 }))).filter(
      (chunk) => chunk.choices[0].delta.content,
    );
    expect(pairs).toHaveLength(5);
  });

  it('can be without usage, without choices, or very long', async () => {
    expect(await json(chat, withFault({ usage: false }))).not.toHaveProperty('usage');
    expect((await json(chat, withFault({ emptyChoices: true }))).choices).toEqual([]);
    expect((await (await post(chat, withFault({ oversizedBytes: 100_000 }))).text()).length).toBeGreaterThan(100_000);
    const long = eventsOf(await (await post(chat, streamWithFault({ oversizedBytes: 100_000 }))).text());
    expect(Math.max(...long.map((event) => event.data.length))).toBeGreaterThan(100_000);
    expect(
      dataOf(long)
        .map((chunk) => chunk.choices[0].delta.content ?? '')
        .join(''),
    ).toBe((await json(chat, ask)).choices[0].message.content);
  });

  it('can be garbage', async () => {
    const whole = await (await post(chat, withFault({ garbage: true, contentType: 'text/html' }))).text();
    expect(() => JSON.parse(whole)).toThrow();
    const streamed = await events(chat, streamWithFault({ garbage: true }));
    expect(streamed.some((event) => event.data === 'not json at all')).toBe(true);
  });

  it('is the same stream with comments, CR LF, torn writes or all at once', async () => {
    const contents = async (simulate: Fault) =>
      dataOf(await events(chat, streamWithFault(simulate))).map((chunk) => chunk.choices[0].delta);
    const plain = await contents({ text: 'Grüße, 世界 🎉!' });
    for (const fault of [{ comments: true }, { crlf: true }, { splitEvery: 7 }, { coalesce: true }]) {
      expect(await contents({ text: 'Grüße, 世界 🎉!', ...fault })).toEqual(plain);
    }
  });
});

describe('a broken stream', () => {
  it('breaks off after so many frames, and is recorded as cut', async () => {
    const arrived = provider.nextRequest();
    const response = await post(chat, streamWithFault({ cutAfterChunks: 3 }));
    await expect(response.text()).rejects.toThrow();
    const request = await arrived;
    expect(await request.ended).toBe('cut');
    expect(request.framesSent).toBe(3);
  });

  it('breaks off inside a JSON body', async () => {
    const response = await post(chat, withFault({ cutAfterChunks: 0 }));
    expect(response.status).toBe(200);
    await expect(response.text()).rejects.toThrow();
  });

  it('ends without [DONE], or without a finish reason', async () => {
    const noDone = await events(chat, streamWithFault({ endWithoutDone: true }));
    expect(noDone.at(-1)?.data).not.toBe('[DONE]');
    expect(dataOf(noDone).at(-1).choices[0].finish_reason).toBe('stop');
    const noFinish = dataOf(await events(chat, streamWithFault({ endWithoutFinish: true })));
    expect(noFinish.some((chunk) => chunk.choices[0].finish_reason !== null)).toBe(false);
  });

  it('has an error in the middle, in the form of its dialect', async () => {
    const chunks = dataOf(await events(chat, streamWithFault({ errorInStream: 3 })));
    expect(chunks).toHaveLength(4);
    expect(chunks.at(-1)).toMatchObject({ error: { message: expect.any(String) } });
    const received = await events('/v1/responses', {
      model: 'm',
      input: 'hi',
      stream: true,
      simulate: { errorInStream: true },
    });
    expect(received.at(-1)).toMatchObject({ event: 'error' });
    expect(dataOf(received).at(-1)).toMatchObject({
      type: 'error',
      code: expect.any(String),
      message: expect.any(String),
    });
  });

  it('pauses until it is released', async () => {
    const arrived = provider.nextRequest();
    const answer = events(chat, streamWithFault({ holdAfterChunks: 2 }));
    const request = await arrived;
    await expect.poll(() => request.framesSent).toBe(2);
    expect(request.outcome).toBe('open');
    provider.control.release();
    expect((await answer).at(-1)?.data).toBe('[DONE]');
    expect(await request.ended).toBe('answered');
  });

  it('never begins', async () => {
    const client = new AbortController();
    const arrived = provider.nextRequest();
    const answer = fetch(new URL(chat, started.url), {
      method: 'POST',
      body: JSON.stringify(withFault({ hang: true })),
      signal: client.signal,
    });
    const request = await arrived;
    expect(request.outcome).toBe('open');
    client.abort();
    await expect(answer).rejects.toThrow();
    expect(await request.ended).toBe('aborted');
    expect(request.aborted).toBe(true);
  });
});

describe('the pace of an answer', () => {
  it('waits before the headers, before the first byte and between frames', async () => {
    const start = performance.now();
    const response = await post(
      chat,
      streamWithFault({ headerDelayMs: 30, firstByteDelayMs: 40, chunks: 4, paceMs: 10 }),
    );
    expect(performance.now() - start).toBeGreaterThan(28);
    await response.text();
    expect(performance.now() - start).toBeGreaterThan(28 + 38 + 45);
  });

  it('can be set in the model id', async () => {
    const start = performance.now();
    await (
      await post(chat, { ...stream, model: 'simulated-small-pace-5', simulate: undefined, max_tokens: 10 })
    ).text();
    expect(performance.now() - start).toBeGreaterThan(50);
  });

  it('follows a slow client: nothing more is written while the client does not read', async () => {
    const arrived = provider.nextRequest();
    const { hostname, port } = new URL(started.url);
    const body = JSON.stringify(streamWithFault({ chunks: 200_000 }));
    const socket = connect({ host: hostname, port: Number(port) }, () => {
      socket.write(`POST ${chat} HTTP/1.1\r\nhost: x\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    });
    socket.pause();
    const request = await arrived;
    let before = -1;
    await expect
      .poll(
        () => {
          const still = request.framesSent > 0 && request.framesSent === before;
          before = request.framesSent;
          return still;
        },
        { interval: 100, timeout: 10_000 },
      )
      .toBe(true);
    expect(request.framesSent).toBeLessThan(200_000);
    socket.destroy();
    expect(await request.ended).toBe('aborted');
  });
});

describe('the record of a request', () => {
  it('is method, path, headers and body, and whether the client stayed', async () => {
    await json(`${chat}?trace=1`, ask);
    const request = provider.requests.at(-1);
    expect(request).toMatchObject({ method: 'POST', path: `${chat}?trace=1`, aborted: false });
    expect(request?.headers['content-type']).toBe('application/json');
    expect(JSON.parse(request?.body ?? '')).toEqual(ask);
    expect(await request?.ended).toBe('answered');
  });
});

describe('a strict provider', () => {
  const strict = withProvider({ apiKey: 'sk-right', strictModels: true, remember: 2 });

  it('requires its key, and serves only its models', async () => {
    expect((await strict.post(chat, ask)).status).toBe(401);
    const headers = { authorization: 'Bearer sk-right', 'content-type': 'application/json' };
    const send = (model: string) =>
      fetch(new URL(chat, strict.url), { method: 'POST', headers, body: JSON.stringify({ ...ask, model }) });
    expect((await send('simulated-small')).status).toBe(200);
    const unknown = await send('m');
    expect(unknown.status).toBe(404);
    expect(await unknown.json()).toMatchObject({ error: { code: 'model_not_found' } });
  });

  it('keeps only the configured number of requests', async () => {
    for (const model of ['a', 'b', 'c']) await strict.post(chat, { ...ask, model });
    expect(strict.provider.requests.map((request) => JSON.parse(request.body).model)).toEqual(['b', 'c']);
  });
});
