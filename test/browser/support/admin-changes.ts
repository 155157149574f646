/** Changes through the admin API, and what they left, beside the pages under test. */
import { expect } from 'vitest';
import { ask } from '../../e2e/gateway-process.ts';
import type { Answered } from '../../support/answered.ts';

export interface AdminChanges {
  read(path: string): Promise<Answered>;
  /** @param key of the administrator; default: the master key */
  change(method: 'PUT' | 'POST' | 'DELETE', path: string, json?: object, key?: string): Promise<Answered>;
  /** @returns the key with its secret in `value` */
  newKey(given: { readonly name: string } & Readonly<Record<string, unknown>>): Promise<Answered>;
  /** The status of a request with a key. */
  statusWith(secret: string): Promise<number>;
}

/** @param gateway whose address is known when the tests run */
export function adminChanges(gateway: { readonly url: string }): AdminChanges {
  const read = async (path: string): Promise<Answered> => (await ask(gateway.url, path)).json();
  async function change(method: string, path: string, json?: object, key?: string): Promise<Answered> {
    const answer = await ask(gateway.url, path, {
      method,
      ...(json === undefined ? {} : { json }),
      ...(key === undefined ? {} : { key }),
    });
    const text = await answer.text();
    expect(answer.ok, `${method} ${path}: ${text}`).toBe(true);
    return text === '' ? undefined : JSON.parse(text);
  }
  return {
    read,
    change,
    newKey: (given) => change('POST', '/admin/auth-keys', given),
    statusWith: async (secret) => (await ask(gateway.url, '/v1/models', { key: secret })).status,
  };
}
