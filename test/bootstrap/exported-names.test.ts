import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { type SharedName, sharedNameViolations } from '../../scripts/exported-names.ts';

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

function violations(files: Readonly<Record<string, string>>, exceptions: readonly SharedName[] = []): string[] {
  const root = mkdtempSync(join(tmpdir(), 'chancery-names-'));
  roots.push(root);
  for (const [path, source] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), source);
  }
  return sharedNameViolations(root, exceptions);
}

const twice = ['one is exported by src/a.ts and src/b/c.ts: one name, one meaning'];

describe('exported names', () => {
  it('are declared once in this project', () => {
    expect(sharedNameViolations(join(import.meta.dirname, '..', '..'))).toEqual([]);
  });

  it.each([
    'export function one() {}',
    'export async function one() {}',
    'export function* one() {}',
    'export class one {}',
    'export abstract class one {}',
    'export interface one {}',
    'export type one = 1;',
    'export const one = 1;',
  ])('are refused in a second file: %s', (source) => {
    expect(violations({ 'src/a.ts': `${source}\n`, 'src/b/c.ts': 'export interface one {}\n' })).toEqual(twice);
  });

  it('may be declared several times in one file: overloads, a schema and its type', () => {
    const source =
      'export const one = 1;\nexport type one = 1;\nexport function two(): void;\nexport function two() {}\n';
    expect(violations({ 'src/a.ts': source })).toEqual([]);
  });

  it('do not clash with names that are not exported, longer names, or files outside src', () => {
    const files = {
      'src/b/c.ts': 'interface one {}\nexport interface oneMore {}\n',
      'test/d.ts': 'export const one = 1;\n',
    };
    expect(violations({ 'src/a.ts': 'export interface one {}\n', ...files })).toEqual([]);
  });

  it('may be shared by an exception, which must be removed when it is no longer needed', () => {
    const exceptions = [{ name: 'one', reason: 'a mirror' }];
    const first = { 'src/a.ts': 'export interface one {}\n' };
    expect(violations({ ...first, 'src/b.ts': 'export interface one {}\n' }, exceptions)).toEqual([]);
    expect(violations(first, exceptions)).toEqual([
      'one is exported once: remove the exception from scripts/exported-names.ts',
    ]);
  });
});
