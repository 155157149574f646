/** `chancery config check|print|schema` */
import { configJsonSchema } from '../config/json-schema.ts';
import { loadConfig } from '../config/load-config.ts';
import { printConfig } from '../config/print.ts';
import { describeProblem } from '../config/problem.ts';
import type { ParsedArguments } from './command.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

export async function configCommand(
  verb: 'check' | 'print' | 'schema',
  args: ParsedArguments,
  { env, cwd, providerTypes, guardrailSecrets }: ProgramParts,
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
  for (const notice of config.notices) complain(terminal, notice);
  const providers = config.providers.map(({ name }) => name).join(', ') || 'none';
  await writeLine(terminal, `the configuration is valid; providers: ${providers}`);
  return 0;
}
