/** The one parser of paging parameters: accepted forms and refusals, value by value. */
import { describe, expect, it } from 'vitest';
import { Refusal } from '../../src/commands/refusal.ts';
import { numberParameter } from '../../src/http/api/parameters.ts';
import {
  auditCursorIn,
  auditCursorText,
  entryPositionIn,
  limitIn,
  logPosition,
  offsetPageIn,
  openAiLimitIn,
  openAiPageIn,
  startingAfterIn,
} from '../../src/http/paging.ts';

const invalid = 'invalid_value';
const type = 'invalid_type';
const above = 'integer_above_max_value';
const below = 'integer_below_min_value';

/** The value, or the code of a refusal (400) that names the parameter. */
function outcome<Value>(param: string, parse: () => Value): Value | string {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof Refusal) || error.status !== 400) throw error;
    expect(error.param).toBe(param);
    expect(error.message).toContain(`'${param}'`);
    return String(error.code);
  }
}

type Given = string | readonly string[] | undefined;

describe('limit', () => {
  /** The input; read as by most lists, capped, without a default, and in OpenAI's form. From 1 to 100. */
  const table: readonly (readonly [
    Given,
    number | string,
    number | string,
    number | string | undefined,
    number | string,
  ])[] = [
    [undefined, 20, 20, undefined, 20],
    ['', 20, 20, undefined, 20],
    [['3', ''], 20, 20, undefined, 20],
    ['1', 1, 1, 1, 1],
    ['100', 100, 100, 100, 100],
    ['007', 7, 7, 7, 7],
    [['x', '5'], 5, 5, 5, 5],
    [['5', 'x'], invalid, invalid, invalid, type],
    ['0', invalid, invalid, invalid, below],
    ['101', invalid, 100, invalid, above],
    ['9007199254740991', invalid, 100, invalid, above],
    ['9007199254740993', invalid, invalid, invalid, type],
    ['9'.repeat(400), invalid, invalid, invalid, type],
    ['+5', invalid, invalid, invalid, 5],
    ['-0', invalid, invalid, invalid, below],
    ['-1', invalid, invalid, invalid, below],
    ['1.5', invalid, invalid, invalid, type],
    ['5.0', invalid, invalid, invalid, type],
    ['1e1', invalid, invalid, invalid, type],
    ['1e3', invalid, invalid, invalid, type],
    ['0x10', invalid, invalid, invalid, type],
    ['1_0', invalid, invalid, invalid, type],
    ['1,0', invalid, invalid, invalid, type],
    [' ', invalid, invalid, invalid, type],
    [' 5', invalid, invalid, invalid, type],
    ['5 ', invalid, invalid, invalid, type],
    ['5\n', invalid, invalid, invalid, type],
    ['5\0', invalid, invalid, invalid, type],
    ['٥', invalid, invalid, invalid, type],
    ['５', invalid, invalid, invalid, type],
    ['NaN', invalid, invalid, invalid, type],
    ['Infinity', invalid, invalid, invalid, type],
    ['null', invalid, invalid, invalid, type],
    ['ten', invalid, invalid, invalid, type],
  ];

  it.each(table)('%j is %j, cut %j, optional %j, for OpenAI %j', (limit, usual, cut, optional, openAi) => {
    const query = { limit };
    const sizes = { usual: 20, most: 100 };
    expect(outcome('limit', () => limitIn(query, sizes))).toBe(usual);
    expect(outcome('limit', () => limitIn(query, { ...sizes, capped: true }))).toBe(cut);
    expect(outcome('limit', () => numberParameter({ least: 1, most: 100 }, '').read(query, 'limit'))).toBe(optional);
    expect(outcome('limit', () => openAiLimitIn(query, sizes))).toBe(openAi);
  });
});

