/** Prints the versions that a test run depends on. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = dirname(import.meta.dirname);
const versionOf = (name: string): string =>
  JSON.parse(readFileSync(join(root, 'node_modules', name, 'package.json'), 'utf8')).version;
const tools = ['typescript', '@biomejs/biome', 'vitest'].map((name) => `${name} ${versionOf(name)}`);
console.log(`project: node ${process.version}, sqlite ${process.versions.sqlite}, ${tools.join(', ')}`);
