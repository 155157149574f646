/** Large request bodies share one bound on memory, however they are encoded. */
import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, it } from 'vitest';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, json, user, withGateway } from '../support/with-gateway.ts';

const MB = 1024 * 1024;
const scripted = await startScriptedProvider();
afterAll(() => scripted.close());
const gateway = withGateway({
  simulated: false,
  env: { OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk', MAX_BODY_MEMORY: '16M', RETRY_MAX_RETRIES: '0' },
});

const completion = {
  id: 'c',
  object: 'chat.completion',
  created: 1,
  model: 'scripted',
  choices: [{ index: 0, message: { role: 'assistant', content: 'fine' }, finish_reason: 'stop' }],
};
const chat = (bytes: number) =>
  Buffer.from(JSON.stringify({ model: 'openai/scripted', messages: user('a'.repeat(bytes)) }));

function send(encoding: 'gzip' | 'identity', body: Buffer) {
  const headers = { 'content-type': 'application/json', 'content-encoding': encoding };
  const bytes = encoding === 'gzip' ? gzipSync(body) : body;
  return gateway.fetch('/v1/chat/completions', { method: 'POST', headers, body: new Uint8Array(bytes) });
}

it.each(['gzip', 'identity'] as const)(
  'bodies beyond the bound get 503 while others are held: %s',
  async (encoding) => {
    const { promise: bothArrived, resolve } = Promise.withResolvers<void>();
    const held: ServerResponse[] = [];
    scripted.script((_request, response) => {
      held.push(response);
      if (held.length === 2) resolve();
    });
    const served = [send(encoding, chat(6 * MB)), send(encoding, chat(6 * MB))];
    await bothArrived;

    const refused = await send(encoding, chat(6 * MB));
    expect(refused.headers.get('retry-after')).toBe('1');
    expect((await errorOf(refused, 503)).code).toBe('overloaded');

    scripted.script((_request, response) => response.end(JSON.stringify(completion)));
    const small = await send(encoding, chat(1000));
    expect((await json(small)).choices[0].message.content).toBe('fine');

    for (const response of held)
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(completion));
    for (const answer of await Promise.all(served))
      expect((await json(answer)).choices[0].message.content).toBe('fine');
    const later = await send(encoding, chat(6 * MB));
    expect((await json(later)).choices[0].message.content).toBe('fine');
  },
);

it('a body larger than the bound is served alone', async () => {
  scripted.script((_request, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(completion)),
  );
  expect((await json(await send('gzip', chat(20 * MB)))).choices[0].message.content).toBe('fine');
});
