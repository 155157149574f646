/** The events of real requests, in the order of the steps, and that docs/architecture.md has that order. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { eventsOfExchange, user, withGateway } from '../../support/with-gateway.ts';

const gateway = withGateway(async () => ({ simulated: { words: 3 } }));

const model = 'llamacpp/simulated-small';

/** The types of the events of the exchange that gave the answer, each once. */
async function typesOf(answer: Response): Promise<string[]> {
  await answer.text();
  const events = await eventsOfExchange(gateway, answer.headers.get('x-exchange-id') ?? '');
  return [...new Set(events.map(({ type }) => type))];
}

describe('a model request', () => {
  it.each([
    ['a chat completion', '/v1/chat/completions', { messages: user('hi') }],
    ['a chat stream', '/v1/chat/completions', { messages: user('hi'), stream: true }],
    ['a response', '/v1/responses', { input: 'hi' }],
    ['a response as a stream', '/v1/responses', { input: 'hi', stream: true }],
    ['a message', '/v1/messages', { messages: user('hi'), max_tokens: 9 }],
    ['embeddings', '/v1/embeddings', { input: 'hi' }],
    ['a text completion', '/v1/completions', { prompt: 'hi' }],
  ])('%s is recorded step by step', async (_name, path, body) => {
    const answer = await gateway.post(path, { model, ...body });
    expect(answer.status).toBe(200);
    const types = (await typesOf(answer)).filter((type) => type !== 'response.stored');
    expect(types).toEqual([
      ...['request.received', 'model.resolved', 'attempt.started', 'chunk.received'],
      ...['exchange.completed', 'usage.recorded'],
    ]);
  });

  it('ends at the step that refuses it', async () => {
    const answer = await gateway.post('/v1/chat/completions', { model: 'unknown', messages: user('hi') });
    expect(answer.status).toBe(404);
    expect(await typesOf(answer)).toEqual(['request.received', 'request.refused']);
  });

  it('goes from the idempotency key to its delivery when the answer is on record', async () => {
    const keyed = { headers: { 'idempotency-key': 'traced' } };
    const body = { model, messages: user('hi') };
    await (await gateway.post('/v1/chat/completions', body, keyed)).text();
    const again = await gateway.post('/v1/chat/completions', body, keyed);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    expect(await typesOf(again)).toEqual(['request.received', 'answer.replayed', 'exchange.completed']);
  });
});

describe('docs/architecture.md', () => {
  const root = join(import.meta.dirname, '../../..');
  const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
  const rows = [...page.matchAll(/^\| \d+ \| `(\w+)` \| `([\w/-]+\.ts)` \|/gm)].map(([, name = '', file = '']) => ({
    name,
    file,
  }));

  const source = (file: string) => readFileSync(join(root, 'src/commands/exchange', file), 'utf8');

  it('names the steps in the order in which they are called', () => {
    const steps = source('pipeline/steps.ts');
    const called = steps.slice(steps.indexOf('export async function answerTo'));
    const places = rows.slice(0, -2).map(({ name }) => called.search(new RegExp(`\\b${name}(\\?\\.)?\\(`)));
    expect(places).not.toContain(-1);
    expect(places).toEqual(places.toSorted((one, other) => one - other));
    expect(rows.slice(-2).map(({ name }) => name)).toEqual(['deliver', 'complete']);
    expect(rows).toHaveLength(14);
  });

  it('names the file of each step', () => {
    for (const { name, file } of rows)
      expect(source(file), file).toMatch(new RegExp(`function ${name}\\(|${name}\\?\\.\\(`));
  });

  it('names only files that exist', () => {
    const named = [...page.matchAll(/`(src\/[\w/.-]+)`/g)].map(([, path = '']) => path);
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});