describe('offset', () => {
  it.each<[Given, number | string]>([
    [undefined, 0],
    ['', 0],
    ['0', 0],
    ['3', 3],
    ['10000000', 10_000_000],
    [['x', '3'], 3],
    ['10000001', invalid],
    ['9'.repeat(400), invalid],
    ['-1', invalid],
    ['+1', invalid],
    ['1e3', invalid],
    ['1.5', invalid],
    [' 1', invalid],
    ['1\0', invalid],
    ['١', invalid],
    ['x', invalid],
  ])('%j is %j', (offset, expected) => {
    const read = () => offsetPageIn({ offset }, { usual: 20, most: 100 }).offset;
    expect(outcome('offset', read)).toBe(expected);
  });
});

describe('order and after of lists in OpenAI’s form', () => {
  it.each<[Given, string]>([
    [undefined, 'desc'],
    ['', 'desc'],
    ['asc', 'asc'],
    ['desc', 'desc'],
    [['desc', 'asc'], 'asc'],
    ['ASC', invalid],
    [' asc', invalid],
    ['asc\0', invalid],
    ['1', invalid],
    ['__proto__', invalid],
  ])('order %j is %j', (order, expected) => {
    expect(outcome('order', () => openAiPageIn({ order }).order)).toBe(expected);
  });

  it.each<[Given, string | undefined]>([
    [undefined, undefined],
    ['', undefined],
    ['msg_1', 'msg_1'],
    [['msg_1', 'msg_2'], 'msg_2'],
  ])('after %j is %j', (after, expected) => {
    expect(openAiPageIn({ after }).after).toBe(expected);
  });
});

describe('a position', () => {
  it.each<[string, string | undefined]>([
    ['0', '0'],
    ['0000000000000000', '0'],
    ['12', '0000000000000012'],
    ['0000000000000012', '0000000000000012'],
    ['9007199254740991', '9007199254740991'],
    ['9007199254740992', undefined],
    ['9999999999999999', undefined],
    ['00000000000000012', undefined],
    ['', undefined],
    ['-1', undefined],
    ['+1', undefined],
    ['1e3', undefined],
    ['1.0', undefined],
    [' 1', undefined],
    ['1\n', undefined],
    ['1\0', undefined],
    ['١', undefined],
    ['x', undefined],
  ])('%j is %j', (text, expected) => {
    expect(logPosition(text)).toBe(expected);
    const known = expected ?? (text === '' ? undefined : invalid);
    expect(outcome('before', () => entryPositionIn({ before: text }, 'before'))).toBe(known);
    expect(outcome('after', () => entryPositionIn({ after: ['x', text] }, 'after'))).toBe(known);
  });
});

describe('starting_after of a stream', () => {
  it.each<[Given, number | string | undefined]>([
    [undefined, undefined],
    ['0', 0],
    ['12', 12],
    ['999999999999999', 999_999_999_999_999],
    ['9999999999999999', invalid],
    ['', invalid],
    [['1'], invalid],
    [['1', '2'], invalid],
    ['-1', invalid],
    ['+1', invalid],
    ['1e3', invalid],
    ['1.0', invalid],
    [' 1', invalid],
    ['1\n', invalid],
    ['1\0', invalid],
    ['١', invalid],
    ['x', invalid],
  ])('%j is %j', (after, expected) => {
    expect(outcome('starting_after', () => startingAfterIn({ starting_after: after }))).toBe(expected);
  });
});

describe('cursor of the audit log', () => {
  it.each<[Given, string | undefined]>([
    [undefined, undefined],
    ['', undefined],
    ['1767225600000000-17', '1767225600000000-17'],
    [['x', '1-2'], '1-2'],
    ['1', invalid],
    ['1-', invalid],
    ['-1-2', invalid],
    ['1-2-3', invalid],
    ['1e3-2', invalid],
    ['1 -2', invalid],
    ['1-2\0', invalid],
    ['1-2\n', invalid],
    ['١-٢', invalid],
    [`${'1'.repeat(19)}-1`, invalid],
  ])('%j is %j', (cursor, expected) => {
    const read = () => {
      const found = auditCursorIn({ cursor });
      return found === undefined ? undefined : auditCursorText(found);
    };
    expect(outcome('cursor', read)).toBe(expected);
  });
});
