import { describe, expect, it } from 'vitest';
import { dataOf, eventsUntil, json, user, withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({ simulated: { responses: 'absent', remember: 10_000 } });
const model = 'llamacpp/simulated-small';

const streamed = (chunks: ReturnType<typeof dataOf>) =>
  chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');

/** One of several kinds of requests; each answer has exactly the requested word. */
async function ask(n: number): Promise<string> {
  const word = `word-${n}`;
  const content = `Reply with exactly: ${word}`;
  const chat = { model, messages: user(content) };
  switch (n % 5) {
    case 0:
      return (await json(await gateway.post('/v1/chat/completions', chat))).choices[0].message.content;
    case 1:
      return streamed(dataOf(await (await gateway.post('/v1/chat/completions', { ...chat, stream: true })).text()));
    case 2:
      return (await json(await gateway.post('/v1/responses', { model, input: content }))).output[0].content[0].text;
    case 3: {
      const text = await (await gateway.post('/v1/responses', { model, input: content, stream: true })).text();
      const { id } = dataOf(text).at(-1).response;
      return (await json(await gateway.fetch(`/v1/responses/${id}`))).output[0].content[0].text;
    }
    default: {
      const body = { ...chat, model: 'simulated-small', stream: true };
      return streamed(dataOf(await (await gateway.post('/p/llamacpp/chat/completions', body)).text()));
    }
  }
}

const inFlight = async () =>
  /^gateway_requests_in_flight (\d+)$/m.exec(await (await gateway.fetch('/metrics')).text())?.[1];

describe('two hundred concurrent requests', () => {
  it('get two hundred answers, each its own', async () => {
    const answers = await Promise.all(Array.from({ length: 200 }, (_, n) => ask(n)));
    expect(answers).toEqual(Array.from({ length: 200 }, (_, n) => `word-${n}`));
  });

  it('of which half are aborted leave nothing open, here and at the provider', async () => {
    const before = gateway.simulated.requests.length;
    const one = async (n: number) => {
      const leaves = n % 2 === 0;
      const client = new AbortController();
      const simulate = { words: 20, ...(leaves ? { holdAfterChunks: 10 } : {}) };
      const body = { model, messages: user(`tell me of ${n}`), stream: true, simulate };
      const headers = { 'x-request-id': `crowd-${n}` };
      const answer = await gateway.post('/v1/chat/completions', body, { signal: client.signal, headers });
      const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      if (leaves) client.abort();
      else while (!(await reader.read()).done);
    };
    await Promise.all(Array.from({ length: 60 }, (_, n) => one(n)));
    const requests = gateway.simulated.requests.slice(before);
    const outcomes = await Promise.all(requests.map(({ ended }) => ended));
    expect(outcomes.filter((outcome) => outcome === 'aborted')).toHaveLength(30);
    expect(outcomes.filter((outcome) => outcome === 'answered')).toHaveLength(30);
    let ends = 0;
    await eventsUntil(gateway, 'types=exchange,client&path=/v1/chat', ({ type, requestId }) => {
      if (/^(exchange\.(completed|failed)|client\.disconnected)$/.test(type) && requestId?.startsWith('crowd-'))
        ends += 1;
      return ends === 60;
    });
    expect(await inFlight()).toBe('0');
  });
});
