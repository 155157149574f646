/** `chancery config check|print|schema` and `chancery analytics setup`. */
import { type Config, missingSharedKey } from '../config/config.ts';
import { loadConfig } from '../config/load-config.ts';
import { engineAccess, type LogConfig } from '../config/log-settings.ts';
import { configJsonSchema, printConfig } from '../config/print.ts';
import { describeProblem, type Problem, type RawSettings } from '../config/problem.ts';
import { certificateWarnings, fileProblems } from '../config/server-settings.ts';
import type { ParsedArguments } from './command.ts';
import { configInForce, type ProgramParts } from './program-parts.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

export async function configCommand(
  verb: 'check' | 'print' | 'schema',
  args: ParsedArguments,
  {
    env,
    cwd,
    providerTypes,
    guardrailSecrets,
  }: Pick<ProgramParts, 'env' | 'cwd' | 'providerTypes' | 'guardrailSecrets'>,
  terminal: Terminal,
): Promise<number> {
  const types = await providerTypes();
  if (verb === 'schema') {
    await writeLine(terminal, JSON.stringify(configJsonSchema(types), null, 2));
    return 0;
  }
  const loaded = loadConfig({ flags: args.values, env, cwd, providerTypes: types });
  if (!loaded.ok) {
    for (const problem of loaded.problems) complain(terminal, describeProblem(problem));
    return 1;
  }
  const { config, rawSettings } = loaded;
  if (verb === 'print') {
    const printed = { providers: types, guardrailSecrets: await guardrailSecrets() };
    await writeLine(terminal, printConfig(config, rawSettings, printed).trimEnd());
    return 0;
  }
  const [fileProblem] = fileProblems(config.server, rawSettings);
  const problem = (await problemOfLog(config.log, rawSettings)) ?? problemOfKey(config, rawSettings) ?? fileProblem;
  if (problem !== undefined) {
    complain(terminal, describeProblem(problem));
    return 1;
  }
  for (const notice of [...config.notices, ...certificateWarnings(config.server.tls)]) complain(terminal, notice);
  const providers = config.providers.map(({ name }) => name).join(', ') || 'none';
  await writeLine(terminal, `the configuration is valid; providers: ${providers}`);
  return 0;
}

function problemOfKey(config: Config, raw: RawSettings): Problem | undefined {
  const message = missingSharedKey(config);
  if (message === undefined) return undefined;
  return raw.problem('credentials.key', 'CREDENTIALS_KEY', message);
}

/** What `serve` would refuse when it opens the log, without contacting an engine. */
async function problemOfLog(log: LogConfig, raw: RawSettings): Promise<Problem | undefined> {
  const { engineAccessProblem, logUrlProblem } = await import('../events/open-replicated-log.ts');
  const problem = (setting: 'url' | 'tls', message: string): Problem => {
    const { source, variable } = raw.origin(['log', setting]);
    return {
      path: `log.${setting}`,
      source,
      variable: setting === 'url' ? (variable ?? 'LOG_URL') : variable,
      message,
    };
  };
  let found: ReturnType<typeof logUrlProblem>;
  try {
    found = log.engine === undefined ? logUrlProblem(log.url) : engineAccessProblem(engineAccess(log.url, log.engine));
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return problem('tls', `a file cannot be read: ${error.message}`);
  }
  return found === undefined ? undefined : problem(found.setting, found.reason);
}

/** Exits with 1 when the account could not be created, or has forbidden rights. */
export async function analyticsSetup(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const config = await configInForce(args, parts, terminal);
  if (config === undefined) return 1;
  const { CLICKHOUSE_ADMIN_USER: user, CLICKHOUSE_ADMIN_PASSWORD: password = '' } = parts.env;
  const steps: Promise<boolean>[] = [];
  try {
    const allowed = await parts.setUpAnalyst(config, {
      admin: user === undefined || user === '' ? undefined : { user, password },
      onStep: (step) => steps.push(writeLine(terminal, step)),
    });
    await Promise.all(steps);
    if (allowed.length === 0) return 0;
    complain(
      terminal,
      'the account has more rights than reading its tables. Revoke its other grants, and set ' +
        'access_control_improvements.select_from_system_db_requires_grant to true in the configuration of the server',
    );
    return 1;
  } catch (error) {
    await Promise.all(steps);
    // Errors with a code have a message for users, or are ClickHouse's own.
    if (!(error instanceof Error && 'code' in error)) throw error;
    complain(terminal, error.message);
    return 1;
  }
}
