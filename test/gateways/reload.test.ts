/** A reload with several gateways on one log: each reads its own files, after the one that was asked. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { configurationReloaded } from '../../src/events/catalogue/gateway.ts';
import { isA } from '../../src/projections/projection.ts';
import { type OneOfSeveral, withSeveral } from './several.ts';

const several = withSeveral({ delays: [0, 25] });

const write = ({ dataDir }: OneOfSeveral, level: string) =>
  writeFileSync(join(dataDir, 'chancery.yaml'), `logging: { level: ${level} }\n`);

function both(): [OneOfSeveral, OneOfSeveral] {
  const [one, other] = several.all;
  if (one === undefined || other === undefined) throw new Error('there are two gateways');
  return [one, other];
}

async function reloadsOf(one: OneOfSeveral) {
  return (await one.events())
    .filter((event) => isA(event, configurationReloaded))
    .map(({ stream, data }) => ({ stream, ...configurationReloaded.data.parse(data) }));
}

describe('POST /admin/runtime/reload at one of two gateways', () => {
  it('lets each read its own files, and each records its own difference', async () => {
    const [one, other] = both();
    write(one, 'warn');
    write(other, 'error');
    const answer = await one.fetch('/admin/runtime/reload', { method: 'POST' });
    expect(await answer.json()).toMatchObject({ changed: [{ setting: 'logging.level', after: 'warn' }] });
    await vi.waitUntil(async () => (await reloadsOf(one)).length === 2, { timeout: 10_000 });
    const [first, second] = await reloadsOf(one);
    expect([first?.origin, second?.origin]).toEqual(['request', 'gateway']);
    expect(second).toMatchObject({ changed: [{ setting: 'logging.level', after: 'error' }] });
    expect(first?.stream).not.toBe(second?.stream);
  }, 60_000);

  it('with a wrong file changes nothing anywhere', async () => {
    const [one, other] = both();
    const before = (await reloadsOf(one)).length;
    write(one, 'loud');
    write(other, 'info');
    expect((await one.fetch('/admin/runtime/reload', { method: 'POST' })).status).toBe(409);
    write(one, 'warn');
    const answer = await one.fetch('/admin/runtime/reload', { method: 'POST' });
    expect(await answer.json()).toEqual({ changed: [], needs_restart: [] });
    await vi.waitUntil(async () => (await reloadsOf(one)).length >= before + 2, { timeout: 10_000 });
    expect((await reloadsOf(one)).map(({ origin }) => origin).slice(before)).toEqual(['request', 'gateway']);
  }, 60_000);
});
