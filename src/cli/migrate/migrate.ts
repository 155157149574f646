/**
 * `chancery migrate litellm` and `chancery migrate gomodel`: move another gateway's models, user paths, limits and keys to a
 * running gateway through its admin API. Exit with 1 when the gateway refused something, or cannot be reached.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { loadYaml } from '../../config/sources.ts';
import { adminApi, configuredKey, withAnswers } from '../admin-api.ts';
import { type ParsedArguments, UsageError } from '../command.ts';
import type { ProgramParts } from '../program-parts.ts';
import { complain, count, type Terminal, writeLine } from '../terminal.ts';
import { bring, type Moved } from './moved-objects.ts';

type Parts = Pick<ProgramParts, 'env' | 'cwd' | 'providerTypes' | 'masterKey'>;

export async function migrateLitellm(args: ParsedArguments, parts: Parts, terminal: Terminal): Promise<number> {
  const { litellmModels } = await import('./litellm-config.ts');
  const { litellmObjects, readLitellmTables } = await import('./litellm-database.ts');
  const { config: file, output, databaseUrl } = args.values;
  if (file === undefined) throw new UsageError('--config is missing');
  let models: ReturnType<typeof litellmModels>;
  try {
    const content: unknown = loadYaml().parse(readFileSync(resolve(parts.cwd, file), 'utf8'));
    const given = { env: parts.env, toFile: output !== undefined, hasDatabase: databaseUrl !== undefined };
    models = litellmModels(content, given);
  } catch (error) {
    throw new UsageError(
      `--config: ${file}: ${error instanceof z.ZodError ? z.prettifyError(error) : reasonOf(error)}`,
    );
  }
  let database: Moved = { objects: [], notTaken: [] };
  if (databaseUrl !== undefined) {
    try {
      database = litellmObjects(await readLitellmTables(databaseUrl), models.selectorsOf, Date.now());
    } catch (error) {
      complain(terminal, `--database-url: the database cannot be read: ${reasonOf(error)}`);
      return 1;
    }
  }
  const moved = {
    objects: [...models.objects, ...database.objects],
    notTaken: [...models.notTaken, ...database.notTaken],
  };
  const declared = Object.keys(models.yaml);
  if (output !== undefined && declared.length > 0) {
    const text = loadYaml().stringify({ providers: models.yaml });
    writeOnce(resolve(parts.cwd, output), text, args.switches.has('dryRun'));
    await report(terminal, 'written', `${output}: providers ${declared.join(', ')}`);
  }
  return migrate(moved, new Set(declared), args, parts, terminal);
}

/** @throws UsageError for a file with another content, which may be the configuration itself */
function writeOnce(path: string, text: string, dryRun: boolean): void {
  if (existsSync(path) && readFileSync(path, 'utf8') !== text) {
    throw new UsageError(`--output: ${path} exists with another content; remove it, or give another file`);
  }
  if (!dryRun) writeFileSync(path, text, { mode: 0o600 });
}

export async function migrateGomodel(args: ParsedArguments, parts: Parts, terminal: Terminal): Promise<number> {
  const { gomodelObjects } = await import('./gomodel.ts');
  const { sqlite: file } = args.values;
  if (file === undefined) throw new UsageError('--sqlite is missing');
  let moved: Moved;
  try {
    moved = gomodelObjects(resolve(parts.cwd, file), Date.now());
  } catch (error) {
    throw new UsageError(`--sqlite: ${file} cannot be read: ${reasonOf(error)}`);
  }
  return migrate(moved, new Set(), args, parts, terminal);
}

/** @param declared providers that are written for chancery.yaml */
async function migrate(
  { objects, notTaken }: Moved,
  declared: ReadonlySet<string>,
  args: ParsedArguments,
  parts: Parts,
  terminal: Terminal,
): Promise<number> {
  const { gateway, key: givenKey, dataDir } = args.values;
  const dryRun = args.switches.has('dryRun');
  if (gateway === undefined && !dryRun)
    throw new UsageError('--gateway is missing: the address of the running gateway');
  let api: ReturnType<typeof adminApi> | undefined;
  if (gateway !== undefined) {
    const settings = { ...args, values: { dataDir } };
    const configured = givenKey === undefined ? await configuredKey(settings, parts, terminal) : { key: givenKey };
    if (configured === undefined) return 1;
    api = adminApi(gateway, configured.key);
  }
  return withAnswers(gateway ?? '', terminal, async () => {
    const counts: Record<string, number> = {};
    for await (const { outcome, line } of bring(objects, api, { dryRun, declared })) {
      counts[outcome] = (counts[outcome] ?? 0) + 1;
      if (outcome !== 'same' && !(await report(terminal, outcome, line))) return 1;
    }
    for (const line of notTaken) await report(terminal, 'not taken', line);
    const numbers = ['new', 'changed', 'same', 'kept', 'waits', 'refused'].map((one) => `${counts[one] ?? 0} ${one}`);
    const end = dryRun ? '; nothing was changed, nor sent for the gateway to check' : '';
    await writeLine(terminal, `\n${numbers.join(', ')}; ${count(notTaken.length, 'line')} not taken${end}`);
    return counts['refused'] === undefined ? 0 : 1;
  });
}

/** One line: a line feed in a name of the other gateway begins none. */
function report(terminal: Terminal, outcome: string, line: string): Promise<boolean> {
  return writeLine(terminal, `${outcome.padEnd(11)}${line.replaceAll('\n', '\\u000a')}`);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
}
