/** `truncation: "auto"` for providers without a Responses API. */
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
/** Of the newest chat request. */
let messages: { role: string; content: string }[] = [];

const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  answer();
  return { simulated: false, env: { OLLAMA_BASE_URL: scripted.url, RETRY_MAX_RETRIES: '0' } };
});
beforeEach(answer);
afterAll(() => scripted.close());

/** `small` has a window of 600 tokens; the window of `unknown` is unknown. */
function answer(): void {
  messages = [];
  scripted.script(({ path, body }, response) => {
    const requestBody = JSON.parse(body.toString() || '{}');
    if (path === '/api/tags') return void response.end('{"models":[{"model":"small"},{"model":"unknown"}]}');
    if (path === '/api/show') {
      const info = requestBody.model === 'small' ? { 'general.architecture': 'x', 'x.context_length': 600 } : {};
      return void response.end(JSON.stringify({ capabilities: ['completion', 'tools'], model_info: info }));
    }
    messages = requestBody.messages;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ message: { role: 'assistant', content: 'ok' }, done: true, done_reason: 'stop' }));
  });
}

/** About a hundred tokens. */
const long = (name: string) => `${name} ${'word '.repeat(80)}`;
const user = (name: string) => ({ role: 'user', content: long(name) });
const assistant = (name: string) => ({ role: 'assistant', content: long(name) });
const turns = ['one', 'two', 'three', 'four'].flatMap((name) => [user(name), assistant(name)]);
const input = [{ role: 'developer', content: 'Be kind.' }, ...turns, user('last')];
const create = async (body: object) => {
  const answered = await gateway.post('/v1/responses', { model: 'ollama/small', truncation: 'auto', ...body });
  expect(answered.status, await answered.clone().text()).toBe(200);
  return json(answered);
};
const said = () => messages.map(({ role, content }) => `${role} ${content.split(' ', 1)[0]}`);

describe('truncation: "auto" on a translated provider', () => {
  it('drops the oldest turns until the input fits into the context window', async () => {
    const response = await create({ input, instructions: 'Answer.' });
    expect(response.truncation).toBe('auto');
    expect(said()).toEqual(['system Answer.', 'system Be', 'user four', 'assistant four', 'user last']);
  });

  it('leaves room for the longest allowed answer', async () => {
    await create({ input, max_output_tokens: 300 });
    expect(said()).toEqual(['system Be', 'user last']);
  });

  it('drops turns before previous_response_id too, and stores the input unchanged', async () => {
    const first = await create({ input: turns });
    const second = await create({ input: [user('last')], previous_response_id: first.id });
    expect(said()).not.toContain('user one');
    expect(said().at(-1)).toBe('user last');
    const items = await json(await gateway.fetch(`/v1/responses/${second.id}/input_items`));
    expect(items.data).toHaveLength(1);
  });

  it('never drops the last turn, and drops the output of a call with its call', async () => {
    const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: JSON.stringify({ text: long('call') }) };
    const output = { type: 'function_call_output', call_id: 'c', output: long('output') };
    const tools = [{ type: 'function', name: 'f', parameters: { type: 'object', properties: {} } }];
    await create({ tools, input: [user('one'), call, user('two'), output, ...turns, user('last')] });
    expect(said().at(-1)).toBe('user last');
    expect(messages.map(({ role }) => role)).not.toContain('tool');
    const huge = { role: 'user', content: long('huge').repeat(10) };
    await create({ input: [user('one'), huge] });
    expect(said()).toEqual(['user huge']);
  });

  it('has no effect when everything fits, or the context window is unknown', async () => {
    await create({ input: [user('one'), assistant('one'), user('last')] });
    expect(messages).toHaveLength(3);
    await create({ model: 'ollama/unknown', input });
    expect(messages).toHaveLength(input.length);
  });

  it('is off by default', async () => {
    for (const truncation of ['disabled', null]) {
      await create({ truncation, input });
      expect(messages).toHaveLength(input.length);
    }
  });

  it('is the only other value', async () => {
    const refused = await gateway.post('/v1/responses', { model: 'ollama/small', input: 'hi', truncation: 'old' });
    expect(await errorOf(refused, 400)).toMatchObject({ param: 'truncation' });
  });
});
