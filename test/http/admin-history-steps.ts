/** Steps for tests of administration and its history: keys, policies, and later reads. */
import { expect } from 'vitest';
import { wallClock } from '../../src/events/wall-clock.ts';
import type { Answered } from '../support/answered.ts';
import type { TestGateway } from '../support/gateway.ts';
import { errorOf, json } from '../support/with-gateway.ts';

export interface NewKey {
  readonly id: string;
  /** The key itself. */
  readonly value: string;
}

export function administrator(gateway: Pick<TestGateway, 'fetch'>) {
  const as = (key: string | undefined) => (key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } });
  return {
    /** The JSON of a GET that must succeed. */
    async get(path: string, key?: string): Promise<Answered> {
      const answer = await gateway.fetch(path, as(key));
      expect({ path, status: answer.status, text: answer.ok ? '' : await answer.text() }).toMatchObject({
        status: 200,
      });
      return json(answer);
    },
    async refused(path: string, status: number, key?: string) {
      return errorOf(await gateway.fetch(path, as(key)), status);
    },
    async newKey(body: object = {}): Promise<NewKey> {
      const answer = await gateway.fetch('/admin/auth-keys', { json: { name: 'a key', ...body } });
      expect(answer.status).toBe(201);
      return json(answer);
    },
    async change(method: 'PUT' | 'POST' | 'DELETE', path: string, body?: object, key?: string): Promise<Answered> {
      const answer = await gateway.fetch(path, { method, ...as(key), ...(body === undefined ? {} : { json: body }) });
      const text = await answer.text();
      expect({ path, status: answer.status, text: answer.ok ? '' : text }).toMatchObject({ text: '' });
      return text === '' ? undefined : JSON.parse(text);
    },
    /** The position of the newest change: an `as_of` that depends on no clock. */
    async newestChange(): Promise<string> {
      const { entries } = await this.get('/admin/history?limit=1');
      return entries[0].position;
    },
    /** Resolves when the clock has advanced by more than the times of events may differ from it (`wall-clock.ts`). */
    async aMomentLater(): Promise<string> {
      // Events have times of the log's clock, which follows a system clock that is set within a second. After it was set
      // back, changes count with the newest time before.
      const clocks = [Date.now, wallClock];
      const { entries } = await this.get('/admin/history?limit=200');
      const recorded = entries.map(({ at }: Answered) => Date.parse(at) + 1);
      const before = Math.max(...clocks.map((clock) => clock()), ...recorded);
      const now = () => Math.min(...clocks.map((clock) => clock()));
      const passed = async (moment: number) => {
        while (now() <= moment + 20) await new Promise((resolve) => setImmediate(resolve));
      };
      await passed(before);
      const moment = now();
      // What follows is later by either clock, too.
      await passed(moment);
      return new Date(moment).toISOString();
    },
  };
}
