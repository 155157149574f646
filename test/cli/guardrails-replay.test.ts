import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { UsageError } from '../../src/cli/command.ts';
import { guardrailsReplay, guardrailsReplayAt } from '../../src/cli/guardrails-replay.ts';
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load-config.ts';
import { openLog } from '../../src/events/open-log.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { replayGuardrails } from '../../src/wiring/local-guardrail-replay.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { eventsOfExchange, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';
import { type Screen, screen, typed } from './screen.ts';

const rules = JSON.stringify([
  { name: 'declared', type: 'string_replace', config: { rules: 'plum => fig' }, phases: [] },
]);
const env = { GUARDRAILS_ENABLED: 'true', GUARDRAILS: rules };
const gateway = withGateway({ env });
const folder = mkdtempSync(join(tmpdir(), 'chancery-replay-'));
afterAll(() => rmSync(folder, { recursive: true }));

const model = 'llamacpp/simulated-small';
const features = { cache: true, audit: true, usage: true, guardrails: true };
const payload = (...refs: string[]) => ({
  workflow_payload: { features, steps: refs.map((ref, step) => ({ ref, step })) },
});
const noCherry = { name: 'no-cherry', type: 'string_replace', config: { rules: 'cherry', on_match: 'block' } };
const judge = { name: 'judge', type: 'llm_judge', config: { model } };

let cherry: string;
beforeAll(async () => {
  const ask = async (text: string) => {
    const answer = await gateway.post(
      '/v1/chat/completions',
      { model, messages: user(text) },
      { headers: { 'x-gateway-user-path': '/team' } },
    );
    expect(answer.status).toBe(200);
    await answer.text();
    await eventsOfExchange(gateway, exchangeOf(answer));
    return exchangeOf(answer);
  };
  cherry = await ask('a cherry');
  await ask('a plum');
  await ask('a pear');
});

function draftFile(draft: object): string {
  const file = join(folder, `${Math.random()}.json`);
  writeFileSync(file, JSON.stringify(draft));
  return file;
}

function config(): Config {
  const loaded = loadConfig({ flags: {}, env: { DATA_DIR: gateway.dataDir, ...env }, cwd: folder, providerTypes });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.config;
}

const parts = {
  cwd: folder,
  env: {},
  providerTypes: async () => providerTypes,
  replayGuardrails,
  masterKey: async () => MASTER_KEY,
};

/** Reads the log beside the running gateway. */
async function local(values: Record<string, string>, shown: Screen = screen(), on: string[] = []): Promise<number> {
  const log = await openLog(config().log.url, { readOnly: true });
  try {
    return await guardrailsReplay(typed({ values, on }), log, config(), parts, shown);
  } finally {
    await log.close();
  }
}

function remote(values: Record<string, string>, shown: Screen, url = gateway.url, on: string[] = []): Promise<number> {
  return guardrailsReplayAt(url, typed({ values, on }), parts, shown);
}

describe('chancery guardrails replay', () => {
  test('prints the figures of a run over the log of a running gateway', async () => {
    const shown = screen();
    const workflow = draftFile({ workflow: payload('no-cherry', 'declared'), guardrails: [noCherry] });
    expect(await local({ workflow, from: '2020-01-01', userPath: '/team' }, shown)).toBe(0);
    expect(shown.lines()).toEqual([
      '3 requests',
      expect.stringMatching(/^ {2}blocked +1$/),
      ...['failed', 'responded', 'warned'].map((name) => expect.stringMatching(`^  ${name} +0$`)),
      expect.stringMatching(/^ {2}changed +1$/),
      expect.stringMatching(/^ {2}passed +1$/),
      '',
      'Guardrails',
      expect.stringMatching(/^ {2}no-cherry \(prompt\) +3 runs, 1 block, .* ms on average/),
      expect.stringMatching(/^ {2}declared \(prompt\) +2 runs, 1 changed, /),
      '',
      'Examples',
      `  exchange-${cherry}  blocked: no-cherry, prompt, guardrail_blocked`,
      expect.stringMatching(/changed: declared, prompt$/),
      expect.stringMatching(/passed$/),
    ]);
  });

  test('takes the body of POST /admin/workflows, and guardrails of administrators', async () => {
    await gateway.fetch('/admin/guardrails', { method: 'PUT', json: { ...noCherry, name: 'stored' } });
    const shown = screen();
    const values = { workflow: draftFile({ name: 'n', ...payload('stored') }), from: '2020-01-01' };
    expect(await local(values, shown, ['json'])).toBe(0);
    expect(JSON.parse(shown.out())).toMatchObject({ requests: 3, verdicts: { blocked: 1, passed: 2 } });
  });

  test('does not run guardrails that call a model', async () => {
    const shown = screen();
    const workflow = draftFile({ workflow: payload('judge'), guardrails: [judge] });
    expect(await local({ workflow, from: '2020-01-01' }, shown)).toBe(0);
    expect(shown.out()).toContain('did not run: no sample was requested');
    expect(shown.out()).toMatch(/passed +3/);
  });

  test('names the member of the draft at fault, and exits with 1', async () => {
    const shown = screen();
    expect(await local({ workflow: draftFile(payload('missing')), from: '2020-01-01' }, shown)).toBe(1);
    expect(shown.err()).toContain("workflow.workflow_payload.steps: There is no guardrail 'missing'.");
    const other = screen();
    expect(await local({ workflow: draftFile({ steps: [] }), from: '2020-01-01' }, other)).toBe(1);
    expect(other.err()).toContain('workflow.');
  });

  test('prints the result so far when it is stopped, and exits with 1', async () => {
    const shown = screen();
    shown.stop();
    const workflow = draftFile({ workflow: payload('no-cherry'), guardrails: [noCherry] });
    expect(await local({ workflow, from: '2020-01-01' }, shown)).toBe(1);
    expect(shown.err()).toContain('stopped after 0 requests');
    expect(shown.out()).toContain('0 requests');
  });

  test.each([
    ['no draft', { from: '2020-01-01' }, /--workflow/],
    ['no file', { workflow: 'none.json', from: '2020-01-01' }, /none\.json/],
    ['no beginning', { workflow: 'x' }, /--from/],
    ['a sample without a gateway', { workflow: 'x', from: '2020-01-01', sample: '5' }, /--gateway/],
    ['a number that is none', { workflow: 'd.json', from: '2020-01-01', maxRequests: 'many' }, /--max-requests/],
  ])('refuses %s', async (_what, values, message) => {
    writeFileSync(join(folder, 'd.json'), '{}');
    const refused = local(values as Record<string, string>);
    await expect(refused).rejects.toThrow(UsageError);
    await expect(refused).rejects.toThrow(message);
  });
});

describe('chancery guardrails replay --gateway', () => {
  const workflow = draftFile({ workflow: payload('no-cherry', 'judge'), guardrails: [noCherry, judge] });

  test('lets the gateway run and record it, with a sample', async () => {
    const shown = screen();
    expect(
      await remote({ workflow, from: '2020-01-01', userPath: '/team', sample: '3' }, shown, gateway.url, ['json']),
    ).toBe(0);
    expect(JSON.parse(shown.out())).toMatchObject({
      requests: 3,
      // The judge's two answers are no verdicts, which block with the fail mode `closed`.
      verdicts: { blocked: 3 },
      sample: { state: 'evaluated', calls: 2 },
    });
    const [run] = await json(await gateway.fetch('/admin/guardrails/replay'));
    expect(run).toMatchObject({ status: 'completed', started_by: 'master' });
  });

  test('cancels the run on Ctrl-C', async () => {
    gateway.simulated.control.always({ hang: true });
    const called = gateway.simulated.nextRequest();
    const shown = screen();
    const code = remote({ workflow, from: '2020-01-01', userPath: '/team', sample: '3' }, shown);
    await called;
    shown.stop();
    expect(await code).toBe(1);
    expect(shown.err()).toContain('the run is cancelled');
    const [run] = await json(await gateway.fetch('/admin/guardrails/replay'));
    expect(run).toMatchObject({ status: 'cancelled' });
  });

  test('prints why the gateway refuses the draft, and when there is none', async () => {
    const refused = screen();
    expect(await remote({ workflow: draftFile(payload('missing')), from: '2020-01-01' }, refused)).toBe(1);
    expect(refused.err()).toContain("workflow.workflow_payload.steps: There is no guardrail 'missing'.");
    const nobody = screen();
    expect(await remote({ workflow, from: '2020-01-01' }, nobody, 'http://127.0.0.1:9')).toBe(1);
    expect(nobody.err()).toContain('http://127.0.0.1:9 does not answer');
    await expect(remote({ workflow, from: '2020-01-01' }, screen(), 'nowhere')).rejects.toThrow(/--gateway/);
  });
});
