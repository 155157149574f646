/** OpenAI's own client, unchanged: compaction, and operations that a provider does not support. */
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { native, translated, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

const { gateway } = withBothKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });

let client: OpenAI;
const seen: number[] = [];
beforeAll(() => {
  client = new OpenAI({
    baseURL: `${gateway.url}/v1`,
    apiKey: MASTER_KEY,
    maxRetries: 2,
    fetch: async (url, init) => {
      const answer = await fetch(url, init);
      seen.push(answer.status);
      return answer;
    },
  });
});

/** The error of a call that must fail, and that the client must not have retried. */
async function errorOf(call: () => PromiseLike<unknown>): Promise<InstanceType<typeof OpenAI.APIError>> {
  seen.length = 0;
  try {
    await call();
  } catch (error) {
    if (!(error instanceof OpenAI.APIError)) throw error;
    expect(seen).toHaveLength(1);
    return error;
  }
  throw new Error('the call succeeded');
}

describe('operations of a provider without a response', () => {
  it('compacts a conversation, which can be continued from there', async () => {
    const compacted = await client.responses.compact({
      model: native,
      input: [
        { role: 'user', content: 'My name is Ada.' },
        { role: 'assistant', content: 'Noted.' },
      ],
    });
    expect(compacted).toMatchObject({ object: 'response.compaction', output: expect.any(Array) });
    expect(compacted.output.at(-1)).toMatchObject({ type: 'compaction', encrypted_content: expect.any(String) });
    const said = compacted.output as OpenAI.Responses.ResponseInputItem[];
    const input = [...said, { role: 'user' as const, content: 'What is my name?' }];
    const next = await client.responses.create({ model: native, input });
    expect(next.output_text).toBe('Your name is Ada.');
  });

  it('compacts a conversation where the provider cannot', async () => {
    const compacted = await client.responses.compact({ model: translated, input: 'My name is Ada.' });
    expect(compacted.output).toMatchObject([
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'My name is Ada.' }] },
      { type: 'compaction', encrypted_content: expect.any(String) },
    ]);
    const said = compacted.output as OpenAI.Responses.ResponseInputItem[];
    const next = await client.responses.create({
      model: translated,
      input: [...said, { role: 'user', content: 'What is my name?' }],
    });
    expect(next.output_text).toBe('Your name is Ada.');
  });

  it('fails once, without retries, where a provider does not support it', async () => {
    for (const ask of [
      () => client.responses.inputTokens.count({ model: translated, input: 'hi' }),
      () => client.get('/responses/resp_none?provider=llamacpp'),
    ]) {
      expect(await errorOf(ask)).toMatchObject({ status: 501, code: 'unsupported_response_operation' });
    }
  });
});
