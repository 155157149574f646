/** Managed keys for tests: made through the admin API, and used. */
import { expect } from 'vitest';
import type { Answered } from './answered.ts';
import type { TestGateway } from './gateway.ts';
import { json } from './with-gateway.ts';

export interface ManagedKey {
  readonly id: string;
  readonly value: string;
  /** The admin API's answer when it was made. */
  readonly created: Answered;
  /** `fetch` with this key; `json` makes it a POST unless `method` says otherwise. */
  fetch(path: string, init?: RequestInit & { json?: unknown }): Promise<Response>;
}

type Gateway = Pick<TestGateway, 'fetch'>;

/** @param by its maker; the master key when not given */
export async function newKey(gateway: Gateway, body: object = {}, by: Gateway = gateway): Promise<ManagedKey> {
  const answer = await by.fetch('/admin/auth-keys', { json: { name: 'a key', ...body } });
  const text = await answer.clone().text();
  expect({ status: answer.status, text }).toMatchObject({ status: 201 });
  return withKey(gateway, await json(answer));
}

/** @param created an answer that shows the key */
export function withKey(gateway: Gateway, created: Answered): ManagedKey {
  const { id, value } = created;
  return {
    id,
    value,
    created,
    fetch(path, init = {}) {
      const headers = new Headers(init.headers);
      headers.set('authorization', `Bearer ${value}`);
      return gateway.fetch(path, { ...init, headers });
    },
  };
}

/** A body of JSON with another method than POST. */
export function put(body: unknown, headers: Record<string, string> = {}): RequestInit & { json: unknown } {
  return { method: 'PUT', json: body, headers };
}

/** Sets which models a user path may use. */
export async function setPolicy(gateway: Gateway, path: string, allowedModels: readonly string[]): Promise<void> {
  const answer = await gateway.fetch('/admin/users', put({ user_path: path, allowed_models: allowedModels }));
  expect(answer.status, await answer.clone().text()).toBe(200);
}
