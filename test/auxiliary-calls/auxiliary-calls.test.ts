import { describe, expect, it } from 'vitest';
import { AuxiliaryCalls } from '../../src/commands/auxiliary-calls/auxiliary-calls.ts';
import type { ModelCall } from '../../src/commands/guardrails/guardrail-type.ts';
import type { Client } from '../../src/commands/model-request/model-request.ts';
import { Refusal } from '../../src/commands/refusal.ts';

const call = (change: Partial<ModelCall> = {}): ModelCall => ({
  requestId: 'request-1',
  model: 'm',
  userPath: '/team/guardrails/judge',
  messages: [{ role: 'user', content: 'a secret text' }],
  maxTokens: 10,
  signal: new AbortController().signal,
  ...change,
});

/** Calls whose exchanges do this with their client, and end when the client's request ends. */
function callsThat(exchange: (client: Client) => void, limit = 2) {
  const clients: Client[] = [];
  const calls = new AuxiliaryCalls({
    limit,
    newId: () => 'exchange-1',
    async run(_id, _request, client) {
      clients.push(client);
      exchange(client);
      if (client.ended.aborted) return;
      await new Promise<void>((resolve) => client.ended.addEventListener('abort', () => resolve(), { once: true }));
    },
  });
  return { calls, clients };
}

const completion = (choice: object) => Buffer.from(JSON.stringify({ choices: [choice] }));
const answers = (choice: object) => (client: Client) => client.answer(200, {}, completion(choice));

describe('AuxiliaryCalls', () => {
  it.each([
    [
      { message: { content: 'yes' }, finish_reason: 'stop' },
      { text: 'yes', isCut: false },
    ],
    [
      { message: { content: 'ye' }, finish_reason: 'length' },
      { text: 'ye', isCut: true },
    ],
    [
      {
        message: {
          content: [
            { type: 'text', text: 'y' },
            { type: 'text', text: 'es' },
          ],
        },
      },
      { text: 'yes', isCut: false },
    ],
  ])('resolves to the text of %j', async (choice, expected) => {
    const { calls } = callsThat(answers(choice));
    expect(await calls.call(call())).toEqual({ ...expected, exchangeId: 'exchange-1' });
  });

  it.each([
    [answers({ message: { content: null, refusal: 'no' } }), 'the model refused'],
    [answers({ message: { content: '' }, finish_reason: 'content_filter' }), 'finish_reason "content_filter"'],
    [(client: Client) => client.answer(200, {}, Buffer.from('<html>')), 'no chat completion'],
    [(client: Client) => client.begin(200, {}), 'a stream, which was not requested'],
  ])('fails without a text: %#', async (exchange, message) => {
    const { calls } = callsThat(exchange);
    await expect(calls.call(call())).rejects.toThrow(message);
  });

  it('repeats the message of a refusal of the gateway, and not that of a provider', async () => {
    const facts = { status: 429, type: 'rate_limit_error', code: 'too_many', message: 'about a secret text' } as const;
    const own = callsThat((client) => client.refuse(new Refusal(facts), {}));
    const failed = await own.calls.call(call()).catch((error: unknown) => error);
    expect(failed).toMatchObject({ message: expect.stringContaining('about'), exchangeId: 'exchange-1' });
    const other = callsThat((client) => client.refuse(new Refusal({ ...facts, provider: 'p' }), {}));
    const message = await other.calls.call(call()).catch((error: Error) => error.message);
    expect(message).toBe("the call of the model 'm' failed: 429 too_many");
  });

  it('fails beyond the limit, and calls again when an exchange has ended', async () => {
    const { calls, clients } = callsThat(() => {}, 1);
    const first = new AbortController();
    const running = calls.call(call({ signal: first.signal }));
    await expect(calls.call(call())).rejects.toThrow('guardrails run 1 calls of models already');
    first.abort('client_gone');
    await expect(running).rejects.toMatchObject({
      ...{ message: expect.stringContaining('cancelled'), exchangeId: 'exchange-1' },
    });
    expect(clients[0]?.ended.reason).toBe('client_gone');
    const again = new AbortController();
    const second = calls.call(call({ signal: again.signal }));
    expect(clients).toHaveLength(2);
    again.abort(new Error('late'));
    await expect(second).rejects.toThrow('cancelled');
    expect(clients[1]?.ended.reason).toBe('cancelled');
  });

  it('calls nothing when the signal is aborted already', async () => {
    const { calls, clients } = callsThat(() => {});
    await expect(calls.call(call({ signal: AbortSignal.abort('client_gone') }))).rejects.toThrow('cancelled');
    expect(clients).toHaveLength(0);
  });

  it('ends all calls when the gateway stops', async () => {
    const { calls, clients } = callsThat((client) =>
      client.ended.addEventListener('abort', () => client.refuse(new Refusal({ ...stopping }), {})),
    );
    const running = calls.call(call());
    calls.cut();
    await expect(running).rejects.toThrow('503 stopping');
    expect(clients[0]?.ended.reason).toBe('gateway_stopping');
  });
});

const stopping = { status: 503, type: 'provider_error', code: 'stopping', message: 'The gateway stops.' } as const;
