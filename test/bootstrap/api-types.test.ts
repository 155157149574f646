import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { servedApiDocument } from '../../scripts/api-document.ts';
import { apiTypes } from '../../scripts/api-types.ts';

const root = dirname(dirname(import.meta.dirname));
const folder = mkdtempSync(join(tmpdir(), 'chancery-types-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** What the compiler reports for `source`, which has the generated types at `./api.d.ts`. */
function compile(types: string, source: string): string {
  writeFileSync(join(folder, 'api.d.ts'), types);
  writeFileSync(join(folder, 'use.ts'), source);
  const compiler = join(root, 'node_modules/typescript/bin/tsc');
  const options = ['--noEmit', '--strict', '--target', 'es2024', '--types', ''];
  const { stdout, status } = spawnSync(process.execPath, [compiler, ...options, join(folder, 'use.ts')], {
    cwd: folder,
    encoding: 'utf8',
  });
  return status === 0 ? '' : stdout;
}

function documentOf(schema: object) {
  const operation = { operationId: 'one', responses: { 200: { content: { 'application/json': { schema } } } } };
  return { paths: { '/one': { get: operation } } } as never;
}

const answer =
  "import type { paths } from './api.d.ts';\n" +
  "type Answer = paths['/one']['get']['responses']['200']['content']['application/json'];\n";

describe('the types of the API', () => {
  it('describe answers, parameters and bodies of the served document', async () => {
    const source = `
      import type { components, operations, paths } from './api.d.ts';
      type Page = paths['/admin/audit/log']['get']['responses']['200']['content']['application/json'];
      type Query = NonNullable<operations['adminAuditLog']['parameters']['query']>;
      declare const page: Page;
      const outcome: 'completed' | 'failed' | 'refused' | 'disconnected' | 'in_progress' | undefined =
        page.entries[0]?.outcome;
      const query: Query = { limit: 20, user_path: '/team' };
      // @ts-expect-error: a number
      const wrong: Query = { limit: 'many' };
      // @ts-expect-error: no such member
      page.rows;
      // @ts-expect-error: no such path
      type Missing = paths['/admin/nothing'];
      type Key = paths['/admin/auth-keys/{id}']['get']['parameters']['path'];
      const key: Key = { id: 'a' };
      // @ts-expect-error: the parameter of a path is required
      const noKey: Key = {};
      const error: components['schemas']['Error']['error']['message'] = 'text';
      export { outcome, query, wrong, key, noKey, error, type Missing };
    `;
    expect(compile(apiTypes(await servedApiDocument()), source)).toBe('');
  });

  it.each([
    [{ type: 'string', enum: ['a', 'b'] }, "'a' as const", "'c'"],
    [{ const: 3 }, '3 as const', '4'],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'null', '1'],
    [{ type: ['integer', 'null'] }, '1', "'1'"],
    [{ type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'boolean' }] } }, "['a', true]", '[1]'],
    [{ type: 'object', additionalProperties: { type: 'number' } }, '{ any: 1 }', "{ any: 'one' }"],
    [{ type: 'object', properties: { a: { type: 'string' } }, additionalProperties: {} }, '{ b: 1 }', '{ a: 1 }'],
    [{ type: 'object', properties: { 'a-b': {} }, required: ['a-b'] }, "{ 'a-b': 1 }", '{}'],
    [{ allOf: [{ type: 'object', properties: { a: { type: 'string' } } }] }, "{ a: '' }", '{ a: 1 }'],
  ])('accept exactly the values of %j', (schema, good, bad) => {
    const source = `${answer}export const good: Answer = ${good};\n// @ts-expect-error\nexport const bad: Answer = ${bad};`;
    expect(compile(apiTypes(documentOf(schema)), source)).toBe('');
  });

  it('cannot be broken by a description', () => {
    const schema = { type: 'object', properties: { a: { type: 'string', description: '`*/*`\n */ evil' } } };
    expect(compile(apiTypes(documentOf(schema)), `${answer}export const good: Answer = { a: '' };`)).toBe('');
  });
});
