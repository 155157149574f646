import { describe, expect, it } from 'vitest';
import { parseOptions } from '../../bench/options.ts';

describe('the command line of the benchmark', () => {
  it('runs everything by default', () => {
    const options = parseOptions([]);
    expect(['chat-json', 'inside', 'log'].every((part) => options.wants(part))).toBe(true);
    expect(options.isPartial).toBe(false);
    expect(options.rounds).toBe(5);
  });

  it('takes parts, servers, connections and other checkouts', () => {
    const options = parseOptions(
      '--only chat-json,log --servers bare,gateway --connections 1,50 --gateway before=/tmp/x --no-awake'.split(' '),
    );
    expect([options.wants('chat-json'), options.wants('log'), options.wants('chat-sse')]).toEqual([true, true, false]);
    expect(options.servers).toEqual(['bare', 'gateway']);
    expect(options.connections).toEqual([1, 50]);
    expect([...options.trees]).toEqual([['before', '/tmp/x']]);
    expect(options.awake).toBe(false);
  });

  it('measures parts of a whole run again, as carefully', () => {
    const options = parseOptions(['--only', 'chat-json', '--again', 'run.json']);
    expect([options.again, options.isQuiet]).toEqual(['run.json', true]);
    expect(parseOptions(['--only', 'chat-json']).isQuiet).toBe(false);
  });

  it('takes settings, several for one name', () => {
    const options = parseOptions([
      '--setting',
      'a=LOG_DURABILITY=strict',
      '--setting',
      'a=URL=x=y',
      '--setting',
      'b=C=',
    ]);
    expect([...options.trees.keys()]).toEqual(['a', 'b']);
    expect([...options.settings]).toEqual([
      ['a', { LOG_DURABILITY: 'strict', URL: 'x=y' }],
      ['b', { C: '' }],
    ]);
  });

  it.each([
    ['--only', 'chat-json'],
    ['--servers', 'bare'],
    ['--connections', '50'],
    ['--gateway', 'before=/tmp/x'],
    ['--setting', 'strict=LOG_DURABILITY=strict'],
    ['--rounds', '4'],
  ])('calls a run with %s %s less than the whole', (option, value) => {
    expect(parseOptions([option, value]).isPartial).toBe(true);
  });
});
