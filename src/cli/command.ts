/** Declares commands and reads their flags. It uses Node's own parser: a library would take longer to load. */
import { parseArgs } from 'node:util';

export interface Flag {
  /** The name of its value, for example `PORT`; a switch when absent. */
  readonly value?: string;
  readonly short?: string;
  readonly repeatable?: boolean;
  readonly about: string;
}

/** By long name, as on the command line: `log-url`. */
export type Flags = Readonly<Record<string, Flag>>;

export interface CommandShape {
  /** The words on the command line: `log cat`. */
  readonly name: string;
  readonly about: string;
  /** Names of the arguments that must follow. */
  readonly operands?: readonly string[];
  readonly flags: Flags;
}

export interface ParsedArguments {
  /** Flags with a value, by name in camel case: `logUrl` for `--log-url`. */
  readonly values: Readonly<Record<string, string | undefined>>;
  readonly lists: Readonly<Record<string, readonly string[]>>;
  readonly switches: ReadonlySet<string>;
  readonly operands: readonly string[];
}

/** The command line is wrong. The message states the error. */
export class UsageError extends Error {}

/** @throws UsageError */
export function parseArguments(shape: CommandShape, args: readonly string[]): ParsedArguments {
  const options = Object.fromEntries(
    Object.entries({ ...shape.flags, help: helpFlag }).map(([name, flag]) => [
      name,
      {
        type: flag.value === undefined ? ('boolean' as const) : ('string' as const),
        multiple: flag.repeatable ?? false,
        ...(flag.short === undefined ? {} : { short: flag.short }),
      },
    ]),
  );
  const { values, positionals } = parse(args, options);
  const operands = shape.operands ?? [];
  if (positionals.length > operands.length)
    throw new UsageError(`unexpected argument "${positionals[operands.length]}"`);
  const parsed = {
    values: {} as Record<string, string>,
    lists: {} as Record<string, readonly string[]>,
    switches: new Set<string>(),
    operands: positionals,
  };
  for (const [name, value] of Object.entries(values)) {
    if (value === true) parsed.switches.add(camelCase(name));
    else if (typeof value === 'string') parsed.values[camelCase(name)] = value;
    else if (Array.isArray(value)) parsed.lists[camelCase(name)] = value.map(String);
  }
  const missing = operands[positionals.length];
  if (missing !== undefined && !parsed.switches.has('help')) throw new UsageError(`<${missing}> is missing`);
  return parsed;
}

const helpFlag: Flag = { short: 'h', about: 'show this help' };

function parse(args: readonly string[], options: NonNullable<Parameters<typeof parseArgs>[0]>['options']) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // Node adds advice about its own syntax after the first sentence.
    throw new UsageError(error.message.split('. ')[0] ?? error.message);
  }
}

export function helpFor(shape: CommandShape): string {
  const operands = (shape.operands ?? []).map((name) => ` <${name}>`).join('');
  const rows = Object.entries({ ...shape.flags, help: helpFlag }).map(([name, flag]) => {
    const short = flag.short === undefined ? '    ' : `-${flag.short}, `;
    return [`  ${short}--${name}${flag.value === undefined ? '' : ` <${flag.value}>`}`, flag.about] as const;
  });
  return `chancery ${shape.name}${operands} [flags]\n\n${shape.about}\n\nFlags:\n${twoColumns(rows)}`;
}

export function twoColumns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `${left.padEnd(width)}  ${right}`.trimEnd()).join('\n');
}

function camelCase(name: string): string {
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
