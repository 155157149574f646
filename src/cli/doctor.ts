/** `chancery doctor`: whether the gateway can run here, and what to do where it cannot. */
import { loadConfig } from '../config/load-config.ts';
import { describeProblem } from '../config/problem.ts';
import type { ParsedArguments } from './command.ts';
import type { ProgramParts } from './program-parts.ts';
import { type Terminal, writeLine } from './terminal.ts';

/** Exits with 1 when there is a problem; warnings do not count. */
export async function doctor(args: ParsedArguments, parts: ProgramParts, terminal: Terminal): Promise<number> {
  const { env, cwd } = parts;
  const loaded = loadConfig({ flags: args.values, env, cwd, providerTypes: await parts.providerTypes() });
  const callsProviders = args.switches.has('call');
  const findings = loaded.ok
    ? [
        { check: 'configuration', status: 'ok' as const, message: 'the settings are valid', advice: undefined },
        ...(await parts.examine({ config: loaded.config, settings: loaded.settings, env, cwd, callsProviders })),
      ]
    : loaded.problems.map((problem) => {
        const advice = 'chancery config check has every problem of the settings; the other checks need them';
        return { check: 'configuration', status: 'problem' as const, message: describeProblem(problem), advice };
      });
  if (args.switches.has('json')) await writeLine(terminal, JSON.stringify({ findings }));
  else {
    for (const { check, status, message, advice } of findings) {
      const then = advice === undefined || status === 'ok' ? '' : `: ${advice}`;
      await writeLine(terminal, `${status.padEnd(8)} ${check.padEnd(13)} ${message}${then}`);
    }
  }
  return findings.some(({ status }) => status === 'problem') ? 1 : 0;
}
