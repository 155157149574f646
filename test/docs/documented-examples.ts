/** The fenced blocks of the documents for readers, unchanged. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Example {
  /** File and line, such as `docs/admin.md:51`. */
  readonly place: string;
  /** `sh`, `ts`, `sql`, … */
  readonly language: string;
  readonly text: string;
  /** The reason why it is not run: of a comment `<!-- not run: … -->` in the line before it. */
  readonly notRun: string | undefined;
}

const FENCE = /^(?:<!-- not run: (.+?) -->\n)?```(\w+)\n(.*?)^```$/gms;

/** Of the README and everything in `docs/`. Blocks without a language are drawings. */
export function documentedExamples(root: string): readonly Example[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' });
  const files = ['README.md', ...docs.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)];
  return files.sort().flatMap((file) => examplesIn(file, readFileSync(join(root, file), 'utf8')));
}

export function examplesIn(file: string, text: string): readonly Example[] {
  return [...text.matchAll(FENCE)].map(({ 0: whole, 1: notRun, 2: language = '', 3: block = '', index }) => {
    const line = text.slice(0, index + whole.indexOf('```')).split('\n').length;
    return { place: `${file}:${line}`, language, text: block, notRun };
  });
}
