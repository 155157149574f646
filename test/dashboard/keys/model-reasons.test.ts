import { describe, expect, it } from 'vitest';
import { matchingSelector, modelReason } from '../../../dashboard/src/pages/keys/model-reasons.ts';

const model = { provider: 'openai', model: 'gpt-5-mini' };
const lists = (given: Readonly<Record<string, readonly string[]>>) => ({ listOf: (path: string) => given[path] });

describe('the entry of a list that has a model', () => {
  it.each([
    [['/'], '/'],
    [['groq/', 'openai/'], 'openai/'],
    [['gpt-5-mini'], 'gpt-5-mini'],
    [['openai/gpt-5-mini'], 'openai/gpt-5-mini'],
    [['openai/gpt-5', 'openai', 'groq/gpt-5-mini'], undefined],
  ])('of %j is %s', (list, entry) => {
    expect(matchingSelector(list, model)).toBe(entry);
  });
});

describe('the reason why a path may use a model', () => {
  const reason = (
    path: string,
    given: Readonly<Record<string, readonly string[]>>,
    above: string[],
    allowed: boolean,
  ) => modelReason(path, model, lists(given), above, allowed).reason;

  it('is that no list restricts it', () => {
    expect(reason('/team', {}, [], true)).toBe('no list restricts it');
    expect(reason('/team', { '/team': [] }, [], true)).toBe('no list restricts it');
  });

  it('names the own list and those above, with their entries', () => {
    const given = { '/': ['openai/'], '/team': ['gpt-5-mini'] };
    expect(reason('/team', given, ['/'], true)).toBe('in the list of / (openai/) and in its own list (gpt-5-mini)');
    expect(reason('/team/alpha', given, ['/', '/team'], true)).toBe(
      'in the list of / (openai/) and in the list of /team (gpt-5-mini)',
    );
  });

  it('names the first list that narrows it', () => {
    const given = { '/': ['openai/'], '/team': ['groq/'], '/team/alpha': ['groq/'] };
    expect(reason('/team/alpha', given, ['/', '/team'], false)).toBe('not in the list of /team');
    expect(reason('/team', given, ['/'], false)).toBe('not in its own list');
  });

  it('says what an administrator of a subtree cannot see', () => {
    expect(reason('/team', { '/team': ['openai/'] }, ['/'], false)).toBe('excluded above your subtree');
    expect(reason('/team', {}, ['/'], true)).toBe('in the list of /');
  });

  it('is a policy of the model when every list has it', () => {
    expect(reason('/team', { '/team': ['openai/'] }, [], false)).toBe('excluded by a policy of the model');
  });
});
