import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load-config.ts';
import { describeProblem } from '../config/problem.ts';
import type { ParsedArguments } from './command.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, type Terminal } from './terminal.ts';

/** The configuration that the gateway would use, given the same flags, variables and file; prints its problems. */
export async function configInForce(
  args: ParsedArguments,
  { env, cwd, providerTypes }: Pick<ProgramParts, 'env' | 'cwd' | 'providerTypes'>,
  terminal: Terminal,
): Promise<Config | undefined> {
  const loaded = loadConfig({ flags: args.values, env, cwd, providerTypes: await providerTypes() });
  if (loaded.ok) return loaded.config;
  for (const problem of loaded.problems) complain(terminal, describeProblem(problem));
  return undefined;
}
