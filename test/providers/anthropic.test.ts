import { afterEach, describe, expect, test } from 'vitest';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { Provider, ProviderConfig } from '../../src/providers/provider.ts';
import { UpstreamError } from '../../src/providers/upstream-error.ts';
import { configured } from './configured.ts';
import { type Answer, json, startUpstream, type Upstream } from './upstream.ts';

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close()));
});

async function upstream(answer: Answer = (_request, response) => json(response, 200, { ok: true })): Promise<Upstream> {
  const started = await startUpstream(answer);
  closing.push(() => started.close());
  return started;
}

function anthropic(baseUrl: string, more: Partial<ProviderConfig> = {}): Provider {
  const created = createProvider(configured('anthropic', baseUrl, { apiKeys: ['sk-ant-secret'], ...more }));
  closing.push(() => created.close());
  return created;
}

const signal = new AbortController().signal;
const call = { dialect: 'messages', body: Buffer.from('{}'), stream: true, requestId: 'r1', signal } as const;

describe('Anthropic', () => {
  test('gets messages with its own key header and a version', async () => {
    const { origin, requests } = await upstream();
    await (await anthropic(origin).send(call)).body.bytes(1000);
    expect(requests[0]).toMatchObject({
      method: 'POST',
      path: '/v1/messages',
      headers: {
        'x-api-key': 'sk-ant-secret',
        'anthropic-version': '2023-06-01',
        'content-type': 'application/json',
        accept: 'text/event-stream',
      },
    });
    expect(requests[0]?.headers).not.toHaveProperty('authorization');
  });

  test("takes the client's own version, once, and its betas", async () => {
    const { origin, requests } = await upstream();
    const headers = { 'anthropic-version': '2099-01-01', 'anthropic-beta': 'a,b' };
    const provider = anthropic(origin);
    await (await provider.send({ ...call, headers })).body.bytes(1000);
    await (await provider.forward({ method: 'GET', path: '/v1/models', headers, requestId: 'r', signal })).body.bytes(
      1000,
    );
    await (
      await provider.forward({ method: 'GET', path: '/messages/batches?limit=1', headers: {}, requestId: 'r', signal })
    ).body.bytes(1000);
    expect(requests.map(({ headers: sent }) => sent['anthropic-version'])).toEqual([
      '2099-01-01',
      '2099-01-01',
      '2023-06-01',
    ]);
    expect(requests[0]?.headers['anthropic-beta']).toBe('a,b');
    expect(requests.map(({ path }) => path)).toEqual(['/v1/messages', '/v1/models', '/v1/messages/batches?limit=1']);
  });

  test('supports no other operation', () => {
    const provider = anthropic('http://localhost:1');
    expect(() => provider.send({ ...call, dialect: 'chat' })).toThrow('does not speak chat');
    expect(provider.capabilities).toMatchObject({
      chat: 'yes',
      responses: 'no',
      responseLifecycle: 'no',
      embeddings: 'no',
      passthrough: true,
    });
  });

  test('has its key redacted', () => {
    expect(anthropic('http://localhost:1').redact('invalid x-api-key: sk-ant-secret')).toBe(
      'invalid x-api-key: [redacted]',
    );
  });

  test('lists its models page by page, with their metadata', async () => {
    const { origin, requests } = await upstream(({ path }, response) => {
      const first = !path.includes('after_id');
      json(response, 200, {
        data: first
          ? [
              {
                type: 'model',
                id: 'claude-x',
                display_name: 'Claude X',
                created_at: '2026-02-04T00:00:00Z',
                max_input_tokens: 1_000_000,
                max_tokens: 128_000,
                capabilities: {
                  image_input: { supported: true },
                  thinking: { supported: true, types: {} },
                  batch: { supported: false },
                },
              },
            ]
          : [{ type: 'model', id: 'claude-y', created_at: 'unknown' }],
        has_more: first,
        first_id: 'claude-x',
        last_id: 'claude-x',
      });
    });
    expect(await anthropic(origin).listModels(signal)).toEqual([
      {
        id: 'claude-x',
        created: 1_770_163_200,
        ownedBy: 'anthropic',
        metadata: {
          display_name: 'Claude X',
          context_window: 1_000_000,
          max_output_tokens: 128_000,
          capabilities: { vision: true, thinking: true },
        },
      },
      { id: 'claude-y', created: 0, ownedBy: 'anthropic' },
    ]);
    expect(requests.map(({ path }) => path)).toEqual([
      '/v1/models?limit=1000',
      '/v1/models?limit=1000&after_id=claude-x',
    ]);
    expect(requests[0]?.headers).toMatchObject({ 'x-api-key': 'sk-ant-secret', 'anthropic-version': '2023-06-01' });
  });

  test('lists at most ten pages', async () => {
    const { origin, requests } = await upstream((_request, response) =>
      json(response, 200, { data: [{ id: 'x' }], has_more: true, last_id: 'x' }),
    );
    await anthropic(origin).listModels(signal);
    expect(requests).toHaveLength(10);
  });

  test('reports its own message when it cannot list', async () => {
    const { origin } = await upstream((_request, response) =>
      json(response, 401, { type: 'error', error: { type: 'authentication_error', message: 'invalid x-api-key' } }),
    );
    const failure = await anthropic(origin)
      .listModels(signal)
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(UpstreamError);
    expect(failure).toMatchObject({
      message: 'invalid x-api-key',
      facts: { status: 401, type: 'authentication_error' },
    });
  });

  test.each(['0', '-1', 'many', '1.5'])('takes no default limit of %s', (defaultMaxTokens) => {
    expect(() => anthropic('http://localhost:1', { options: { defaultMaxTokens } })).toThrow(
      /provider anthropic: the default limit on output tokens/,
    );
  });
});
