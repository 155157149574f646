/** Ways past guardrails: failover, replays, reasoning that the gateway carries, and events that it does not know. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { carriedForm, readCarried } from '../../../src/providers/translate/responses-to-chat/reasoning.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts';
import { dataOf, json, user, withGateway } from '../../support/with-gateway.ts';

const V = 'bob.miller@example.com';
const received: string[] = [];
let openai: ScriptedProvider;
const gateway = withGateway(async () => {
  openai = await startScriptedProvider();
  return {
    simulated: { responses: 'absent' },
    register: (own) => ({ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: openai.url, OPENAI_API_KEY: 'sk-scripted' }),
    env: { ...withGuardrails, OPENAI_MODELS: 'scripted', RETRY_MAX_RETRIES: '0' },
  };
}, 1);
afterAll(() => openai.close());

let answer: { readonly type: string; readonly body: string };

beforeAll(async () => {
  openai.script((request, response) => {
    if (request.method === 'POST') received.push(request.body.toString());
    response.writeHead(200, { 'content-type': answer.type }).end(answer.body);
  });
  await saveGuardrail(gateway, { name: 'personal-data', type: 'pii' });
  await saveGuardrail(gateway, {
    name: 'prompt',
    type: 'system_prompt',
    config: { content: 'INJECTED', mode: 'override' },
  });
  await saveGuardrail(gateway, { name: 'secret', type: 'string_replace', config: { rules: 'SECRETWORD => ******' } });
  await guard(gateway, '/hidden', [{ ref: 'personal-data' }]);
  await guard(gateway, '/prompted', [{ ref: 'prompt' }]);
  await guard(gateway, '/answers', [
    { ref: 'secret', phase: 'response' },
    { ref: 'secret', phase: 'stream' },
  ]);
});

const at = (path: string) => ({ headers: { 'x-gateway-user-path': path } });
const stream = (events: readonly object[]) => ({
  type: 'text/event-stream',
  body: events.map((event) => `event: ${Reflect.get(event, 'type')}\ndata: ${JSON.stringify(event)}\n\n`).join(''),
});

describe('failover', () => {
  it('leaves out a candidate whose workflow has other guardrails', async () => {
    const workflow_payload = {
      ...{ schema_version: 2, steps: [{ ref: 'personal-data' }] },
      features: { cache: true, audit: true, usage: true, guardrails: true },
    };
    const created = await gateway.fetch('/admin/workflows', {
      json: { scope_provider_name: 'openai', scope_user_path: '/mixed', name: 'openai', workflow_payload },
    });
    expect(created.status).toBe(201);
    const targets = ['llamacpp/simulated-small', 'openai/scripted'].map((target) => {
      const [provider, model] = target.split('/');
      return { provider, model };
    });
    const saved = await gateway.fetch('/admin/virtual-models', {
      ...{ method: 'PUT', json: { source: 'both', targets, strategy: 'failover' } },
    });
    expect(saved.status, await saved.text()).toBeLessThan(300);
    received.length = 0;
    gateway.simulated.control.next({ status: 503 }, { path: '/v1/chat/completions' });
    const got = await gateway.post('/v1/chat/completions', { model: 'both', messages: user(V) }, at('/mixed'));
    expect(got.status).toBe(503);
    expect(received).toEqual([]);
  });
});

describe('an injected system prompt', () => {
  it('is not in the answer, the stored response, or any replay of it', async () => {
    const response = {
      ...{ id: 'resp_echo', object: 'response', created_at: 1, status: 'completed', model: 'scripted' },
      ...{ instructions: 'INJECTED', output: [] },
    };
    answer = stream([
      { type: 'response.created', sequence_number: 0, response: { ...response, status: 'in_progress' } },
      { type: 'response.completed', sequence_number: 1, response },
    ]);
    const body = { model: 'openai/scripted', input: 'x', stream: true, instructions: 'mine' };
    const keyed = { headers: { ...at('/prompted').headers, 'idempotency-key': 'echo' } };
    received.length = 0;
    const live = await (await gateway.post('/v1/responses', body, keyed)).text();
    expect(received[0]).toContain('INJECTED');
    const again = await (await gateway.post('/v1/responses', body, keyed)).text();
    const shown = await (await gateway.fetch('/v1/responses/resp_echo?stream=true', at('/prompted'))).text();
    const stored = await (await gateway.fetch('/v1/responses/resp_echo', at('/prompted'))).text();
    for (const text of [live, again, shown, stored]) {
      expect(text).toContain('mine');
      expect(text).not.toContain('INJECTED');
    }
  });
});

describe('reasoning that the gateway carries', () => {
  it('is not sent to a provider unread, and not given to a client unread', async () => {
    const item = { type: 'reasoning', summary: [], encrypted_content: carriedForm({ text: `think of ${V}` }) };
    const model = 'llamacpp/simulated-small';
    const input = [{ role: 'user', content: 'x' }, item, { role: 'user', content: 'y' }];
    const got = await gateway.post('/v1/responses', { model, input, store: false }, at('/hidden'));
    expect(got.status, await got.text()).toBe(200);
    expect(gateway.lastProviderRequest().body).not.toContain(V);
    const thinking = await gateway.post(
      '/v1/responses',
      {
        ...{ model, input: 'think, then reply with exactly: SECRETWORD', reasoning: { effort: 'high' }, store: false },
        include: ['reasoning.encrypted_content'],
      },
      at('/answers'),
    );
    const { output } = await json(thinking);
    const reasoning = output.find(({ type }: { type: string }) => type === 'reasoning');
    expect(readCarried(reasoning.encrypted_content)?.text).toBe('');
  });
});

describe('events of a native response that the gateway does not know', () => {
  it('are evaluated: deltas together, and whole items', async () => {
    const place = { item_id: 'i', output_index: 0 };
    const call = { type: 'mcp_call', id: 'i', name: 'n', arguments: '{}', output: 'SECRETWORD', status: 'completed' };
    const search = {
      type: 'web_search_call',
      id: 'w',
      status: 'completed',
      action: { type: 'search', query: 'SECRETWORD' },
    };
    const response = {
      ...{ id: 'resp_unknown', object: 'response', created_at: 1, status: 'completed', model: 'scripted' },
      output: [call, search],
    };
    const events = [
      { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
      { type: 'response.output_item.added', output_index: 0, item: { ...call, status: 'in_progress' } },
      { type: 'response.shell_call_command.delta', ...place, command_index: 0, delta: 'SECRET' },
      { type: 'response.shell_call_command.delta', ...place, command_index: 0, delta: 'WORD' },
      { type: 'response.output_item.done', output_index: 0, item: call },
      { type: 'response.output_item.added', output_index: 1, item: search },
      { type: 'response.output_item.done', output_index: 1, item: search },
      { type: 'response.completed', response },
    ];
    answer = stream(events.map((event, sequence_number) => ({ ...event, sequence_number })));
    const body = { model: 'openai/scripted', input: 'x', stream: true };
    const text = await (await gateway.post('/v1/responses', body, at('/answers'))).text();
    expect(text).not.toContain('SECRET');
    expect(dataOf(text).at(-1).response.output[0].output).toBe('******');
    const stored = await (await gateway.fetch('/v1/responses/resp_unknown', at('/answers'))).text();
    expect(stored).not.toContain('SECRET');
  });
});
