/** Rules about request headers in numbered variables: `TAGGING_HEADER_1`, `SESSION_HEADER_2`, and so on. */
import { isMapping, type RawSettings, type Source } from './raw-settings.ts';
import type { Environment } from './sources.ts';

interface Numbered {
  readonly path: readonly [string, string];
  /** The part of the name before the number. */
  readonly prefix: string;
  /** The possible parts after the number, each with the member of the rule that it sets. */
  readonly members: Readonly<Record<string, string>>;
}

const families: readonly Numbered[] = [
  {
    path: ['tagging', 'headers'],
    prefix: 'TAGGING_HEADER_',
    members: { PREFIX: 'prefix', DELIMITER: 'delimiter', DONOTPASS: 'do_not_pass' },
  },
  { path: ['session', 'headers'], prefix: 'SESSION_HEADER_', members: { TRANSFORM: 'transform' } },
];

/**
 * Adds the rules of the environment after those of the file, in the order of their numbers. A rule replaces a rule of
 * the file for the same header.
 */
export function overlayNumberedHeaders(
  raw: RawSettings,
  env: Environment,
  sourceOf: (variable: string) => Source,
): void {
  for (const { path, prefix, members } of families) {
    const numbers = Object.keys(env)
      .filter((name) => name.startsWith(prefix) && /^[1-9]\d{0,3}$/.test(name.slice(prefix.length)))
      .filter((name) => (env[name] ?? '').trim() !== '')
      .map((name) => Number(name.slice(prefix.length)))
      .sort((a, b) => a - b);
    const [first] = numbers;
    if (first === undefined) continue;
    const rules = numbers.map((number) => ruleOf(`${prefix}${number}`, members, env));
    const replaced = new Set(rules.map(({ header }) => header?.toLowerCase()));
    const input = raw.get([...path]);
    const kept = (Array.isArray(input) ? input : []).filter(
      (rule) => !isMapping(rule) || !replaced.has(String(rule['header']).toLowerCase()),
    );
    const variable = `${prefix}${first}`;
    raw.set([...path], [...kept, ...rules], { source: sourceOf(variable), variable });
  }
}

function ruleOf(
  variable: string,
  members: Readonly<Record<string, string>>,
  env: Environment,
): Record<string, string | undefined> {
  const rule: Record<string, string | undefined> = { header: env[variable]?.trim() };
  for (const [suffix, member] of Object.entries(members)) {
    const value = env[`${variable}_${suffix}`];
    if (value !== undefined && value !== '') rule[member] = value;
  }
  return rule;
}
