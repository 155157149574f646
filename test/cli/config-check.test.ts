/** `chancery config check` reports what `chancery serve` refuses before it contacts an engine. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { configCommand } from '../../src/cli/config-command.ts';
import { openLog } from '../../src/events/open-log.ts';
import { createEngine } from '../../src/events/open-replicated-log.ts';
import { screen, typed } from './screen.ts';

const CREDENTIALS_KEY = 'a key of at least thirty-two characters';

async function check(env: Record<string, string>, cwd = tmpdir()) {
  const shown = screen();
  const parts = { env, cwd, providerTypes: async () => ({}), guardrailSecrets: async () => ({}) };
  const code = await configCommand('check', typed(), parts, shown);
  return { code, out: shown.out(), err: shown.err() };
}

function opened(url: string): Promise<unknown> {
  return url.startsWith('file:') ? openLog(url, { readOnly: true }) : createEngine({ url });
}

describe('chancery config check', () => {
  it.each([
    ['kafka://h/a/b', 'the name of a topic'],
    ['kafka://h/t%zz', 'the name of a topic'],
    ['kafka://h/t?foo=bar', 'has an unknown setting; known are'],
    ['kafka://h/t?tls=xyz', 'the setting tls'],
    ['kafka://h/t?tls=true&tls=false', 'has a setting twice'],
    ['kafka://h:0/t', 'a port in the address is not from 1 to 65535'],
    ['kafka://h:99999/t', 'a port in the address is not from 1 to 65535'],
    ['esdb://h:0/t', 'a port in the address is not from 1 to 65535'],
    ['esdb://h:99999/t', 'a port in the address is not from 1 to 65535'],
    ['esdb://h/a/b', 'the name of a log'],
    ['esdb://h/t?tls=xyz', 'the setting tls'],
    ['esdb://h/t?foo=bar', 'has an unknown setting; known are'],
    ['file://u:pw@h/log', 'expected a folder of this machine'],
    ['file://h/log', 'expected a folder of this machine'],
  ])('refuses %s, as the start does', async (url, reason) => {
    const { code, out, err } = await check({ LOG_URL: url });
    expect([code, out]).toEqual([1, '']);
    expect(err).toMatch(/^chancery: log\.url \(LOG_URL\): /);
    expect(err).toContain(reason);
    await expect(opened(url)).rejects.toThrow();
  });

  it.each(['kafka://h', 'kafka://h:65535/t?tls=true', 'esdb+discover://h/t?tls=false&gossipTimeout=5', 'memory:'])(
    'accepts %s',
    async (url) => {
      expect(await check({ LOG_URL: url, CREDENTIALS_KEY })).toMatchObject({ code: 0, err: '' });
    },
  );

  it('refuses a log on an engine without the key that its gateways share, as the start does', async () => {
    const cwd = mkdtempSync(join(tmpdir(), 'chancery-check-'));
    onTestFinished(() => rmSync(cwd, { recursive: true }));
    const env = { LOG_URL: 'kafka://h/t', DATA_DIR: cwd };
    const missing = await check(env, cwd);
    expect(missing).toMatchObject({ code: 1, out: '' });
    expect(missing.err).toMatch(/^chancery: credentials\.key \(CREDENTIALS_KEY\): .*need the same key.*openssl rand/);
    writeFileSync(join(cwd, 'credentials.key'), 'created by a gateway with its log in files');
    expect((await check(env, cwd)).err).toContain(`the content of ${join(cwd, 'credentials.key')}`);
    expect(await check({ ...env, CREDENTIALS_KEY }, cwd)).toMatchObject({ code: 0 });
    expect(await check({ ...env, CREDENTIALS_KEY_FILE: 'key' }, cwd)).toMatchObject({ code: 0 });
  });

  it('refuses files of TLS that cannot be read or have no certificate', async () => {
    const cwd = mkdtempSync(join(tmpdir(), 'chancery-check-'));
    onTestFinished(() => rmSync(cwd, { recursive: true }));
    const env = { LOG_URL: 'kafka://h/t?tls=true', LOG_TLS_CA: 'ca.pem' };
    expect(await check(env, cwd)).toMatchObject({ code: 1, err: expect.stringMatching(/log\.tls: .*ENOENT.*ca\.pem/) });
    writeFileSync(join(cwd, 'ca.pem'), 'no PEM');
    const problem = 'chancery: log.tls: the file of LOG_TLS_CA has no certificate\n';
    expect(await check(env, cwd)).toEqual({ code: 1, out: '', err: problem });
  });
});
