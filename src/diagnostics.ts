/** The gateway's diagnostics on standard error: lines of JSON for programs, or of text for people. */
import pino, { type DestinationStream, type Logger } from 'pino';
import { isObject } from './json/is-object.ts';
import { isOperatingCondition } from './operating-conditions.ts';
import { printable } from './projections/printable.ts';

export interface DiagnosticsOptions {
  readonly level: string;
  /** `auto`: text on a terminal, else JSON. */
  readonly format: 'auto' | 'text' | 'json';
}

/**
 * A condition of operation, such as a full disk, has a stack only at the levels `debug` and `trace`.
 * @param output default: standard error, written synchronously
 */
export function createDiagnostics(
  { level, format }: DiagnosticsOptions,
  output: DestinationStream = standardError(),
  isTerminal = process.stderr.isTTY === true,
): Logger {
  const isText = format === 'text' || (format === 'auto' && isTerminal);
  const shown = isText ? readableLine : printable;
  const destination = { write: (line: string) => output.write(shown(line)) };
  const hasStacks = level === 'debug' || level === 'trace';
  const serializers = { err: hasStacks ? pino.stdSerializers.err : withoutNeedlessStack };
  return pino({ level, base: null, timestamp: pino.stdTimeFunctions.isoTime, serializers }, destination);
}

function withoutNeedlessStack(error: Error): object {
  if (!isOperatingCondition(error)) return pino.stdSerializers.err(error);
  const { name: type, message, code, path } = error as NodeJS.ErrnoException;
  return { type, message, code, path };
}

/** A line that cannot be written, because the disk behind it is full or its reader has gone, is lost without an error. */
function standardError(): DestinationStream {
  const output = pino.destination({ dest: process.stderr.fd, sync: true });
  output.on('error', () => {});
  return output;
}

/**
 * Formats one of pino's lines for people: time, level, message, then the other members. Only the stack of an error
 * takes further lines. External text cannot begin a line or send control sequences to the terminal.
 */
export function readableLine(json: string): string {
  const { level, time, msg, err, ...others }: Record<string, unknown> = JSON.parse(json);
  const label = pino.levels.labels[Number(level)] ?? String(level);
  const { message, stack } = isObject(err) ? err : {};
  const summary = [...new Set([msg, message])].filter((each) => typeof each === 'string' && each !== '').join(': ');
  const members = Object.entries(others).map(([name, value]) => `${name}=${plain(value)}`);
  const line = [String(time), label.toUpperCase().padEnd(5), summary, ...members].join(' ').trimEnd();
  const frames = typeof stack === 'string' ? stack.split('\n').filter((each) => /^\s+at /.test(each)) : [];
  return [line, ...frames].map((each) => `${printable(each.replaceAll(/[\t\n]/g, ' '))}\n`).join('');
}

function plain(value: unknown): string {
  return typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
}
