import { describe, expect, it } from 'vitest';
import { matchingTokens, UnchangedTokens } from '../../src/commands/guardrails/events/guarded-events.ts';

const entry = (token: string) => ({ token, logprob: -1 });

describe('log probabilities of a streamed text', () => {
  it('wait for the text that they belong to, and end at its first change', () => {
    const tokens = new UnchangedTokens();
    tokens.given('one', [entry('one')]);
    tokens.written('');
    expect(tokens.take()).toEqual([]);
    tokens.given(' two', [entry(' two')]);
    tokens.written('one t');
    expect(tokens.take()).toEqual([entry('one')]);
    tokens.given(' secret', [entry(' secret')]);
    tokens.written('wo ');
    expect(tokens.take()).toEqual([entry(' two')]);
    tokens.written('[x]');
    tokens.given(' three', [entry(' three')]);
    tokens.written(' three');
    expect(tokens.take()).toEqual([]);
  });

  it('are kept only when their tokens are the text', () => {
    expect(matchingTokens('one two', [entry('one'), entry(' two')])).toHaveLength(2);
    expect(matchingTokens('one', [entry('secret')])).toEqual([]);
    expect(matchingTokens('', [entry('')])).toEqual([]);
    const halves = [240, 159, 152, 128].map((byte) => ({ token: `\\x${byte.toString(16)}`, bytes: [byte] }));
    expect(matchingTokens('😀', halves)).toHaveLength(4);
    expect(matchingTokens('a', halves)).toEqual([]);
  });
});
