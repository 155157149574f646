import Fastify from 'fastify';
import { describe, expect, it } from 'vitest';
import { sendRows } from '../../src/http/paging.ts';

function* many(count: number) {
  for (let n = 0; n < count; n++) yield { n, text: `row ${n} "ü" \n` };
}

function serving(count: number, around?: string[]) {
  const app = Fastify();
  app.get('/rows', (_request, reply) => sendRows(reply, many(count), around));
  return app;
}

describe('a list that is sent in pieces', () => {
  it.each([0, 1, 2, 20_000])('of %i rows is one JSON array', async (count) => {
    const answer = await serving(count).inject('/rows');
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(answer.json()).toEqual([...many(count)]);
  });

  it('can be a member of an object', async () => {
    const answer = await serving(3, ['{"rows":', '}']).inject('/rows');
    expect(answer.json()).toEqual({ rows: [...many(3)] });
  });

  it('sends rows as they are read, and yields to other requests meanwhile', async () => {
    let taken = 0;
    function* rows() {
      for (; taken < 50_000; taken++) yield { taken, text: 'x'.repeat(100) };
    }
    const app = Fastify();
    app.get('/rows', (_request, reply) => sendRows(reply, rows()));
    app.get('/quick', () => taken);
    const [long, quick] = await Promise.all([app.inject('/rows'), app.inject('/quick')]);
    expect(Number(quick.body)).toBeLessThan(50_000);
    expect(long.json()).toHaveLength(50_000);
  });

  it('answers HEAD with the headers alone', async () => {
    const answer = await serving(20_000).inject({ method: 'HEAD', url: '/rows' });
    expect(answer.statusCode).toBe(200);
    expect(answer.body).toBe('');
  });
});
