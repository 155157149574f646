/** Guardrails that are late: what fails the request is what the guardrail is configured to change, not its type. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { errorOf, json, user, withGateway } from '../../support/with-gateway.ts';

/** An analyzer that accepts requests and never answers. */
const analyzer = createServer(() => {});
const gateway = withGateway({ env: { ...withGuardrails, ALLOW_PRIVATE_PROVIDERS: 'true' } });

let analyzer_url = '';
beforeAll(async () => {
  analyzer.listen(0, '127.0.0.1');
  await once(analyzer, 'listening');
  analyzer_url = `http://127.0.0.1:${(analyzer.address() as AddressInfo).port}`;
});
afterAll(() => {
  analyzer.closeAllConnections();
  analyzer.close();
});

const actions = ['anonymize', 'block', 'respond', 'warn'];
const chat = (userPath: string, stream = false) =>
  gateway.fetch('/v1/chat/completions', {
    json: { model: 'llamacpp/simulated-small', messages: user('hello'), stream },
    headers: { 'x-gateway-user-path': userPath },
  });

describe.each(['prompt', 'response', 'stream'] as const)('a hanging Presidio analyzer in the %s phase', (phase) => {
  it.each(actions)('with fail_mode open and the action %s', async (action) => {
    const name = `${phase}-${action}`;
    const limits = { fail_mode: 'open' as const, timeout_ms: 30 };
    await saveGuardrail(gateway, { name, type: 'presidio', config: { analyzer_url, action }, ...limits });
    await guard(gateway, `/${name}`, [{ ref: name, phase }]);
    const answer = await chat(`/${name}`, phase === 'stream');
    if (action === 'anonymize') expect((await errorOf(answer, 500)).code).toBe('plugin_failure');
    else expect(answer.status, await answer.text()).toBe(200);
  });

  it('with fail_mode closed fails the request for every action', async () => {
    const name = `${phase}-closed`;
    await saveGuardrail(gateway, {
      ...{ name, type: 'presidio', config: { analyzer_url, action: 'warn' }, timeout_ms: 30 },
    });
    await guard(gateway, `/${name}`, [{ ref: name, phase }]);
    expect((await errorOf(await chat(`/${name}`, phase === 'stream'), 500)).code).toBe('plugin_failure');
  });
});

describe('guardrails in one step of a workflow', () => {
  const save = (name: string, action: string) => saveGuardrail(gateway, { name, type: 'pii', config: { action } });
  const words = (name: string, on_match: string) =>
    saveGuardrail(gateway, { name, type: 'string_replace', config: { rules: 'hush => x', on_match } });
  const workflow = (userPath: string, refs: readonly string[]) =>
    gateway.fetch('/admin/workflows', {
      json: {
        ...{ scope_user_path: userPath, name: userPath },
        workflow_payload: {
          schema_version: 2,
          features: { cache: true, audit: true, usage: true, guardrails: true },
          steps: refs.map((ref) => ({ ref, phase: 'prompt', step: 0 })),
        },
      },
    });

  it('are allowed when at most one of them changes texts as it is configured, and all of them run', async () => {
    await save('data-block', 'block');
    await save('data-warn', 'warn');
    await words('words-block', 'block');
    await words('words-replace', 'replace');
    const made = await workflow('/one-step', ['data-block', 'data-warn', 'words-block', 'words-replace']);
    expect(made.status, await made.text()).toBe(201);
    const ask = (content: string) =>
      gateway.fetch('/v1/chat/completions', {
        json: { model: 'llamacpp/simulated-small', messages: user(content) },
        headers: { 'x-gateway-user-path': '/one-step' },
      });
    expect((await ask('hello')).status).toBe(200);
    expect((await errorOf(await ask('Write to jane@example.com'), 400)).code).toBe('guardrail_blocked');
    expect((await errorOf(await ask('hush'), 400)).code).toBe('guardrail_blocked');
  });

  it('are refused when two change texts, also when a change of a guardrail makes it so', async () => {
    await save('data-hide', 'anonymize');
    const refused = await workflow('/two-steps', ['words-replace', 'data-hide']);
    expect((await errorOf(refused, 400)).message).toContain('both change texts in step 0');
    const changed = await gateway.fetch('/admin/guardrails', {
      ...{ method: 'PUT', json: { name: 'words-block', type: 'string_replace', config: { rules: 'hush => x' } } },
    });
    expect(await errorOf(changed, 400)).toMatchObject({ code: 'guardrail_in_use' });
    const rows = await json(await gateway.fetch('/admin/guardrails'));
    expect(rows.find(({ name }: { name: string }) => name === 'words-block').config.on_match).toBe('block');
  });
});
