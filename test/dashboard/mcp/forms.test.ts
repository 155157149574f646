import { describe, expect, it } from 'vitest';
import { connectSnippets } from '../../../dashboard/src/pages/mcp/connect-snippets.ts';
import { bodyOf, draftOf, withoutSecrets } from '../../../dashboard/src/pages/mcp/server-draft.ts';
import { fieldsOfSchema, initialArguments } from '../../../dashboard/src/pages/mcp/tool-form.ts';

describe('the form of a tool', () => {
  const schema = {
    type: 'object',
    required: ['text', 'loud'],
    properties: {
      text: { type: 'string', title: 'Text', description: 'What to say' },
      size: { type: 'string', enum: ['small', 'large'], default: 'small' },
      times: { type: 'integer', minimum: 1 },
      loud: { type: 'boolean' },
      tags: { type: 'array', items: { type: 'string' } },
      days: { type: 'array', items: { enum: ['mon', 'tue'] } },
      point: { type: 'object', properties: { x: { type: 'number' } } },
      free: { type: 'object' },
      level: { type: 'integer', enum: [1, 2] },
      either: { anyOf: [{ type: 'string' }, { type: 'number' }] },
      pairs: { type: 'array', items: { type: 'array' } },
      any: true,
    },
  };

  it('has a field for each argument, and JSON for what has no field', () => {
    const fields = fieldsOfSchema(schema) ?? [];
    expect(Object.fromEntries(fields.map(({ key, kind }) => [key, kind]))).toEqual({
      ...{ text: 'text', size: 'choice', times: 'number', loud: 'boolean', tags: 'list', days: 'choices' },
      ...{ point: 'object', free: 'json', level: 'json', either: 'json', pairs: 'json', any: 'json' },
    });
    expect(fields[0]).toEqual({ key: 'text', label: 'Text', required: true, help: 'What to say', kind: 'text' });
    expect(initialArguments(schema)).toEqual({ size: 'small', loud: false });
  });

  it.each([
    ['a list', { type: 'array' }],
    ['a choice of schemas', { type: 'object', oneOf: [] }],
    ['no type', {}],
  ])('is JSON for %s', (_what, given) => {
    expect(fieldsOfSchema(given)).toBeUndefined();
  });

  it('has no fields for a tool without arguments', () => {
    expect(fieldsOfSchema({ type: 'object' })).toEqual([]);
    expect(fieldsOfSchema({ type: 'object', properties: {} })).toEqual([]);
  });

  it('ends at the third level', () => {
    const level = (inner: object) => ({ type: 'object', properties: { in: inner } });
    const [first] = fieldsOfSchema(level(level(level(level({ type: 'string' }))))) ?? [];
    const second = first?.kind === 'object' ? first.fields[0] : undefined;
    expect(second?.kind === 'object' ? second.fields[0]?.kind : second).toBe('json');
  });
});

describe('the form of an MCP server', () => {
  const row = {
    ...{ name: 'Tickets', slug: 'tickets', transport: 'sse', url: 'https://tickets.example.com', enabled: true },
    ...{ headers: { 'x-key': '***' }, tool_timeout_seconds: 5, pin: true, user_paths: ['/team'] },
    oauth: { grant: 'client_credentials' as const, client_id: 'a', client_secret: '***', per_user_path: false },
  };

  it('sends what it got, with masks that the gateway keeps', () => {
    const body = bodyOf(draftOf(row), { slug: row.slug, enabled: true });
    expect(body).toEqual({
      ...{ name: 'Tickets', slug: 'tickets', transport: 'sse', url: row.url, enabled: true },
      ...{ headers: { 'x-key': '********' }, tool_timeout_seconds: 5, pin: true, user_paths: ['/team'] },
      oauth: { grant: 'client_credentials', client_id: 'a', client_secret: '********' },
    });
  });

  it('compares versions without their secrets', () => {
    const draft = { ...draftOf(row), headers: [{ name: 'x-key', value: 'new-secret' }] };
    expect(JSON.stringify(withoutSecrets(draft))).not.toMatch(/secret"?:"new|new-secret|\*\*\*/);
    expect(withoutSecrets(draft)).toEqual(withoutSecrets(draftOf(row)));
  });
});

describe('the settings of clients', () => {
  it('name the server and the variable with the key, and no key', () => {
    for (const { text } of connectSnippets('https://ai.example.com/base', 'tickets')) {
      expect(text).toContain('https://ai.example.com/base/mcp/tickets');
      expect(text).toMatch(/CHANCERY_API_KEY|chancery-key/);
    }
    for (const { text } of connectSnippets('https://ai.example.com', undefined)) {
      expect(text).toMatch(/https:\/\/ai\.example\.com\/mcp["\s]/);
    }
    const [, , cursor, vscode] = connectSnippets('https://ai.example.com', 'tickets').map(({ text }) => text);
    for (const json of [cursor, vscode]) expect(() => JSON.parse(json ?? '')).not.toThrow();
  });
});
