import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { instanceOf } from '../../infra/simulated-provider/schema-instance.ts';
import { countTokens, tokensOf } from '../../infra/simulated-provider/tokens.ts';
import { sentence } from '../../infra/simulated-provider/words.ts';

describe('the tokenizer', () => {
  it('loses nothing: the tokens of any text, joined, are the text', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => tokensOf(text).join('') === text));
  });

  it('counts what it cuts', () => {
    fc.assert(fc.property(fc.string({ unit: 'grapheme' }), (text) => countTokens(text) === tokensOf(text).length));
  });

  it('takes words and punctuation marks as tokens, each with the white space before it', () => {
    expect(tokensOf('Hello, wide  world!')).toEqual(['Hello', ',', ' wide', '  world', '!']);
  });
});

describe('a generated sentence', () => {
  it('has exactly the requested tokens, and is the same for the same seed', () => {
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 0, max: 200 }), (seed, length) => {
        expect(countTokens(sentence(seed, length))).toBe(length);
        expect(sentence(seed, length)).toBe(sentence(seed, length));
      }),
    );
  });
});

describe('an instance of a JSON schema', () => {
  const schemas = {
    'required members of every simple type': {
      type: 'object',
      properties: {
        name: { type: 'string', minLength: 3, maxLength: 12 },
        age: { type: 'integer', minimum: 18, maximum: 20 },
        ratio: { type: 'number', minimum: 0, maximum: 1 },
        step: { type: 'number', multipleOf: 5, exclusiveMinimum: 10 },
        member: { type: 'boolean' },
        nothing: { type: 'null' },
        unit: { type: 'string', enum: ['celsius', 'fahrenheit'] },
        kind: { const: 'person' },
      },
      required: ['name', 'age', 'ratio', 'step', 'member', 'nothing', 'unit', 'kind'],
      additionalProperties: false,
    },
    'lists with a least length': { type: 'array', items: { type: 'string' }, minItems: 3, maxItems: 4 },
    'a list of objects': {
      type: 'object',
      properties: {
        steps: {
          type: 'array',
          items: { type: 'object', properties: { explanation: { type: 'string' } }, required: ['explanation'] },
        },
      },
      required: ['steps'],
    },
    alternatives: {
      anyOf: [{ type: 'null' }, { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }],
    },
    'a nullable type': { type: ['string', 'null'] },
    'definitions that refer to themselves': {
      type: 'object',
      properties: { tree: { $ref: '#/$defs/node' } },
      required: ['tree'],
      $defs: {
        node: {
          type: 'object',
          properties: { value: { type: 'integer' }, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
          required: ['value', 'next'],
        },
      },
    },
    formats: {
      type: 'object',
      properties: {
        id: { type: 'string', format: 'uuid' },
        mail: { type: 'string', format: 'email' },
        on: { type: 'string', format: 'date' },
      },
      required: ['id', 'mail', 'on'],
    },
  } as const;

  for (const [name, schema] of Object.entries(schemas)) {
    it(`satisfies ${name}`, () => {
      for (let seed = 0; seed < 50; seed++) {
        const instance = instanceOf(structuredClone(schema) as never, { seed });
        const checked = z.fromJSONSchema(structuredClone(schema) as never).safeParse(instance);
        expect(checked.error?.issues, JSON.stringify(instance)).toBeUndefined();
      }
    });
  }

  it('puts the subject of the prompt into a member for a place', () => {
    const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
    expect(instanceOf(schema, { seed: 1, subject: 'Paris' })).toEqual({ city: 'Paris' });
  });
});
