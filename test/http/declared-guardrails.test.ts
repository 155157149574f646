import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { errorOf, json, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

/** Finds nothing. */
const analyzer = createServer((request, response) => {
  request.resume().on('end', () => response.end('[]'));
});
beforeAll(async () => {
  analyzer.listen(0, '127.0.0.1');
  await once(analyzer, 'listening');
});
afterAll(() => {
  analyzer.close();
  analyzer.closeAllConnections();
});

const words = { name: 'words', type: 'string_replace', config: { rules: 'bad => good' }, phases: ['prompt', 'stream'] };
const declare = (...rules: object[]) => ({ PLUGINS_ENABLED: 'true', GUARDRAILS: JSON.stringify(rules) });

describe('a guardrail of the configuration', () => {
  const gateway = withGateway(async () => {
    const analyzer_url = `http://127.0.0.1:${(analyzer.address() as AddressInfo).port}`;
    const people = {
      name: 'people',
      type: 'presidio',
      config: { analyzer_url },
      user_path: 'team/',
      fail_mode: 'open',
    };
    return { env: declare(words, people) };
  });
  const admin = administrator(gateway);

  it('is listed as managed, with the defaults of its type', async () => {
    expect(await admin.get('/admin/guardrails')).toMatchObject([
      { name: 'people', managed: true, user_path: '/team', fail_mode: 'open', config: { language: 'en' } },
      { name: 'words', managed: true, fail_mode: 'closed', config: { rules: 'bad => good', mode: 'literal' } },
    ]);
    expect((await gateway.fetch('/admin/guardrails/words')).headers.get('etag')).toBeNull();
  });

  it('cannot be changed or deleted: 409', async () => {
    const put = await gateway.fetch('/admin/guardrails', { method: 'PUT', json: { name: 'words', type: 'pii' } });
    expect((await errorOf(put, 409)).message).toContain('words');
    const removed = await gateway.fetch('/admin/guardrails', { method: 'DELETE', json: { name: 'words' } });
    expect((await errorOf(removed, 409)).message).toContain('words');
    expect(await admin.get('/admin/guardrails/words')).toMatchObject({ type: 'string_replace' });
  });

  it('is a step of the default workflow, in its place of the list', async () => {
    const [global] = await admin.get('/admin/workflows');
    expect(global).toMatchObject({
      ...{ name: 'default-global', managed_default: true, scope_type: 'global' },
      workflow_payload: {
        features: { guardrails: true },
        steps: [
          { ref: 'words', phase: 'prompt', step: 0 },
          { ref: 'people', phase: 'prompt', step: 1 },
          { ref: 'words', phase: 'stream', step: 0 },
        ],
      },
    });
    expect(global.compile_error).toBeUndefined();
  });

  it('may call a server at a local address, and a draft of the same name may not', async () => {
    const test = async (guardrail: string | object) =>
      json(await gateway.post('/admin/guardrails/test', { guardrail, text: 'Ask Jane' }));
    expect(await test('people')).toMatchObject({ decision: 'allow', changed: false });
    const { config } = await admin.get('/admin/guardrails/people');
    expect(await test({ name: 'people', type: 'presidio', config })).toMatchObject({
      ...{ decision: 'failure', message: expect.stringContaining('its address is loopback') },
    });
  });
});

describe('the start', () => {
  it('follows the configuration: removed rules leave the default workflow', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-declared-'));
    try {
      const first = await startTestGateway({ dataDir, env: declare(words) });
      await first.close();
      const second = await startTestGateway({ dataDir, env: declare() });
      const [global] = await administrator(second).get('/admin/workflows');
      expect(global).toMatchObject({ version: 2, workflow_payload: { features: { guardrails: false }, steps: [] } });
      await second.close();
    } finally {
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });

  it.each<[string, object[]]>([
    ["'a' is invalid: there is no guardrail type 'none'", [{ name: 'a', type: 'none' }]],
    ["'words' is declared twice", [words, words]],
    ["'a' cannot run in the stream phase", [{ name: 'a', type: 'tag_replace', phases: ['stream'] }]],
    ['guardrails.rules.0', [{ name: 'a/b', type: 'pii' }]],
    [
      "'a' and 'b' both change texts in step 0 of the prompt phase",
      [
        { name: 'a', type: 'pii', step: 0 },
        { name: 'b', type: 'pii', step: 0 },
      ],
    ],
  ])('is refused with: %s', async (message, rules) => {
    await expect(startTestGateway({ env: declare(...rules) })).rejects.toThrow(message);
  });
});
