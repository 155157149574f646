/** The example plugins as a user would use them: a gateway process that loads them, and HTTP. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { ask, killAll, root, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({});
const dataDir = join(folder.path, 'data');
let gateway: ServedGateway;

const examples = join(root, 'infra', 'plugins');
const plugins = [
  { path: join(examples, 'project-names.ts') },
  { path: join(examples, 'answer-notice') },
  {
    path: join(examples, 'team-labels.ts'),
    config: { teams: { '/acme': 'acme', '/acme/search': 'search' }, report_above: 1 },
  },
];

const features = { cache: false, audit: true, usage: true, guardrails: true };

async function admin(path: string, method: string, json: object): Promise<unknown> {
  const answer = await ask(gateway.url, path, { method, json });
  const text = await answer.text();
  expect([200, 201], text).toContain(answer.status);
  return JSON.parse(text);
}

beforeAll(async () => {
  const upstream = await provider.listen();
  gateway = await serve({
    dataDir,
    env: { LLAMACPP_BASE_URL: upstream, GUARDRAILS_ENABLED: 'true', PLUGINS: JSON.stringify(plugins) },
  });
  await admin('/admin/guardrails', 'PUT', {
    name: 'projects',
    type: 'project_names',
    config: { names: ['Falcon', 'Blue Heron'] },
  });
  await admin('/admin/guardrails', 'PUT', { name: 'notice', type: 'answer_notice', config: { notice: 'Made by AI.' } });
  await admin('/admin/workflows', 'POST', {
    scope_user_path: '/acme',
    name: 'acme',
    workflow_payload: {
      ...{ schema_version: 2, features },
      steps: [{ ref: 'projects' }, { ref: 'notice', phase: 'response' }, { ref: 'notice', phase: 'stream' }],
    },
  });
  await admin('/admin/model-pricing-overrides', 'PUT', {
    selector: 'llamacpp/simulated-small',
    pricing: { per_request: 2 },
  });
});

afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

function chat(content: string, userPath = '/acme', stream = false): Promise<Response> {
  return ask(gateway.url, '/v1/chat/completions', {
    json: { model: 'llamacpp/simulated-small', messages: [{ role: 'user', content }], stream },
    headers: { 'x-gateway-user-path': userPath },
  });
}

describe('infra/plugins', () => {
  it('are loaded', async () => {
    const rows: { name: string; health: string; error: string }[] = JSON.parse(
      await (await ask(gateway.url, '/admin/plugins')).text(),
    );
    for (const name of ['project_names', 'answer_notice', 'team_labels']) {
      expect(rows.find((row) => row.name === name)).toMatchObject({ health: 'ok', error: '' });
    }
  });

  it('project_names blocks a name as a word, in any case, and nothing else', async () => {
    const blocked = await chat('What is new in blue heron?');
    expect(blocked.status).toBe(400);
    expect(await blocked.text()).toContain('internal_project');
    expect((await chat('Falconry is a sport.')).status).toBe(200);
    expect((await chat('What is new in Falcon?', '/other')).status).toBe(200);
  });

  it('answer_notice ends answers and streams with the notice', async () => {
    const whole = await (await chat('hello')).text();
    const { choices, created } = JSON.parse(whole);
    expect(created).toEqual(expect.any(Number));
    expect(choices[0].message.content).toMatch(/\n\nMade by AI\.$/);
    const stream = await (await chat('hello', '/acme', true)).text();
    expect(stream).toContain('Made by AI.');
    expect(stream).toContain('[DONE]');
  });

  it('team_labels labels requests, also in usage, and reports expensive exchanges', async () => {
    const answer = await chat('hello', '/acme/search/ranking');
    expect(answer.status).toBe(200);
    const id = answer.headers.get('x-exchange-id');
    const events = (await eventsIn(dataDir)).filter(({ stream }) => stream === `exchange-${id}`);
    const labelled = events.filter(({ data }) => Reflect.get(Object(data), 'labels')?.includes('team:search'));
    expect(labelled.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['request.received', 'plugin.applied', 'usage.recorded']),
    );
    await expect.poll(() => gateway.process.stderr + gateway.process.stdout).toContain(`exchange ${id} cost $2.00`);
  });
});
