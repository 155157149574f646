import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { logConfig } from '../../src/config/log-settings.ts';
import { engineAddress } from '../../src/config/mask.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { problemsFrom } from './load.ts';

const settings = { archive_backlog: 0, durability: 'standard' as const, lease: 10_000, tls: {} };

describe('the address of a log on an engine', () => {
  it('is split into address, user and password', () => {
    expect(engineAddress('kafka://us%40er:p%3A%2Fss@a:9092,b/topic?tls=true')).toEqual({
      url: 'kafka://a:9092,b/topic?tls=true',
      user: 'us@er',
      password: 'p:/ss',
    });
    expect(engineAddress('esdb+discover://cluster.example/log')).toEqual({
      url: 'esdb+discover://cluster.example/log',
    });
    expect(engineAddress('file:./data/log')).toBeUndefined();
  });

  it.each([
    'kafka:',
    'kafka://',
    'kafka://a b',
    'kafka://u:p:q@a',
    'kafka://%zz:p@a',
    'kafka://u:p%zz@a',
    'kafka://u:100%@a',
    'esdb://u:%ff@a',
    'esdb://a:b:c',
  ])('is refused when it is malformed: %s', (url) => {
    expect(engineAddress(url)).toBeUndefined();
  });
});

describe('the settings of the log', () => {
  it('name the replica in the data folder as the place where other code reads', () => {
    const config = logConfig({ ...settings, url: 'kafka://u:secret@a/t' }, '/data', '/');
    expect(config).toMatchObject({ url: 'kafka://a/t', readUrl: `file:${join('/data', 'log')}` });
    expect(config.engine).toMatchObject({ folder: join('/data', 'log'), user: 'u', password: 'secret' });
  });

  it('prefer user and password that are set apart from the address', () => {
    const config = logConfig({ ...settings, url: 'kafka://u:p@a/t', user: 'other', password: 'word' }, '/data', '/');
    expect(config.engine).toMatchObject({ user: 'other', password: 'word' });
  });

  it.each([
    [{ LOG_USER: 'other' }, 'log.user (LOG_USER): is not the user in LOG_URL; remove one of them'],
    [{ LOG_PASSWORD: 's3cr3t' }, 'log.password (LOG_PASSWORD): is not the password in LOG_URL; remove one of them'],
  ])('are refused when the address has another user or password: %j', (env, problem) => {
    expect(problemsFrom({ env: { LOG_URL: 'kafka://u:p@a/t', ...env } }).map(describeProblem)).toEqual([problem]);
    expect(problemsFrom({ env: { LOG_URL: 'kafka://u:p@a/t', LOG_USER: 'u', LOG_PASSWORD: 'p' } })).toEqual([]);
  });

  it('have a lease where other gateways can use the log: on an engine, or with several workers', () => {
    expect(logConfig({ ...settings, url: undefined }, '/data', '/').leaseMs).toBeUndefined();
    expect(logConfig({ ...settings, url: undefined }, '/data', '/', 2).leaseMs).toBe(10_000);
    expect(logConfig({ ...settings, url: 'kafka://a/t' }, '/data', '/').leaseMs).toBe(10_000);
  });

  it.each(['kafka://a/t', 'memory:'])(
    'are refused with several workers when the log is not in files: %s',
    (LOG_URL) => {
      const [problem] = problemsFrom({ env: { LOG_URL, GATEWAY_WORKERS: '2' } }).map(describeProblem);
      expect(problem).toContain('server.workers (GATEWAY_WORKERS): several workers need a log in files');
      expect(problemsFrom({ env: { LOG_URL: 'file:/elsewhere', GATEWAY_WORKERS: '2' } })).toEqual([]);
    },
  );

  it('leave a log in files and in memory as it is named', () => {
    expect(logConfig({ ...settings, url: undefined }, '/data', '/')).toMatchObject({
      url: 'file:/data/log',
      readUrl: 'file:/data/log',
      engine: undefined,
    });
    expect(logConfig({ ...settings, url: 'memory:' }, '/data', '/').readUrl).toBe('memory:');
  });
});
