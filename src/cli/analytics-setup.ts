/** `chancery analytics setup` */
import type { ParsedArguments } from './command.ts';
import { configInForce } from './config-in-force.ts';
import type { ProgramParts } from './program-parts.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';

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
