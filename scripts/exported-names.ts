/** One meaning per name: a function, class, type, interface or constant that src exports is declared in one file. */
import { globSync, readFileSync } from 'node:fs';
import { join, sep } from 'node:path';

/** A name that may be declared in several files, and why. */
export interface SharedName {
  readonly name: string;
  readonly reason: string;
}

const ofCommands = 'commands declare what they need of a projection; projections import no commands';
const ofConfig = 'the configuration imports nothing; its values have the shape that providers take';

/** Interfaces that mirror each other on purpose: the type check compares them where one is passed for the other. */
const sharedNames: readonly SharedName[] = [
  { name: 'RateLimitRule', reason: ofCommands },
  { name: 'StoredResponse', reason: ofCommands },
  { name: 'ProviderConfig', reason: ofConfig },
  { name: 'ProviderTimeouts', reason: ofConfig },
];

const declaration =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|class|interface|type|const|let|enum) +([\w$]+)/gm;

/** Every name that several files of `root`/src export and every exception that is no longer needed, one sentence each. */
export function sharedNameViolations(root: string, exceptions: readonly SharedName[] = sharedNames): string[] {
  const filesOf = new Map<string, Set<string>>();
  for (const path of globSync('src/**/*.ts', { cwd: root }).sort()) {
    const file = path.split(sep).join('/');
    for (const [, name = ''] of readFileSync(join(root, path), 'utf8').matchAll(declaration)) {
      filesOf.set(name, (filesOf.get(name) ?? new Set()).add(file));
    }
  }
  const excepted = new Set(exceptions.map(({ name }) => name));
  const shared = [...filesOf].filter(([name, files]) => files.size > 1 && !excepted.has(name));
  const ended = [...excepted].filter((name) => (filesOf.get(name)?.size ?? 0) < 2);
  return [
    ...shared.map(([name, files]) => `${name} is exported by ${[...files].join(' and ')}: one name, one meaning`),
    ...ended.map((name) => `${name} is exported once: remove the exception from scripts/exported-names.ts`),
  ];
}
