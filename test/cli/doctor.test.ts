/** `chancery doctor`: what it finds on a machine, and its exit code. */

import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { doctor } from '../../src/cli/doctor.ts';
import type { Finding, ProgramParts } from '../../src/cli/program-parts.ts';
import { providerTypes } from '../../src/providers/types.ts';
import { examine } from '../../src/wiring/doctor.ts';
import { createAuthority, missingOpenssl } from '../support/certificates.ts';
import { startTestGateway } from '../support/gateway.ts';
import { screen, typed } from './screen.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'chancery-doctor-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function examined(env: Record<string, string>, cwd = folder(), ...switches: string[]) {
  const shown = screen();
  const parts = {
    env: { PORT: '0', ANALYTICS_SANDBOX: 'off', ...env },
    cwd,
    providerTypes: async () => providerTypes,
    examine,
  };
  const code = await doctor(typed({ on: ['json', ...switches] }), parts as unknown as ProgramParts, shown);
  const { findings } = JSON.parse(shown.out()) as { findings: Finding[] };
  return { code, findings, of: (check: string) => findings.filter((one) => one.check === check) };
}

describe('chancery doctor', () => {
  it('finds no problem in an empty folder, and leaves nothing there', async () => {
    const cwd = folder();
    const { code, findings } = await examined({}, cwd);
    expect([code, findings.filter(({ status }) => status === 'problem')]).toEqual([0, []]);
    expect(new Set(findings.map(({ check }) => check))).toEqual(
      new Set(['configuration', 'folder', 'disk', 'clock', 'port', 'analytics', 'sandbox', 'proxy', 'providers']),
    );
    expect(readdirSync(cwd)).toEqual([]);
  });

  it('prints a line for each finding, with advice', async () => {
    const shown = screen();
    const parts = { env: { PORT: '0' }, cwd: folder(), providerTypes: async () => providerTypes, examine };
    expect(await doctor(typed(), parts as unknown as ProgramParts, shown)).toBe(0);
    expect(shown.out()).toMatch(/^ok {7}configuration the settings are valid$/m);
    expect(shown.out()).toMatch(/^warning {2}providers {5}no provider is configured: set OPENAI_API_KEY/m);
  });

  it('has the problems of the settings', async () => {
    const { code, findings } = await examined({ LOG_LEVEL: 'loud' });
    expect(code).toBe(1);
    expect(findings).toMatchObject([
      { check: 'configuration', status: 'problem', message: expect.stringMatching(/^logging\.level/) },
    ]);
  });

  it.skipIf(process.getuid?.() === 0)('finds a folder that is not writable', async () => {
    const cwd = folder();
    mkdirSync(join(cwd, 'data'), { mode: 0o500 });
    const { code, of } = await examined({}, cwd);
    expect(code).toBe(1);
    expect(of('folder')).toMatchObject([{ status: 'problem', message: expect.stringContaining('is not writable') }]);
  });

  it('warns of a folder that every user can read, and of a clock behind the log', async () => {
    const cwd = folder();
    mkdirSync(join(cwd, 'data', 'log'), { recursive: true });
    chmodSync(join(cwd, 'data'), 0o755);
    const later = new Date(Date.now() + 3_600_000);
    utimesSync(join(cwd, 'data', 'log'), later, later);
    const { code, of } = await examined({}, cwd);
    expect(code).toBe(0);
    expect(of('folder')).toContainEqual(
      expect.objectContaining({ status: 'warning', advice: expect.stringContaining('chmod 700') }),
    );
    expect(of('clock')).toMatchObject([{ status: 'warning', message: expect.stringContaining('behind') }]);
  });

  it('distinguishes a gateway on the port from another program', async () => {
    const gateway = await startTestGateway();
    const other = createServer((_request, response) => response.end('hello')).listen(0, '127.0.0.1');
    onTestFinished(async () => {
      await gateway.close();
      other.close();
    });
    const there = await examined({ PORT: new URL(gateway.url).port });
    expect(there.of('port')).toMatchObject([{ status: 'ok', message: expect.stringContaining('a gateway runs on') }]);
    const taken = await examined({ PORT: String((other.address() as AddressInfo).port) });
    expect(taken.code).toBe(1);
    expect(taken.of('port')).toMatchObject([
      { status: 'problem', message: expect.stringContaining('another program') },
    ]);
  });

  it('calls each provider once with --call only, and hides its key', async () => {
    const provider = createSimulatedProvider({ models: ['a', 'b'] });
    const url = await provider.listen();
    onTestFinished(() => provider.close());
    const env = {
      LLAMACPP_BASE_URL: url,
      OPENAI_BASE_URL: 'http://127.0.0.1:1/v1',
      OPENAI_API_KEY: 'sk-secret-key-0123456789',
    };
    const without = await examined(env);
    expect(without.of('providers')).toMatchObject([{ status: 'ok', message: expect.stringContaining('--call') }]);
    expect(provider.requests).toEqual([]);
    const called = await examined(env, folder(), 'call');
    expect(called.code).toBe(1);
    expect(called.of('providers').map(({ status, message }) => [status, message.split(' ')[0]])).toEqual(
      expect.arrayContaining([
        ['ok', 'llamacpp'],
        ['problem', 'openai'],
      ]),
    );
    expect(JSON.stringify(called.findings)).not.toContain('sk-secret');
  });

  it('checks proxies, and hides their passwords', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const env = {
      HTTPS_PROXY: `http://user:pass-word@127.0.0.1:${port}`,
      http_proxy: 'user:pass-word@127.0.0.1:1',
      LLAMACPP_BASE_URL: 'http://127.0.0.1:1/v1',
      LLAMACPP_PROXY_URL: `socks5h://user:pass-word@127.0.0.1:${port}`,
    };
    const { code, of } = await examined(env);
    expect(code).toBe(0);
    expect(of('proxy').map(({ status }) => status)).toEqual(['ok', 'warning', 'ok']);
    expect(JSON.stringify(of('proxy'))).not.toContain('pass-word');
    const wrong = await examined({ ALL_PROXY: 'http://user:pass-word@' });
    expect(wrong.code).toBe(1);
    expect(wrong.of('configuration')).toMatchObject([
      { status: 'problem', message: expect.stringContaining('ALL_PROXY') },
    ]);
    expect(JSON.stringify(wrong.findings)).not.toContain('pass-word');
  });

  it('warns of a ClickHouse server that does not answer', async () => {
    const { code, of } = await examined({ CLICKHOUSE_URL: 'http://u:pass-word@127.0.0.1:1' });
    expect(code).toBe(0);
    expect(of('analytics')).toMatchObject([{ status: 'warning', message: expect.stringContaining('does not answer') }]);
    expect(JSON.stringify(of('analytics'))).not.toContain('pass-word');
  });

  it.skipIf(missingOpenssl() !== undefined)('has the dates of certificates', async () => {
    const cwd = folder();
    const { ca, remove } = createAuthority();
    onTestFinished(remove);
    writeFileSync(join(cwd, 'broken.pem'), 'no certificate');
    const env = {
      LOG_TLS_CA: ca.certFile,
      LOG_TLS_CERT: 'broken.pem',
      LOG_TLS_KEY: 'k',
      LOG_URL: 'esdb://h/t',
      CREDENTIALS_KEY: 'k'.repeat(32),
    };
    const { code, of } = await examined(env, cwd);
    expect(code).toBe(1);
    expect(of('certificates')).toMatchObject([
      { status: 'warning', message: expect.stringMatching(/^log\.tls\.ca: CN=authority expires in \d+ days$/) },
      { status: 'problem', message: expect.stringContaining('has no certificate') },
    ]);
  });
});
