/** OpenAI's client and background responses. */
import OpenAI from 'openai';
import type { Response, ResponseStreamEvent } from 'openai/resources/responses/responses';
import { beforeAll, describe, expect, it } from 'vitest';
import { both, native, translated, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

const { gateway, nativeProvider, learned } = withBothKinds({
  RETRY_MAX_RETRIES: '0',
  CIRCUIT_BREAKER_ENABLED: 'false',
});
beforeAll(learned);
const providerOf = (model: string) => (model === native ? nativeProvider : gateway.simulated);

let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
});

const isPending = ({ status }: Response) => status === 'queued' || status === 'in_progress';

/** Polls it until it has ended, as OpenAI's guide does. */
async function ended(id: string): Promise<Response> {
  for (;;) {
    const response = await client.responses.retrieve(id);
    if (!isPending(response)) return response;
  }
}

describe.each(both)('a response in the background, %s', (kind, model) => {
  it('is returned queued at once, and retrieved when it is completed', async () => {
    const promised = await client.responses.create({ model, input: 'Reply with exactly: hello', background: true });
    expect(promised).toMatchObject({ id: expect.stringMatching(/^resp_/), background: true, output: [] });
    expect(isPending(promised)).toBe(true);
    const done = await ended(promised.id);
    expect(done).toMatchObject({ id: promised.id, status: 'completed', output_text: 'hello', background: true });
    expect(done.usage?.output_tokens).toBeGreaterThan(0);
    const items = await client.responses.inputItems.list(promised.id);
    expect(items.data).toMatchObject([{ role: 'user' }]);
  });

  it('is continued by its id', async () => {
    const first = await client.responses.create({ model, input: 'My name is Ada.', background: true });
    await ended(first.id);
    const input = 'What is my name?';
    const second = await client.responses.create({ model, input, previous_response_id: first.id, background: true });
    expect(await ended(second.id)).toMatchObject({ output_text: 'Your name is Ada.', previous_response_id: first.id });
  });

  it('calls functions', async () => {
    const promised = await client.responses.create({
      model,
      background: true,
      input: 'What is the weather in Paris?',
      tools: [{ type: 'function', name: 'get_weather', parameters: { type: 'object' }, strict: false }],
    });
    expect((await ended(promised.id)).output).toMatchObject([{ type: 'function_call', name: 'get_weather' }]);
  });

  it('is cancelled while it is in progress, permanently', async () => {
    providerOf(model).control.next(kind === 'native' ? { holdBackground: 'in_progress' } : { hang: true });
    const promised = await client.responses.create({ model, input: 'Tell me something.', background: true });
    expect(isPending(await client.responses.retrieve(promised.id))).toBe(true);
    const cancelled = await client.responses.cancel(promised.id);
    expect(cancelled).toMatchObject({ id: promised.id, status: 'cancelled' });
    providerOf(model).control.release();
    expect(await client.responses.retrieve(promised.id)).toMatchObject({ id: promised.id, status: 'cancelled' });
  });

  it('streams, and is resumed where its client left off', async () => {
    providerOf(model).control.next({ holdAfterChunks: 8 });
    const first: ResponseStreamEvent[] = [];
    const requestBody = { model, input: 'Tell me something.', background: true, stream: true } as const;
    for await (const event of await client.responses.create(requestBody)) {
      first.push(event);
      if (event.type === 'response.output_text.delta') break;
    }
    const [created] = first;
    if (created?.type !== 'response.created') throw new Error(`the first event is ${created?.type}`);
    const { id } = created.response;
    const after = first.at(-1)?.sequence_number ?? -1;
    const rest: ResponseStreamEvent[] = [];
    const again = await client.responses.retrieve(id, { stream: true, starting_after: after });
    providerOf(model).control.release();
    for await (const event of again) rest.push(event);
    const numbers = [...first, ...rest].map((event) => event.sequence_number);
    expect(numbers).toEqual(numbers.map((_, i) => i));
    expect(rest.at(-1)).toMatchObject({ type: 'response.completed', response: { id, status: 'completed' } });
    const deltas = [...first, ...rest].flatMap((event) =>
      event.type === 'response.output_text.delta' ? [event.delta] : [],
    );
    const stored = await client.responses.retrieve(id);
    expect(stored).toMatchObject({ status: 'completed', output_text: deltas.join('') });
  });

  it('is followed by the helper for streams, from its id alone', async () => {
    const promised = await client.responses.create({
      model,
      input: 'Reply with exactly: hello',
      background: true,
      stream: true,
    });
    let id = '';
    for await (const event of promised) {
      if (event.type === 'response.created') id = event.response.id;
    }
    const deltas: string[] = [];
    const stream = client.responses.stream({ response_id: id });
    stream.on('response.output_text.delta', ({ delta }) => void deltas.push(delta));
    expect(await stream.finalResponse()).toMatchObject({ id, status: 'completed', output_text: 'hello' });
    expect(deltas.join('')).toBe('hello');
  });
});

it('a background response that cannot be completed ends as failed with the reason', async () => {
  gateway.simulated.control.next({ status: 400, message: 'no luck', code: 'unlucky' });
  const promised = await client.responses.create({ model: translated, input: 'hi', background: true });
  const failed = await ended(promised.id);
  expect(failed).toMatchObject({
    status: 'failed',
    output: [],
    error: { message: expect.stringContaining('no luck') },
  });
});
