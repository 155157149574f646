/** `chancery plugin new` and `chancery plugin check`. */
import { resolve } from 'node:path';
import { type ParsedArguments, UsageError } from './command.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

const MIB = 1024 * 1024;

export async function pluginNew(args: ParsedArguments, { cwd }: ProgramParts, terminal: Terminal): Promise<number> {
  const { writeStarter } = await import('../plugins/starter.ts');
  const folder = resolve(cwd, args.operands[0] ?? '');
  try {
    for (const path of writeStarter(folder)) await writeLine(terminal, path);
  } catch (error) {
    complain(terminal, error instanceof Error ? error.message : String(error));
    return 1;
  }
  await writeLine(terminal, `\nTest it: chancery plugin check ${args.operands[0]}`);
  await writeLine(terminal, `Use it:  PLUGINS_ENABLED=true PLUGINS='[{"path":"${folder}"}]' chancery serve`);
  return 0;
}

export async function pluginCheck(args: ParsedArguments, { cwd }: ProgramParts, terminal: Terminal): Promise<number> {
  const { checkPlugin } = await import('../plugins/check-plugin.ts');
  const { ok, lines } = await checkPlugin({
    path: args.operands[0] ?? '',
    cwd,
    settings: settingsIn(args.values['settings']),
    memoryBytes: 256 * MIB,
    timeoutMs: 5_000,
  });
  for (const line of lines) await writeLine(terminal, line);
  return ok ? 0 : 1;
}

/** @throws UsageError */
function settingsIn(text = '{}'): Record<string, unknown> {
  try {
    const given: unknown = JSON.parse(text);
    if (typeof given === 'object' && given !== null && !Array.isArray(given)) return { ...given };
  } catch {
    // Below.
  }
  throw new UsageError('--settings: expected a JSON object');
}
