/** OpenAI's client and the operations on existing responses. */
import OpenAI from 'openai';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import { beforeAll, describe, expect, it } from 'vitest';
import { both, native, withBothKinds } from '../support/both-kinds.ts';
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

async function all(stream: AsyncIterable<ResponseStreamEvent>): Promise<ResponseStreamEvent[]> {
  const events: ResponseStreamEvent[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

describe.each(both)('an existing response, %s', (_kind, model) => {
  it('is streamed again, event for event, or from a given number on', async () => {
    const events = await all(
      await client.responses.create({ model, input: 'Think, and tell me something.', stream: true }),
    );
    const last = events.at(-1);
    if (last?.type !== 'response.completed') throw new Error(`the last event is ${last?.type}`);
    const { id } = last.response;
    expect(await all(await client.responses.retrieve(id, { stream: true }))).toEqual(events);
    const after = await all(await client.responses.retrieve(id, { stream: true, starting_after: 4 }));
    expect(after).toEqual(events.slice(5));
  });

  it('is assembled again by the helper for streams, which reports new events', async () => {
    const made = await client.responses.stream({ model, input: 'Tell me something.' }).finalResponse();
    const events: number[] = [];
    const stream = client.responses.stream({ response_id: made.id, starting_after: 6 });
    stream.on('event', (event) => void events.push(event.sequence_number));
    expect((await stream.finalResponse()).output_text).toBe(made.output_text);
    expect(events[0]).toBe(7);
  });

  it('is streamed although it was created without streaming', async () => {
    const made = await client.responses.create({ model, input: 'Reply with exactly: hello' });
    const again = await client.responses.stream({ response_id: made.id }).finalResponse();
    expect(again).toMatchObject({ id: made.id, status: 'completed', output_text: 'hello' });
  });

  it('is not found once it is deleted, whole, as a stream or by its items', async () => {
    const { id } = await client.responses.create({ model, input: 'hi' });
    await client.responses.delete(id);
    for (const ask of [
      () => client.responses.retrieve(id),
      () => client.responses.retrieve(id, { stream: true }),
      () => client.responses.inputItems.list(id),
    ]) {
      expect(await errorOf(ask)).toBeInstanceOf(OpenAI.NotFoundError);
    }
  });

  it('is read with include parameters', async () => {
    const include = ['message.output_text.logprobs' as const];
    const made = await client.responses.create({ model, input: 'Reply with exactly: hello', include, top_logprobs: 2 });
    const read = await client.responses.retrieve(made.id, { include });
    expect(read.output).toMatchObject([{ content: [{ logprobs: [{ token: 'hello' }] }] }]);
  });

  it('is not found under an unknown id', async () => {
    for (const ask of [
      () => client.responses.retrieve('resp_none'),
      () => client.responses.retrieve('resp_none', { stream: true }),
      () => client.responses.cancel('resp_none'),
      () => client.responses.delete('resp_none'),
    ]) {
      expect(await errorOf(ask)).toBeInstanceOf(OpenAI.NotFoundError);
    }
  });
});

describe('operations of a provider before a response exists', () => {
  it('counts the tokens of its input', async () => {
    const input = 'Reply with exactly: hello';
    const counted = await client.responses.inputTokens.count({ model: native, input });
    expect(counted).toEqual({ object: 'response.input_tokens', input_tokens: expect.any(Number) });
    const { usage } = await client.responses.create({ model: native, input });
    expect(counted.input_tokens).toBe(usage?.input_tokens);
  });
});
