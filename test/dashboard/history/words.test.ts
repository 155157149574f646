/** Words for the changes of administrators, and the subjects that have a history. */
import { describe, expect, it } from 'vitest';
import { changeWords, hasWords, titleOf } from '../../../dashboard/src/pages/history/change-words.ts';
import { fieldText } from '../../../dashboard/src/pages/history/field-text.ts';
import { subjectKinds, subjectOf } from '../../../dashboard/src/pages/history/subjects.ts';
import { catalogue } from '../../../src/events/catalogue/catalogue.ts';
import { subjectKinds as kindsOfApi } from '../../../src/projections/admin-history.ts';
import { adminJournal } from '../../../src/projections/admin-journal.ts';

describe('the words of changes', () => {
  it('exist for every type of event that a history can have', () => {
    const prefixes = [...(adminJournal.filter.types ?? []), 'provider.', 'audit.read', 'cache.purged'];
    const types = [...catalogue.keys()].filter((type) => prefixes.some((prefix) => type.startsWith(prefix)));
    expect(types.length).toBeGreaterThan(30);
    expect(types.filter((type) => !hasWords(type))).toEqual([]);
  });

  it('are the type itself for a newer gateway', () => {
    expect(changeWords('key.painted')).toBe('key.painted');
    expect(titleOf('audit.read', { what: 'sql' })).toBe('SQL query');
    expect(titleOf('audit.read', { what: 'response' })).toBe('Recorded content read');
  });
});

describe('the subjects', () => {
  it('are those of the API', () => {
    expect(subjectKinds.map(({ name }) => name).sort()).toEqual([...kindsOfApi].sort());
  });

  it.each([
    ['user:/team', '/keys', { path: '/team' }],
    ['budget:label:batch', '/budgets', { q: 'batch' }],
    ['rate-limit:user_path:/team', '/budgets', { tab: 'limits', q: '/team' }],
    ['price:openai/gpt', '/models', { tab: 'prices', q: 'openai/gpt' }],
    ['settings:budgets', '/budgets', { tab: 'settings' }],
    ['key:a/b', '/keys/a%2Fb', undefined],
  ])('lead to their page: %s', (text, path, query) => {
    const { kind, id = '' } = subjectOf(text) ?? {};
    expect(kind?.page(id)).toEqual({ path, ...(query === undefined ? {} : { query }) });
  });

  it('have ids with colons', () => {
    expect(subjectOf('rate-limit:user_path:/team')).toMatchObject({
      kind: { name: 'rate-limit' },
      id: 'user_path:/team',
    });
    expect(subjectOf('key:')).toBeUndefined();
    expect(subjectOf('door:1')).toBeUndefined();
  });
});

describe('the text of a field', () => {
  it('is a list of words with commas, and JSON of other values', () => {
    expect(fieldText(['a', 'b'])).toBe('a, b');
    expect(fieldText([])).toBe('[]');
    expect(fieldText('x')).toBe('x');
    expect(fieldText(0.02)).toBe('0.02');
    expect(fieldText(false)).toBe('false');
    expect(fieldText([{ a: 1 }])).toBe('[\n {\n  "a": 1\n }\n]');
  });
});
