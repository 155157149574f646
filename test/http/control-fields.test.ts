/** Form fields that the gateway evaluates must be text that it has read: a provider could read another value. */
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { newKey } from '../support/managed-keys.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, withGateway } from '../support/with-gateway.ts';

const scripted = await startScriptedProvider();
afterAll(() => scripted.close());
const gateway = withGateway({ register: () => ({ OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk' }) });
let calls = 0;
beforeEach(() => {
  calls = 0;
  scripted.script((_request, response) => {
    calls += 1;
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"id":"file-1"}');
  });
});

const TRANSCRIPTIONS = '/v1/audio/transcriptions';
type Part = readonly [name: string, value: string | Blob];
const file = (text: string) => new Blob([text]);
const recording: Part = ['file', file('sound')];
const model: Part = ['model', 'openai/scripted'];

function send(path: string, parts: readonly Part[], by: Pick<typeof gateway, 'fetch'> = gateway): Promise<Response> {
  const form = new FormData();
  for (const [name, value] of parts) {
    if (typeof value === 'string') form.append(name, value);
    else form.append(name, value, 'a.txt');
  }
  return by.fetch(path, { method: 'POST', body: form });
}

describe('a form', () => {
  it.each<[string, readonly Part[]]>([
    ['the model', [model, ['model', file('other')], recording]],
    ['the model, behind the recording', [model, recording, ['model', file('other')]]],
    ['the model, in front of its field', [['model', file('other')], model, recording]],
    ['the model in capitals', [model, ['Model', file('other')], recording]],
    ['the model with brackets', [model, ['model[]', file('other')], recording]],
    ['the provider', [model, ['provider', file('other')], recording]],
    ['the stream', [model, ['stream', file('true')], recording]],
    ['the number of answers', [model, ['n', file('9')], recording]],
    ['the id of a file', [model, ['file_id', file('file-of-others')], recording]],
    ['ids of files', [model, ['file_ids[0]', file('file-of-others')], recording]],
  ])('that sends %s as a file is refused', async (_about, parts) => {
    const answer = await send(TRANSCRIPTIONS, parts);
    expect((await errorOf(answer, 400)).code).toBe('control_field_as_file');
  });

  it('that sends its model as a file does not reach a provider under a key that may not use it', async () => {
    const key = await newKey(gateway, { allowed_models: ['openai/scripted'] });
    const answer = await send(TRANSCRIPTIONS, [model, ['model', file('forbidden')], recording], key);
    expect((await errorOf(answer, 400)).param).toBe('model');
    expect(calls).toBe(0);
  });

  it.each<[string, readonly Part[]]>([
    ['images', [model, ['prompt', 'a'], ['n', '1'], ['n', '10'], ['image', file('png')]]],
    ['streams', [model, ['prompt', 'a'], ['stream', 'false'], ['stream', 'true'], ['image', file('png')]]],
  ])('with two numbers of %s is refused', async (_about, parts) => {
    expect((await errorOf(await send('/v1/images/edits', parts), 400)).code).toBe('invalid_form');
  });

  it('for /v1/files follows the same rules', async () => {
    const answer = await send('/v1/files', [['purpose', 'batch'], ['provider', file('other')], recording]);
    expect((await errorOf(answer, 400)).code).toBe('control_field_as_file');
  });

  it('with files under other names is served', async () => {
    const parts: readonly Part[] = [
      model,
      ['prompt', 'a'],
      ['image[]', file('1')],
      ['image[]', file('2')],
      ['mask', file('3')],
    ];
    expect((await send('/v1/images/edits', parts)).status).toBe(200);
    expect((await send(TRANSCRIPTIONS, [model, recording])).status).toBe(200);
  });
});
