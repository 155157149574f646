import { describe, expect, test } from 'vitest';
import { configFrom, problemsFrom, providersFrom, type Written } from './load.ts';

const timeoutsOf = (providerInput: Written, name: string) => providersFrom(providerInput).get(name)?.timeouts;
const OPENAI = { OPENAI_API_KEY: 'k' };
const LLAMACPP = { LLAMACPP_BASE_URL: 'http://a/v1' };
const GPU = { LLAMACPP_GPU_BASE_URL: 'http://b/v1' };
const HOUR = 3_600_000;

describe('the timeouts of a provider', () => {
  test('are the general ones, for a remote one', () => {
    expect(timeoutsOf({ env: OPENAI }, 'openai')).toEqual({
      headers: { ms: 600_000, setting: 'HTTP_RESPONSE_HEADER_TIMEOUT' },
      answer: { ms: 600_000, setting: 'HTTP_TIMEOUT' },
      idle: { ms: 300_000, setting: 'HTTP_STREAM_IDLE_TIMEOUT' },
    });
  });

  test('are an hour, for a local one, with settings of its own', () => {
    expect(timeoutsOf({ env: LLAMACPP }, 'llamacpp')).toEqual({
      headers: { ms: HOUR, setting: 'LLAMACPP_TIMEOUT' },
      answer: { ms: HOUR, setting: 'LLAMACPP_TIMEOUT' },
      idle: { ms: HOUR, setting: 'LLAMACPP_STREAM_IDLE_TIMEOUT' },
    });
    expect(timeoutsOf({ env: GPU }, 'llamacpp-gpu')?.idle.setting).toBe('LLAMACPP_GPU_STREAM_IDLE_TIMEOUT');
  });

  test('are the general ones where they are set, for a local one too', () => {
    const env = { ...LLAMACPP, HTTP_TIMEOUT: '20s', HTTP_STREAM_IDLE_TIMEOUT: '10s' };
    expect(timeoutsOf({ env }, 'llamacpp')).toEqual({
      headers: { ms: HOUR, setting: 'LLAMACPP_TIMEOUT' },
      answer: { ms: 20_000, setting: 'HTTP_TIMEOUT' },
      idle: { ms: 10_000, setting: 'HTTP_STREAM_IDLE_TIMEOUT' },
    });
    const yaml = 'http:\n  response_header_timeout: 30s\n';
    expect(timeoutsOf({ env: LLAMACPP, yaml }, 'llamacpp')?.headers.ms).toBe(30_000);
  });

  test('are its own before the general ones', () => {
    const env = {
      ...OPENAI,
      ...LLAMACPP,
      HTTP_TIMEOUT: '20s',
      OPENAI_TIMEOUT: '2m',
      LLAMACPP_STREAM_IDLE_TIMEOUT: '1h30m',
    };
    expect(timeoutsOf({ env }, 'openai')).toEqual({
      headers: { ms: 120_000, setting: 'OPENAI_TIMEOUT' },
      answer: { ms: 120_000, setting: 'OPENAI_TIMEOUT' },
      idle: { ms: 300_000, setting: 'HTTP_STREAM_IDLE_TIMEOUT' },
    });
    expect(timeoutsOf({ env }, 'llamacpp')?.idle).toEqual({
      ms: 5_400_000,
      setting: 'LLAMACPP_STREAM_IDLE_TIMEOUT',
    });
  });

  test('are those of its type, where an instance has none', () => {
    const env = { ...LLAMACPP, ...GPU, LLAMACPP_TIMEOUT: '5m', LLAMACPP_STREAM_IDLE_TIMEOUT: '6m' };
    const gpu = timeoutsOf({ env: { ...env, LLAMACPP_GPU_TIMEOUT: '7m' } }, 'llamacpp-gpu');
    expect([gpu?.answer, gpu?.idle]).toEqual([
      { ms: 420_000, setting: 'LLAMACPP_GPU_TIMEOUT' },
      { ms: 360_000, setting: 'LLAMACPP_STREAM_IDLE_TIMEOUT' },
    ]);
    const { LLAMACPP_BASE_URL: _, ...withoutOwn } = env;
    expect(timeoutsOf({ env: withoutOwn }, 'llamacpp-gpu')?.answer.ms).toBe(300_000);
    expect(providersFrom({ env: withoutOwn }).has('llamacpp')).toBe(false);
  });

  test('are in chancery.yaml too, under the name of the provider', () => {
    const yaml = [
      'providers:',
      '  big-box:',
      '    type: llamacpp',
      '    base_url: http://c/v1',
      '    timeout: 2h',
      '    stream_idle_timeout: 90s',
      '  other:',
      '    type: llamacpp',
      '    base_url: http://d/v1',
    ].join('\n');
    expect(timeoutsOf({ yaml }, 'big-box')).toEqual({
      headers: { ms: 2 * HOUR, setting: 'providers.big-box.timeout' },
      answer: { ms: 2 * HOUR, setting: 'providers.big-box.timeout' },
      idle: { ms: 90_000, setting: 'providers.big-box.stream_idle_timeout' },
    });
    expect(timeoutsOf({ yaml }, 'other')?.idle).toEqual({ ms: HOUR, setting: 'providers.other.stream_idle_timeout' });
    expect(timeoutsOf({ yaml, env: { LLAMACPP_TIMEOUT: '9s' } }, 'other')?.headers.ms).toBe(9000);
    expect(timeoutsOf({ yaml, env: { LLAMACPP_TIMEOUT: '9s' } }, 'big-box')?.headers.ms).toBe(2 * HOUR);
  });

  test('register no provider, and are ignored with a notice when there is no such provider', () => {
    const config = configFrom({ env: { OLLAMA_TIMEOUT: '5m', OPENAI_TIMEOUT: '1m', LLAMACPP_GPU_TIMEOUT: '1m' } });
    expect(config.providers).toEqual([]);
    expect(config.notices).toEqual(['LLAMACPP_GPU_TIMEOUT is ignored: there is no provider llamacpp-gpu']);
  });

  test.each(['0', 'soon', '-1s'])('refuse %s', (value) => {
    expect(problemsFrom({ env: { ...LLAMACPP, LLAMACPP_TIMEOUT: value } })).toMatchObject([
      { path: 'providers.llamacpp.timeout', variable: 'LLAMACPP_TIMEOUT' },
    ]);
  });

  test('have defaults by type, for providers that are set up at run time', () => {
    const { timeoutsByType } = configFrom({ env: { HTTP_TIMEOUT: '20s' } });
    expect(timeoutsByType.openai?.answer).toEqual({ ms: 20_000, setting: 'HTTP_TIMEOUT' });
    expect(timeoutsByType.llamacpp?.answer.ms).toBe(20_000);
    expect(timeoutsByType.llamacpp?.idle).toEqual({ ms: HOUR, setting: 'HTTP_STREAM_IDLE_TIMEOUT' });
  });
});
