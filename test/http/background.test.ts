/** Background responses on a provider that does not store responses itself. */
import { describe, expect, it } from 'vitest';
import type { RecordedRequest } from '../../infra/simulated-provider/server.ts';
import { translated, withBothKinds } from '../support/both-kinds.ts';
import { dataOf, errorOf, eventsOfExchange, exchangeOf, json, readUntil } from '../support/with-gateway.ts';

const kinds = withBothKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });
const { gateway } = kinds;
const hello = { model: translated, input: 'Reply with exactly: hello', background: true };
/** The provider receives the request and does not answer. */
const silent = { firstByteDelayMs: 60_000 };

async function until(id: string, status: string) {
  for (;;) {
    const response = await json(await kinds.retrieve(id));
    if (response.status === status) return response;
    if (!['queued', 'in_progress'].includes(response.status)) throw new Error(`it is ${response.status}`);
    // The next state is recorded before the stream shows it: following the stream waits for it.
    await (await kinds.retrieve(id, '?stream=true&starting_after=1')).text();
  }
}

async function inProgress(id: string): Promise<void> {
  const { status } = await json(await kinds.retrieve(id));
  if (status !== 'in_progress') await inProgress(id);
}

/** Releases a provider that holds its answer, or is about to. */
async function letGo(request: RecordedRequest): Promise<void> {
  while (request.outcome === 'open') {
    gateway.simulated.control.release();
    await new Promise(setImmediate);
  }
}

const cancel = (id: string) => gateway.post(`/v1/responses/${id}/cancel`, '');

describe('a background response', () => {
  it('is returned queued at once, and GET returns it when completed', async () => {
    const queued = await kinds.create(hello);
    expect(queued).toMatchObject({ object: 'response', status: 'queued', background: true, output: [], usage: null });
    const made = await until(queued.id, 'completed');
    expect(made).toMatchObject({ id: queued.id, background: true, created_at: queued.created_at });
    expect(made.output[0].content[0].text).toBe('hello');
    expect(made.usage.output_tokens).toBeGreaterThan(0);
    expect(Object.keys(made).sort()).toEqual(Object.keys(queued).sort());
  });

  it('does not send background to the provider', async () => {
    const { id } = await kinds.create(hello);
    await until(id, 'completed');
    expect(JSON.parse(gateway.lastProviderRequest().body)).not.toHaveProperty('background');
  });

  it('is in progress while the provider is called', async () => {
    gateway.simulated.control.next(silent);
    const { id } = await kinds.create(hello);
    await inProgress(id);
    expect((await cancel(id)).status).toBe(200);
  });

  it('ends as failed, with the reason, when the provider refuses', async () => {
    gateway.simulated.control.next({ status: 500, message: 'out of order' });
    const { id } = await kinds.create(hello);
    const failed = await until(id, 'failed');
    expect(failed.error).toMatchObject({ message: expect.stringContaining('out of order') });
    expect(failed.error.type).toBe('provider_error');
  });

  it('can be the previous response of the next one', async () => {
    const { id } = await kinds.create({ ...hello, input: 'My name is Ada. Remember it.' });
    await until(id, 'completed');
    const next = await kinds.create({ input: 'What is my name?', previous_response_id: id });
    expect(next.output[0].content[0].text).toBe('Your name is Ada.');
  });

  it('must be stored', async () => {
    const answer = await gateway.post('/v1/responses', { ...hello, store: false });
    expect(await errorOf(answer, 400)).toMatchObject({ param: 'store', code: 'unsupported_parameter' });
  });

  it('is refused at once when the request is invalid', async () => {
    const answer = await gateway.post('/v1/responses', { ...hello, model: 'llamacpp/none', provider: 'nobody' });
    await errorOf(answer, 400);
    const unknown = await gateway.post('/v1/responses', { ...hello, previous_response_id: 'resp_none' });
    await errorOf(unknown, 404);
  });

  it('is recorded in full', async () => {
    const answer = await gateway.post('/v1/responses', hello);
    await until((await json(answer)).id, 'completed');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
  });
});

