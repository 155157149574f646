/** The commands of the command line in a process of their own, as users run them. */
import { execFile } from 'node:child_process';
import { inheritedVariables } from '../e2e/gateway-process.ts';
import { main } from './main-program.ts';

export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs `chancery` in this folder to its end.
 * @param env further variables; of the inherited ones it has only those that any program needs
 */
export function chancery(
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { cwd, env: { ...inheritedVariables(), ...env } };
    execFile(process.execPath, [main, ...args], options, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
    });
  });
}
