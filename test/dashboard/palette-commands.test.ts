import { describe, expect, it } from 'vitest';
import { type Command, canBeId, inGroups, matching } from '../../dashboard/src/app/palette-commands.ts';

const command = (group: string, title: string, words = ''): Command => ({
  id: title,
  group,
  title,
  words,
  run: () => {},
});
const commands = [
  command('Pages', 'Overview'),
  command('Settings', 'Theme: Dark', 'colours'),
  command('Pages', 'Usage'),
];

describe('matching', () => {
  it('returns the commands that contain every word, in any order and case', () => {
    const titles = (text: string) => matching(commands, text).map(({ title }) => title);
    expect(titles('')).toEqual(['Overview', 'Theme: Dark', 'Usage']);
    expect(titles('dark COLOURS')).toEqual(['Theme: Dark']);
    expect(titles('us')).toEqual(['Theme: Dark', 'Usage'].filter((title) => title.toLowerCase().includes('us')));
    expect(titles('usage dark')).toEqual([]);
  });
});

describe('inGroups', () => {
  it('keeps the order of the first command of each group', () => {
    expect(inGroups(commands).map(({ group, commands: list }) => [group, list.length])).toEqual([
      ['Pages', 2],
      ['Settings', 1],
    ]);
  });
});

describe('canBeId', () => {
  it.each(['0190f3c2-1111-7abc-8def-000000000001', 'resp_68af', 'chatcmpl-9abc', 'key_12ab34', 'session/2024-01'])(
    'accepts %s',
    (id) => {
      expect(canBeId(id)).toBe(true);
    },
  );

  it.each(['', 'usage', 'a b-c-d-e', 'time zone: utc', 'x'.repeat(201)])('refuses %j', (text) => {
    expect(canBeId(text)).toBe(false);
  });
});
