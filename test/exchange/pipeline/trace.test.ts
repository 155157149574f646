/** The order in which real requests pass through the steps, and that docs/architecture.md has the same order. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { complete } from '../../../src/commands/exchange/pipeline/complete.ts';
import { deliver } from '../../../src/commands/exchange/pipeline/deliver.ts';
import { steps } from '../../../src/commands/exchange/pipeline/steps.ts';
import { user, withGateway } from '../../support/with-gateway.ts';

const gateway = withGateway(async () => ({ simulated: { words: 3 } }));

const every = [...steps.map(({ name }) => name), 'deliver', 'complete'];
const model = 'llamacpp/simulated-small';

/** Each step calls through: the request is a real one. */
function trace(): string[] {
  const seen: string[] = [];
  for (const step of [...steps, deliver, complete]) {
    const run = step.run as (...given: unknown[]) => unknown;
    vi.spyOn(step, 'run').mockImplementation(((...given: unknown[]) => {
      seen.push(step.name);
      return run.apply(step, given);
    }) as never);
  }
  return seen;
}

afterEach(() => vi.restoreAllMocks());

describe('a model request', () => {
  it.each([
    ['a chat completion', '/v1/chat/completions', { messages: user('hi') }],
    ['a chat stream', '/v1/chat/completions', { messages: user('hi'), stream: true }],
    ['a response', '/v1/responses', { input: 'hi' }],
    ['a response as a stream', '/v1/responses', { input: 'hi', stream: true }],
    ['a background response', '/v1/responses', { input: 'hi', background: true }],
    ['a message', '/v1/messages', { messages: user('hi'), max_tokens: 9 }],
    ['embeddings', '/v1/embeddings', { input: 'hi' }],
    ['a text completion', '/v1/completions', { prompt: 'hi' }],
  ])('%s passes through every step once, in the order of the list', async (_name, path, body) => {
    const seen = trace();
    const answer = await gateway.post(path, { model, ...body });
    expect(answer.status).toBe(200);
    await answer.text();
    await vi.waitFor(() => expect(seen.at(-1)).toBe('complete'));
    expect(seen).toEqual(every);
  });

  it('ends at the step that refuses it', async () => {
    const seen = trace();
    const answer = await gateway.post('/v1/chat/completions', { model: 'unknown', messages: user('hi') });
    expect(answer.status).toBe(404);
    expect(seen).toEqual(['receive', 'applyPlugins', 'claimKey', 'resolveRoute']);
  });

  it('goes from the idempotency key to its delivery when the answer is on record', async () => {
    const keyed = { headers: { 'idempotency-key': 'traced' } };
    const body = { model, messages: user('hi') };
    await (await gateway.post('/v1/chat/completions', body, keyed)).text();
    const seen = trace();
    const again = await gateway.post('/v1/chat/completions', body, keyed);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
    await again.text();
    expect(seen).toEqual(['receive', 'applyPlugins', 'claimKey', 'deliver', 'complete']);
  });
});

describe('docs/architecture.md', () => {
  const root = join(import.meta.dirname, '../../..');
  const page = readFileSync(join(root, 'docs/architecture.md'), 'utf8');
  const rows = [...page.matchAll(/^\| \d+ \| `(\w+)` \| `([\w/-]+\.ts)` \|/gm)].map(([, name = '', file = '']) => ({
    name,
    file,
  }));

  it('names the steps in the order of the list', () => {
    expect(rows.map(({ name }) => name)).toEqual(every);
  });

  it('names the file of each step', () => {
    for (const { name, file } of rows) {
      expect(readFileSync(join(root, 'src/commands/exchange', file), 'utf8'), file).toContain(`  name: '${name}',`);
    }
  });

  it('names only files that exist', () => {
    const named = [...page.matchAll(/`(src\/[\w/.-]+)`/g)].map(([, path = '']) => path);
    expect(named.length).toBeGreaterThan(20);
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});
