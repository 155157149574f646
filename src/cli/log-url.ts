import { loadConfig } from '../config/load-config.ts';
import { describeProblem } from '../config/problem.ts';
import type { ParsedArguments } from './command.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, type Terminal } from './terminal.ts';

/** The log that the gateway would use, given the same flags, variables and file; says what is wrong when none. */
export async function logUrlOf(
  args: ParsedArguments,
  { env, cwd, providerTypes }: ProgramParts,
  terminal: Terminal,
): Promise<string | undefined> {
  const loaded = loadConfig({ flags: args.values, env, cwd, providerTypes: await providerTypes() });
  if (loaded.ok) return loaded.config.log.url;
  for (const problem of loaded.problems) complain(terminal, describeProblem(problem));
  return undefined;
}
