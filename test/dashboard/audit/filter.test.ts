import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type AuditFilter,
  activeFilters,
  type FilterName,
  filterIn,
  filterNames,
  isSurelyId,
  mayBeId,
  queryOfFilter,
  searchedFor,
  toggled,
  withValues,
} from '../../../dashboard/src/pages/audit/filter.ts';

const multiple: readonly FilterName[] = ['error_code', 'auth_key_id', 'label', 'session_id', 'endpoint', 'guardrail'];
const words: readonly FilterName[] = ['outcome', 'status_class', 'status_code', 'cache_type', 'guardrail_verdict'];

const texts = fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 4 });
const filters: fc.Arbitrary<AuditFilter> = fc
  .record(
    Object.fromEntries(
      filterNames.map((name) => {
        if (multiple.includes(name)) return [name, texts];
        if (words.includes(name))
          return [name, texts.filter((values) => values.every((value) => !value.includes(',')))];
        return [name, fc.string({ minLength: 1 }).map((value) => [value])];
      }),
    ),
    { requiredKeys: [] },
  )
  .map((filter) => filter as AuditFilter);

function addressOf(filter: AuditFilter): URLSearchParams {
  const address = new URLSearchParams();
  for (const [name, values] of Object.entries(queryOfFilter(filter))) {
    for (const value of values ?? []) address.append(name, value);
  }
  return address;
}

describe('the filter in an address', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(filters, (filter) => {
        const address = new URLSearchParams(addressOf(filter).toString());
        expect(filterIn(address)).toEqual(filter);
      }),
    );
  });

  it('reads words with commas, keeps commas in texts, and takes the last of single values', () => {
    const address = new URLSearchParams('outcome=failed,refused&outcome=failed&label=a,b&search=x&search=y&method=');
    expect(filterIn(address)).toEqual({ outcome: ['failed', 'refused'], label: ['a,b'], search: ['y'] });
  });

  it('leaves parameters of the time range and of the page alone', () => {
    expect(filterIn(new URLSearchParams('range=7d&from=x&to=y&group=session'))).toEqual({});
  });
});

describe('a changed filter', () => {
  it('toggled twice is the same', () => {
    fc.assert(
      fc.property(filters, fc.constantFrom(...multiple), fc.string({ minLength: 1 }), (filter, name, value) => {
        fc.pre(!(filter[name] ?? []).includes(value));
        expect(toggled(toggled(filter, name, value), name, value)).toEqual(filter);
      }),
    );
  });

  it('has one value of a parameter that takes one', () => {
    expect(toggled({ user_path: ['/a'] }, 'user_path', '/b')).toEqual({ user_path: ['/b'] });
    expect(toggled({ user_path: ['/a'] }, 'user_path', '/a')).toEqual({});
    expect(withValues({ search: ['a'] }, 'search', [''])).toEqual({});
  });

  it('lists each value by itself', () => {
    expect(activeFilters({ label: ['a', 'b'], id: ['x'] })).toEqual([
      { name: 'id', value: 'x' },
      { name: 'label', value: 'a' },
      { name: 'label', value: 'b' },
    ]);
  });
});

describe('a searched text', () => {
  const uuid = '01a1e8d2-0450-73ab-b4da-af4cc8a09188';

  it.each([
    [uuid, true],
    [uuid.toUpperCase(), true],
    ['resp_0123456789abcdef0123456789abcdef', true],
    ['msg_0123456789abcdef0123456789abcdef_0', true],
    ['gpt-4o-mini', false],
    ['session-3', false],
    ['rate_limit_error', false],
  ])('%s is an id and nothing else: %s', (text, isId) => {
    expect(isSurelyId(text)).toBe(isId);
    expect(mayBeId(text)).toBe(true);
  });

  it('is searched as an id or as a text, in the place of the one before', () => {
    expect(searchedFor({ search: ['old'], outcome: ['failed'] }, ` ${uuid} `)).toEqual({
      id: [uuid],
      outcome: ['failed'],
    });
    expect(searchedFor({ id: [uuid] }, 'it broke')).toEqual({ search: ['it broke'] });
    expect(searchedFor({ id: [uuid], search: ['x'] }, ' ')).toEqual({});
    expect(mayBeId('it broke')).toBe(false);
  });
});
