import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StreamChannel } from '../../src/commands/guardrails/guardrail-type.ts';
import type { GuardrailStep } from '../../src/commands/guardrails/phases/guardrail-step.ts';
import { mustCollect, StreamPhase } from '../../src/commands/guardrails/phases/stream-phase.ts';
import { Placeholders } from '../../src/commands/guardrails/placeholders.ts';
import { jsonLiterals } from '../../src/commands/guardrails/text/json-text.ts';
import { countOf } from '../support/seed.ts';
import { chunked, type PushedText, singleUnits, throughPieces } from './any-chunking.ts';
import { context, step } from './guardrail-context.ts';
import { cardNumbers } from './valid-numbers.ts';

const text: StreamChannel = { key: '0', kind: 'text', isJson: false };
const json: StreamChannel = { key: '1', kind: 'tool_arguments', isJson: true };

const placeholders = new Placeholders();
const hidden = [
  placeholders.placeholderOf('NAME', 'Jane "JD" Doe'),
  placeholders.placeholderOf('EMAIL', 'jane@example.com'),
];

const steps: readonly GuardrailStep[] = [
  step('string_replace', { rules: 'Falcon => project\nsecret => [x]', case_insensitive: true }, { step: 0 }),
  step('string_replace', { rules: '(\\d{2})-(\\d{2}) => $2/$1\n\\bfoo\\b => bar', mode: 'regex' }, { step: 1 }),
  step('pii', {}, { step: 2 }),
];

function opened(channel: StreamChannel, of = steps): PushedText {
  const phase = new StreamPhase(of, context({ placeholders }));
  return {
    push: (piece) => phase.push(channel, piece).text,
    end: () => phase.end(channel).text,
  };
}

const words = fc.oneof(
  cardNumbers,
  fc.constantFrom(
    'FALCON',
    'secret',
    'sec',
    'ret',
    '12-34',
    'foo',
    'joe@example.org',
    ...hidden,
    '<NAME_',
    '"',
    '\\',
    '\n',
    '😀',
    'é',
  ),
);
const texts = fc
  .array(fc.tuple(words, fc.constantFrom('', ' ', '. ')), { maxLength: 8 })
  .map((list) => list.flat().join(''));

describe('StreamPhase', () => {
  it('gives the guardrails applied to the whole text, however it is divided', () => {
    fc.assert(
      fc.property(chunked(texts), ({ whole, pieces }) => {
        const expected = throughPieces(opened(text), [whole]);
        expect(throughPieces(opened(text), pieces)).toBe(expected);
        expect(throughPieces(opened(text), singleUnits(whole))).toBe(expected);
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('rewrites the values of arguments and keeps them JSON, however the JSON text is divided', () => {
    const values = fc.oneof(texts, fc.integer(), fc.constant(4111111111111111), fc.boolean(), fc.constant(null));
    const escaped = fc.tuple(
      fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.oneof(values, fc.array(values, { maxLength: 3 }))),
      fc.boolean(),
    );
    const args = escaped.map(([value, isEscaped]) => {
      const written = JSON.stringify(value, null, isEscaped ? 1 : 0);
      return isEscaped
        ? written.replace(/[<>@é]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`)
        : written;
    });
    fc.assert(
      fc.property(chunked(args), ({ whole, pieces }) => {
        const rewritten = throughPieces(opened(json), pieces);
        const expected = jsonLiterals(whole).map((literal) => {
          const value = throughPieces(opened(text), [literal.text]);
          return literal.isString || value !== literal.text ? value : literal.text;
        });
        expect(() => JSON.parse(rewritten)).not.toThrow();
        expect(jsonLiterals(rewritten).map((literal) => literal.text)).toEqual(expected);
        expect(JSON.parse(throughPieces(opened(json), singleUnits(whole)))).toEqual(JSON.parse(rewritten));
      }),
      { numRuns: countOf(125, 500) },
    );
  });

  it('restores values within strings of arguments with their escapes', () => {
    const [name] = hidden;
    expect(throughPieces(opened(json, []), singleUnits(`{"to":"${name}"}`))).toBe('{"to":"Jane \\"JD\\" Doe"}');
  });

  it('keeps texts with different keys apart', () => {
    const phase = new StreamPhase(steps, context());
    const other = { ...text, key: '2' };
    const written = phase.push(text, 'sec').text;
    const writtenOther = phase.push(other, 'ret').text + phase.end(other).text;
    expect(written + phase.push(text, 'ret').text + phase.end(text).text).toBe('[x]');
    expect(writtenOther).toBe('ret');
  });

  it.each(['block', 'respond'])('stops before the match with %s', (action) => {
    const watch = step('string_replace', { rules: 'secret', on_match: action, respond_text: 'No.' });
    const phase = new StreamPhase([watch], context());
    expect(phase.push(text, 'the sec')).toEqual({ text: 'the ' });
    expect(phase.push(text, 'ret is')).toMatchObject({
      text: '',
      stop: { decidedBy: 'string_replace', decision: { action } },
    });
    expect(phase.push(text, ' out')).toEqual({ text: '' });
    expect(phase.end(text)).toEqual({ text: '' });
    expect(phase.runs()).toMatchObject([{ phase: 'stream', verdict: action, findings: { match: 1 } }]);
  });

  it('stops whatever the division is', () => {
    const watch = [
      step('pii', { action: 'block' }),
      step('string_replace', { rules: 'secret', on_match: 'block' }, { step: 1 }),
    ];
    fc.assert(
      fc.property(chunked(texts), ({ whole, pieces }) => {
        const stops = (given: readonly string[]) => {
          const phase = new StreamPhase(watch, context());
          const steps = [...given.map((piece) => phase.push(text, piece)), phase.end(text)];
          return steps.some(({ stop }) => stop !== undefined);
        };
        expect(stops(pieces)).toBe(stops([whole]));
      }),
    );
  });

  it('warns without retaining text', () => {
    const phase = new StreamPhase([step('string_replace', { rules: 'secret', on_match: 'warn' })], context());
    expect(phase.push(text, 'sec')).toEqual({ text: 'sec' });
    expect(phase.push(text, 'ret')).toEqual({ text: 'ret' });
    expect(phase.end(text)).toEqual({ text: '' });
    expect(phase.warnings).toEqual(['guardrail_warning']);
  });

  it('ends the stream when a guardrail fails, also with fail_mode open', () => {
    const guardrail = {
      openStream: () => ({
        push: () => {
          throw new Error('too much');
        },
        end: () => ({ text: '' }),
      }),
    };
    const failing = step('pii', {}, { name: 'failing', failMode: 'open', guardrail });
    const phase = new StreamPhase([failing], context());
    expect(phase.push(text, 'a')).toEqual({ text: '', stop: { failed: 'failing' } });
    expect(phase.runs()).toMatchObject([{ verdict: 'failure', error: 'too much', failMode: 'open' }]);
  });

  it('must collect when a guardrail reads whole answers only', () => {
    expect(mustCollect(steps)).toBe(false);
    expect(mustCollect([step('llm_judge', { model: 'm' })])).toBe(true);
    expect(mustCollect([step('presidio', { analyzer_url: 'http://localhost:5002' })])).toBe(true);
  });
});
