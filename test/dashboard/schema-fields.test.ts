import { describe, expect, it } from 'vitest';
import {
  fieldsOfEditor,
  linesOf,
  parsedJson,
  withMember,
  withUnknownMembers,
} from '../../dashboard/src/ui/schema-fields.ts';

describe('form fields of a description', () => {
  it('has a field of the right kind for each input of the gateway', () => {
    const options = [{ value: 'a', label: 'The first' }];
    const inputs = ['text', 'textarea', 'number', 'select', 'checkboxes', 'secret', 'model'] as const;
    const fields = fieldsOfEditor(
      inputs.map((input) => ({ key: input, label: input, input, required: input === 'text', options })),
      ['openai/gpt-5-mini'],
    );
    expect(fields.map(({ kind }) => kind)).toEqual([
      ...['text', 'textarea', 'number', 'choice', 'choices', 'secret', 'text'],
    ]);
    expect(fields[0]).toEqual({ key: 'text', label: 'text', required: true, kind: 'text' });
    expect(fields[3]).toMatchObject({ options: [{ value: 'a', title: 'The first' }] });
    expect(fields[6]).toMatchObject({ suggestions: ['openai/gpt-5-mini'] });
  });

  it('keeps help and placeholder', () => {
    const [field] = fieldsOfEditor([
      { key: 'rate', label: 'Rate', input: 'number', required: false, help: 'From 0 to 1.', placeholder: '0.2' },
    ]);
    expect(field).toEqual({
      ...{ key: 'rate', label: 'Rate', required: false, help: 'From 0 to 1.', placeholder: '0.2', kind: 'number' },
    });
  });

  it('shows members without a field as JSON', () => {
    const fields = withUnknownMembers([{ key: 'known', label: 'Known', kind: 'text' }], { known: 'x', other: [1] });
    expect(fields.map(({ key, kind }) => [key, kind])).toEqual([
      ['known', 'text'],
      ['other', 'json'],
    ]);
  });
});

describe('the value of a form', () => {
  it('loses an emptied member and keeps the others', () => {
    expect(withMember({ a: 1, b: 2 }, 'a', undefined)).toEqual({ b: 2 });
    expect('a' in withMember({ a: 1 }, 'a', undefined)).toBe(false);
    expect(withMember({ a: 1, b: 2 }, 'a', false)).toEqual({ a: false, b: 2 });
  });

  it('has one entry for each line that is not blank', () => {
    expect(linesOf(' /team \n\n/team/alpha\n')).toEqual(['/team', '/team/alpha']);
    expect(linesOf(' \n')).toEqual([]);
  });

  it('tells JSON from other texts', () => {
    expect(parsedJson('null')).toEqual({ value: null });
    expect(parsedJson('{"a": ')).toBeUndefined();
  });
});