describe('cancelling a background response', () => {
  it('ends the call to the provider', async () => {
    gateway.simulated.control.next(silent);
    const providerRequest = gateway.simulated.nextRequest();
    const { id } = await kinds.create(hello);
    const request = await providerRequest;
    const cancelled = await json(await cancel(id));
    expect(cancelled).toMatchObject({ id, status: 'cancelled', error: null, output: [] });
    expect(await request.ended).toBe('aborted');
    expect(await json(await kinds.retrieve(id))).toEqual(cancelled);
  });

  it('is not counted as a failure of the provider', async () => {
    gateway.simulated.control.next(silent);
    const providerRequest = gateway.simulated.nextRequest();
    const answer = await gateway.post('/v1/responses', hello);
    await providerRequest;
    await cancel((await json(answer)).id);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.map(({ type }) => type)).not.toContain('attempt.failed');
    expect(events.find(({ type }) => type === 'exchange.failed')?.data).toMatchObject({
      reason: 'cancelled',
      code: 'response_cancelled',
    });
  });

  it('keeps the output received until then', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 4 });
    const answer = await gateway.post('/v1/responses', { ...hello, input: 'Write 50 words', stream: true });
    const text = await readUntil(answer, 'output_text.delta');
    const [{ response }] = dataOf(text);
    const cancelled = await json(await cancel(response.id));
    expect(cancelled).toMatchObject({ id: response.id, status: 'cancelled' });
    expect(cancelled.output[0].content[0].text.length).toBeGreaterThan(0);
  });

  it('returns an ended response unchanged', async () => {
    const { id } = await kinds.create(hello);
    const made = await until(id, 'completed');
    expect(await json(await cancel(id))).toEqual(made);
  });

  it('is refused for a response that was not created in the background', async () => {
    const { id } = await kinds.create({ input: 'hi' });
    expect(await errorOf(await cancel(id), 400)).toMatchObject({ code: 'response_not_cancellable' });
  });

  it('accepts a body and ignores it', async () => {
    const { id } = await kinds.create(hello);
    await until(id, 'completed');
    expect((await gateway.post(`/v1/responses/${id}/cancel`, '{}')).status).toBe(200);
  });

  it('is a 404 for an unknown id', async () => {
    await errorOf(await cancel('resp_none'), 404);
  });

  it('of one in progress by DELETE ends it', async () => {
    gateway.simulated.control.next(silent);
    const providerRequest = gateway.simulated.nextRequest();
    const { id } = await kinds.create(hello);
    const request = await providerRequest;
    expect((await gateway.fetch(`/v1/responses/${id}`, { method: 'DELETE' })).status).toBe(200);
    expect(await request.ended).toBe('aborted');
    expect((await kinds.retrieve(id)).status).toBe(404);
  });
});

describe('a background response as a stream', () => {
  it('continues when its client disconnects, and can be resumed where the client left off', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 4 });
    const left = new AbortController();
    const providerRequest = gateway.simulated.nextRequest();
    const body = { ...hello, input: 'Write 30 words', stream: true };
    const answer = await gateway.post('/v1/responses', body, { signal: left.signal });
    const text = await readUntil(answer, 'output_text.delta');
    const seen = dataOf(text);
    left.abort();
    const { id } = seen[0].response;
    const joined = kinds.retrieve(id, `?stream=true&starting_after=${seen.at(-1).sequence_number}`);
    await letGo(await providerRequest);
    const rest = dataOf(await (await joined).text());
    const all = [...seen, ...rest];
    expect(all.map((event) => event.sequence_number)).toEqual(all.map((_, index) => index));
    expect(all.at(-1)).toMatchObject({ type: 'response.completed', response: { id, status: 'completed' } });
    const deltas = all.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta);
    expect(deltas.join('')).toBe(all.at(-1).response.output[0].content[0].text);
    expect(await json(await kinds.retrieve(id))).toEqual(all.at(-1).response);
  });
});
