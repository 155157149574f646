/** The objects in the requests of the table: created by a key of a tenant, or by the master key. */
import { randomUUID } from 'node:crypto';
import { expect } from 'vitest';
import type { TestGateway } from '../../support/gateway.ts';
import { exchangeOf, json, user } from '../../support/with-gateway.ts';

export interface World {
  readonly gateway: Pick<TestGateway, 'fetch'>;
  /** Secrets of keys by the path that they are bound to. */
  readonly keyAt: ReadonlyMap<string, string>;
}

export type StoredObjectMaker = (world: World) => Promise<string>;

export const MODEL = 'llamacpp/simulated-small';
export const NATIVE = 'openai/simulated-small';
export const ECHO = 'openai-echo/scripted';

async function post(world: World, path: string, route: string, body: object): Promise<Response> {
  const init = body instanceof FormData ? { method: 'POST', body } : { json: body };
  const headers = { authorization: `Bearer ${world.keyAt.get(path)}` };
  const answer = await world.gateway.fetch(route, { ...init, headers });
  expect(answer.status, await answer.clone().text()).toBe(200);
  return answer;
}

const idOf = async (answer: Response): Promise<string> => (await json(answer)).id;

export const responseOf =
  (path: string, more: object = {}): StoredObjectMaker =>
  async (world) =>
    idOf(await post(world, path, '/v1/responses', { model: MODEL, input: 'hi', ...more }));

/** A response that does not end by itself. */
export const backgroundOf = (path: string) => responseOf(path, { model: NATIVE, background: true });

export const conversationOf =
  (path: string): StoredObjectMaker =>
  async (world) => {
    const items = [{ type: 'message', role: 'user', content: 'hi' }];
    return idOf(await post(world, path, '/v1/conversations', { items }));
  };

/** A conversation and its first item, as `{conversation}/items/{item}`. */
export const itemOf =
  (path: string): StoredObjectMaker =>
  async (world) => {
    const conversation = await conversationOf(path)(world);
    const { data } = await json(await world.gateway.fetch(`/v1/conversations/${conversation}/items`));
    return `${conversation}/items/${data[0].id}`;
  };

const line = {
  custom_id: 'a',
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'simulated-small', messages: user('hi') },
};

export function fileForm(): FormData {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('provider', 'openai');
  form.append('file', new Blob([`${JSON.stringify(line)}\n`]), 'in.jsonl');
  return form;
}

export const fileOf =
  (path: string): StoredObjectMaker =>
  async (world) =>
    idOf(await post(world, path, '/v1/files', fileForm()));

export const messageBatch = {
  requests: [{ custom_id: 'a', params: { model: NATIVE, max_tokens: 5, messages: user('hi') } }],
};

/** A batch that does not end by itself. */
export const messageBatchOf =
  (path: string): StoredObjectMaker =>
  async (world) =>
    idOf(await post(world, path, '/v1/messages/batches', messageBatch));

export const batchOf =
  (path: string): StoredObjectMaker =>
  async (world) =>
    idOf(
      await post(world, path, '/v1/batches', {
        input_file_id: await fileOf(path)(world),
        endpoint: '/v1/chat/completions',
        completion_window: '24h',
      }),
    );

/** A request to a model, which a provider answers and not the cache; the id of its exchange. */
export const exchangeBy =
  (path: string): StoredObjectMaker =>
  async (world) =>
    exchangeOf(await post(world, path, '/v1/chat/completions', { model: MODEL, messages: user(randomUUID()) }));

/** A key that is bound to the path, created by the master key. */
export const keyOf =
  (user_path: string): StoredObjectMaker =>
  async ({ gateway }) => {
    const answer = await gateway.fetch('/admin/auth-keys', { json: { name: 'named', user_path } });
    expect(answer.status).toBe(201);
    return idOf(answer);
  };

/** A setting of the master key; `id` is its name in lists. */
export const setting =
  (path: string, body: object, id = ''): StoredObjectMaker =>
  async ({ gateway }) => {
    const answer = await gateway.fetch(path, { method: 'PUT', json: body });
    expect(answer.status, await answer.clone().text()).toBe(200);
    return id;
  };

/** A workflow that turns nothing off. */
export const teamWorkflow = {
  scope_user_path: '/team',
  name: 'team',
  workflow_payload: { features: { cache: true, audit: true, usage: true, guardrails: false } },
};

export const newWorkflow: StoredObjectMaker = async ({ gateway }) => {
  const answer = await gateway.fetch('/admin/workflows', { json: teamWorkflow });
  expect(answer.status, await answer.clone().text()).toBe(201);
  return idOf(answer);
};

export const guardrail = (name: string) => ({ name, type: 'system_prompt', config: { content: 'Be kind.' } });

/** It is not connected to. */
export const mcpServer = (name: string) => ({ name, url: 'https://mcp.example.com/mcp', enabled: false });

/** A run over no requests. */
export const guardrailReplay = {
  workflow: {
    workflow_payload: {
      features: { cache: true, audit: true, usage: true, guardrails: true },
      steps: [{ ref: 'kind' }],
    },
  },
  guardrails: [guardrail('kind')],
  from: '2020-01-01',
  to: '2020-01-01',
};

/** Ends every run, so that the next one can start. */
export const noReplay: StoredObjectMaker = async ({ gateway }) => {
  for (const { id } of await json(await gateway.fetch('/admin/guardrails/replay'))) {
    expect((await gateway.fetch(`/admin/guardrails/replay/${id}`, { method: 'DELETE' })).status).toBe(200);
  }
  return '';
};

export const newReplay: StoredObjectMaker = async (world) => {
  await noReplay(world);
  const { gateway } = world;
  const answer = await gateway.fetch('/admin/guardrails/replay', { json: guardrailReplay });
  expect(answer.status, await answer.clone().text()).toBe(202);
  return idOf(answer);
};
