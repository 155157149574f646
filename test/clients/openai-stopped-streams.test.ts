/** OpenAI's own client, unchanged, leaves streams before they end. */
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { both, native, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

const { gateway, nativeProvider, learned } = withBothKinds({
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
});

let client: OpenAI;
beforeAll(async () => {
  await learned();
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
});

const content = 'Tell me something.';

describe.each(both)("OpenAI's client with a provider that is %s", (_kind, model) => {
  const provider = () => (model === native ? nativeProvider : gateway.simulated);
  it.each([
    [
      'chat stream',
      () => client.chat.completions.create({ model, messages: [{ role: 'user', content }], stream: true }),
    ],
    ['response stream', () => client.responses.create({ model, input: content, stream: true })],
  ])('stops in the middle of a %s, and so does the provider', async (_stream, ask) => {
    provider().control.next({ holdAfterChunks: 7 });
    const stream: AsyncIterable<unknown> & { readonly controller: AbortController } = await ask();
    for await (const _ of stream) break;
    stream.controller.abort();
    expect(await provider().requests.at(-1)?.ended).toBe('aborted');
  });
});
